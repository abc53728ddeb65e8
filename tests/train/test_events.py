"""What a run leaves for TensorBoard, read back as TensorBoard reads it."""

import struct

import pytest
import torch
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
from tensorboard.plugins.hparams import plugin_data_pb2

from hpml.data import load
from hpml.data.batches import normalize
from hpml.trace.event_files import leave_tensorflow_out
from hpml.train import Run, requests
from hpml.train.config import TrainConfig
from hpml.train.events import Events, hyperparameters, visible

CPU = torch.device("cpu")


def config_for(folder, **changes) -> TrainConfig:
    small = {"epochs": 2, "samples": 48, "test_samples": 20, "batch_size": 16, "widths": (8, 16)}
    fixed = {"precision": "fp32", "progress": False, "tensorboard": str(folder)}
    return TrainConfig(**(small | fixed | changes))


def read(folder) -> EventAccumulator:
    leave_tensorflow_out()
    events = EventAccumulator(str(folder), size_guidance={"images": 0, "histograms": 0})
    return events.Reload()


@pytest.fixture(scope="module")
def recorded(tmp_path_factory):
    """A run of two epochs: its History, its network and what TensorBoard finds."""
    folder = tmp_path_factory.mktemp("events")
    run = Run(config_for(folder), load(None), CPU)
    history = run.train(requests.Requests())
    return history, run, read(folder)


def test_scalars_are_those_of_the_history_over_the_images_seen(recorded):
    history, _, events = recorded
    for name, values in (
        ("loss/train", [epoch.train_loss for epoch in history.epochs]),
        ("accuracy/test", [epoch.test_accuracy for epoch in history.epochs]),
        ("images per second", [epoch.images_per_second for epoch in history.epochs]),
    ):
        found = events.Scalars(name)
        assert [event.step for event in found] == [48, 96]
        assert [event.value for event in found] == pytest.approx(values)


def test_each_trained_parameter_has_a_histogram_of_all_its_numbers_and_of_its_gradient(recorded):
    _, run, events = recorded
    found = events.Tags()["histograms"]
    for name, parameter in run.network.named_parameters():
        last = events.Histograms(f"parameters/{name}")[-1].histogram_value
        assert last.num == parameter.numel()
        assert last.min == pytest.approx(parameter.min().item())
        assert (f"gradients/{name}" in found) == parameter.requires_grad


def test_images_are_of_the_first_step_of_each_epoch_and_predictions_of_its_end(recorded):
    _, _, events = recorded
    batches = events.Images("as the network sees it")
    assert [event.step for event in batches] == [0, 48]
    # 16 images in two rows of eight, of 24 by 24 pixels early in the training, thrice enlarged
    assert (batches[0].width, batches[0].height) == (8 * 72, 2 * 72)
    assert [event.step for event in events.Images("predictions")] == [48, 96]
    header = events.Images("predictions")[0].encoded_image_string
    assert struct.unpack(">II", header[16:24])[0] > 500  # a PNG's width


def test_hyperparameters_are_the_options_and_metrics_are_names_of_scalars(recorded):
    _, run, events = recorded
    found = events.summary_metadata
    content = found["_hparams_/session_start_info"].plugin_data.content
    session = plugin_data_pb2.HParamsPluginData.FromString(content).session_start_info
    assert session.hparams["batch_size"].number_value == 16
    assert session.hparams["widths"].string_value == "8,16"
    assert not {"data", "tensorboard", "progress"} & set(session.hparams)
    content = found["_hparams_/experiment"].plugin_data.content
    experiment = plugin_data_pb2.HParamsPluginData.FromString(content).experiment
    metrics = {info.name.tag for info in experiment.metric_infos}
    assert metrics == {"accuracy/test", "loss/test"}
    assert metrics <= set(events.Tags()["scalars"])
    assert "_hparams_/session_end_info" in found
    assert set(hyperparameters(run.config)) == set(session.hparams)


def test_a_run_that_diverges_has_histograms_of_what_is_finite(tmp_path):
    network = torch.nn.Linear(2, 1, bias=False)
    network.weight.data = torch.tensor([[float("nan"), 3.0]])
    network.weight.grad = torch.full((1, 2), float("inf"))
    run = Run(config_for(tmp_path, epochs=1), load(None), CPU)
    epoch = run.train(requests.Requests()).epochs[0]
    events = Events(config_for(tmp_path / "nan"), network, ("a", "b"), seen=0)
    events.epoch(epoch)
    events.close()
    found = read(tmp_path / "nan")
    assert found.Histograms("parameters/weight")[0].histogram_value.num == 1
    assert "gradients/weight" not in found.Tags()["histograms"]


def test_visible_undoes_the_normalisation():
    images = torch.randint(0, 256, (3, 3, 24, 24), dtype=torch.uint8)
    shown = visible(normalize(images))
    assert shown.shape == (3, 3, 72, 72)
    assert torch.equal(shown[:, :, 1::3, 1::3], images)


def test_a_run_without_the_option_has_no_observer(tmp_path):
    run = Run(config_for(tmp_path, tensorboard=None), load(None), CPU)
    assert run.observers().each == ()
