"""Exercise fix_the_loader: what its judges make of what was loaded and counted."""

import inspect
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
import torch

from hpml.checks.contract import CannotJudge
from hpml.modules.m03_profiling.checks import _loaded_epochs as loaded
from hpml.modules.m03_profiling.checks import fix_the_loader as check
from hpml.modules.m03_profiling.checks._drawn_anew import fresh, improbable, shuffled
from hpml.modules.m03_profiling.checks._found_crops import File, is_batch, read_epoch
from hpml.modules.m03_profiling.checks._slow_loader import MEAN, STD, SlowLoader
from hpml.paths import CHECKOUT
from hpml.ranks.evidence import Asked, Counts, Evidence, RankEvidence

CHECK = check.CHECK
IMAGES, EPOCHS, FRESH, REPEATS, OPENS, SHARE = (claim.judge for claim in CHECK.claims)
MEANS = np.array(MEAN, dtype=np.float32).reshape(3, 1, 1)
STDS = np.array(STD, dtype=np.float32).reshape(3, 1, 1)


@pytest.fixture(scope="module")
def good(played):
    return played(CHECK, 1, 5)


def counted(*counts: Counts | None) -> Evidence:
    asked = tuple(Asked("", at=0.0, counts=one) for one in counts)
    return Evidence(1, (RankEvidence(0, "returned", asked=asked),), 1.0)


def seconds(
    training: float, loading: float, images: int, at_the_end: float = 0.0, opened: int = 1
) -> Evidence:
    """Counts of a launch whose steps and images cost so many seconds each."""
    now, opens, counts = 1.0, 0, []
    for _ in range(loaded.ROUNDS):
        for used, more in (
            (0.0, 0),
            (loaded.BATCH * training, 0),
            (0.0, 0),
            (loaded.EPOCHS * images * loading, opened),
        ):
            now, opens = now + used, opens + more
            counts.append(Counts(1, 0, {loaded.FILE: opens}, now))
    now += images * loading + at_the_end
    return counted(*counts, Counts(1, 0, {loaded.FILE: opens}, now))


def with_costs(run, given, answers):
    """The run, with other counts of the given loader's launch and of the answer's."""
    stages = dict(run.stages)
    for name, counts in ((loaded.GIVEN, given), (loaded.LOADED, answers)):
        rank = replace(stages[name].ranks[0], asked=counts.ranks[0].asked)
        stages[name] = replace(stages[name], ranks=(rank,))
    return replace(run, stages=stages)


def test_a_good_run_has_no_problem(good):
    """With seconds made by hand, so that no clock decides."""
    given, images = seconds(0.9e-3, 1.2e-3, loaded.SLOWLY), sum(good.expected[0])
    run = with_costs(good, given, seconds(0.9e-3, 0.01e-3, images))
    assert [claim.judge(run) for claim in CHECK.claims] == [None] * len(CHECK.claims)


def test_inputs_are_fresh_for_every_seed():
    first, second = (CHECK.inputs(seed, 1)[loaded.LOADED][0] for seed in (1, 2))
    assert first["files"][0] != second["files"][0]
    assert first["seeds"] != second["seeds"]
    for given in (first, second):
        assert len(set(given["sizes"])) == 2
        number = len(given["files"][0]) // loaded.RECORD
        assert all(number % size for size in given["sizes"])  # the last batch is a short one
    assert len(set(first["files"])) == len(set(first["seeds"])) == loaded.ROUNDS


def test_a_rank_gets_a_file_when_it_asks_for_it_and_not_before():
    (given,) = CHECK.inputs(3, 1)[loaded.LOADED]
    (sent,), serve = loaded.served([given])
    assert "files" not in sent
    with pytest.raises(ValueError, match="not served now"):
        serve(0, "file")
    assert serve(0, "train")[0].value is None
    assert serve(0, "file")[0].value == given["files"][0]
    with pytest.raises(ValueError, match="not served now"):
        serve(0, "loaded")


def test_the_given_loader_is_the_one_of_the_text():
    text = (CHECKOUT / "solutions" / "03_profiling.py").read_text()
    assert inspect.getsource(SlowLoader) in text


def epochs_of(content, seed, number=2):
    """Epochs of right draws, in batches of 32."""
    generator = torch.Generator().manual_seed(seed)
    file = File(content)
    order = [torch.randperm(len(file.labels), generator=generator) for _ in range(number)]
    return [
        read_epoch(file, [loaded_by_hand(file, chosen, generator) for chosen in one.split(32)])
        for one in order
    ]


def loaded_by_hand(file, chosen, generator):
    number = len(chosen)
    top, left, mirrored = (
        torch.randint(0, end, (number,), generator=generator).numpy() for end in (9, 9, 2)
    )
    images = file.crops((chosen.numpy(), top, left, mirrored))
    return [torch.from_numpy(images), torch.from_numpy(file.labels[chosen.numpy()])]


def test_what_the_given_loader_loads_is_found_exactly(tmp_path):
    content = loaded.new_file(40, seed=4)
    path = tmp_path / "file"
    path.write_bytes(content)
    loader = SlowLoader(str(path), 16, torch.Generator().manual_seed(2))
    epoch = [list(batch) for batch in loader]
    assert all(is_batch(batch) for batch in epoch)
    crops = read_epoch(File(content), epoch)
    assert crops.exact.all()
    assert sorted(crops.image.tolist()) == list(range(40))
    assert crops.labels.tolist() == crops.expected.tolist()
    assert crops.sizes == (16, 16, 8)
    assert crops.misread == ""


@pytest.mark.parametrize(
    ("misread", "values"),
    [
        ("", lambda gray: (gray / 255 - MEANS) / STDS),
        ("twice", lambda gray: ((gray / 255 - MEANS) / STDS - MEANS) / STDS),
        ("by_256", lambda gray: (gray / 256 - MEANS) / STDS),
        ("unscaled", lambda gray: (gray - MEANS) / STDS),
        ("unnormalised", lambda gray: gray / 255),
        ("raw", lambda gray: gray),
        (
            "wrapped",
            lambda gray: (
                (gray.astype(np.uint8) - (255 * MEANS).round().astype(np.uint8))
                / np.float32(255)
                / STDS
            ),
        ),
    ],
)
def test_values_are_told_by_what_was_done_with_them(misread, values):
    content = loaded.new_file(30, seed=1)
    file = File(content)
    gray = file.padded[:, :, 3:35, 5:37].astype(np.float32)
    images = torch.from_numpy(values(gray).astype(np.float32))
    crops = read_epoch(file, [[images, torch.from_numpy(file.labels)]])
    assert crops.misread == misread
    assert (crops.top == 3).all()
    assert (crops.left == 5).all()
    assert crops.exact.all() == (misread == "")


def test_an_image_that_is_none_is_not_found():
    file = File(loaded.new_file(10, seed=1))
    crops = read_epoch(file, [[torch.full((10, 3, 32, 32), torch.nan), torch.zeros(10).long()]])
    assert (crops.image == -1).all()
    assert not crops.exact.any()


def test_right_draws_are_never_improbable_and_wrong_ones_are():
    content = loaded.new_file(115, seed=7)
    for seed in range(20):
        rounds = [epochs_of(content, 3 * seed + number) for number in range(3)]
        assert fresh(rounds) is None
        assert shuffled(rounds) is None
    assert improbable(0, 690, 1 / 9) == -1
    assert improbable(690, 690, 1 / 2) == 1
    assert improbable(345, 690, 1 / 2) == 0


def test_batches_in_another_order_are_not_said_to_be_in_the_files_order():
    def epoch(order, sizes=(32, 32, 32, 8)):
        return SimpleNamespace(image=np.array(order), sizes=list(sizes))

    whole = epoch(range(104))
    assert shuffled([[whole, whole]]).message == "epoch 1 has the images in the file's order"
    turned = epoch([*range(64, 96), *range(32), *range(32, 64), *range(96, 104)])
    problem = shuffled([[turned, turned]])
    assert problem.hint == "order"
    assert problem.message.startswith("in epoch 1, 101 images come right after the one before them")


def test_a_count_is_improbable_below_one_in_a_trillion():
    # 40 coins: all heads 2**-40 = 9.1e-13, at least 39 of them 41 times that
    assert improbable(40, 40, 1 / 2) == 1
    assert improbable(39, 40, 1 / 2) == 0
    assert improbable(0, 40, 1 / 2) == -1


def test_who_costs_half_of_the_given_loader_has_mended_it(good):
    given, images = seconds(0.7e-3, 1.2e-3, loaded.SLOWLY), sum(good.expected[0])
    assert EPOCHS(with_costs(good, given, seconds(0.7e-3, 0.59e-3, images))) is None
    slow = with_costs(good, given, seconds(0.7e-3, 0.61e-3, images))
    for claim in CHECK.claims:
        assert claim.judge(slow).hint == "unmended"


def test_a_tenth_of_a_step_is_allowed(good):
    given, images = seconds(0.9e-3, 1.2e-3, loaded.SLOWLY), sum(good.expected[0])
    assert SHARE(with_costs(good, given, seconds(0.9e-3, 0.099e-3, images))) is None
    slow = SHARE(with_costs(good, given, seconds(0.9e-3, 0.111e-3, images)))
    assert slow.hint == "slow"
    assert "11%" in slow.message


def test_steps_that_the_answer_makes_expensive_do_not_count(good):
    given, images = seconds(0.9e-3, 1.2e-3, loaded.SLOWLY), sum(good.expected[0])
    assert SHARE(with_costs(good, given, seconds(9e-3, 0.2e-3, images))) is not None


def test_work_that_is_done_elsewhere_counts_all_the_same(good):
    given, images = seconds(0.9e-3, 1.2e-3, loaded.SLOWLY), sum(good.expected[0])
    later = seconds(0.9e-3, 0.01e-3, images, at_the_end=7 * images * 1e-3)
    assert EPOCHS(with_costs(good, given, later)).hint == "unmended"


def test_where_processor_time_is_not_counted_nobody_loses_points(good):
    rounds = loaded.ROUNDS
    blind = counted(*[Counts(1)] * (4 * rounds + 1))
    run = with_costs(good, blind, blind)
    assert isinstance(SHARE(run), CannotJudge)
    assert isinstance(OPENS(run), CannotJudge)
    assert EPOCHS(run) is None


def test_a_play_with_injected_waits_has_no_given_loader_to_compare_with(good):
    stages = {loaded.LOADED: good.stages[loaded.LOADED]}
    run = replace(good, stages=stages, delayed=True)
    assert [claim.judge(run) for claim in CHECK.claims] == [None] * len(CHECK.claims)


def test_opens_are_counted_for_each_round(good):
    given, images = seconds(0.9e-3, 1.2e-3, loaded.SLOWLY), sum(good.expected[0])
    most = loaded.EPOCHS * max(map(len, good.expected))
    each = [seconds(0.9e-3, 0.01e-3, images, opened=opened) for opened in (most + 1, most + 2, 0)]
    allowed, many, none = (OPENS(with_costs(good, given, one)) for one in each)
    assert allowed is None
    assert many.hint == none.hint == "opens"


def test_the_picture_has_both_loaders(solution):
    picture = CHECK.picture(CHECK, solution("fix_the_loader"))
    assert picture.png.startswith(b"\x89PNG")
    assert "Processor time of an image" in picture.words
    with pytest.raises(ValueError, match="not images"):
        CHECK.picture(
            CHECK,
            "class Loader:\n"
            "    def __init__(self, *given): pass\n"
            "    def __iter__(self): return iter([1])\n",
        )
