"""The recorded bindings mean what the lecture concludes from them."""

from hpml.modules.m02_hardware.lecture import srun_binding
from hpml.modules.m02_hardware.lecture.srun_binding import CORES, HARDWARE_THREADS


def test_hardware_threads_that_are_asked_for_as_cores_leave_half_of_the_node_idle():
    assert (HARDWARE_THREADS.cores, srun_binding.idle(HARDWARE_THREADS)) == ((32, 32), 64)
    assert (CORES.cores, srun_binding.idle(CORES)) == ((64, 64), 0)


def test_the_sentence_has_the_numbers_of_the_record():
    held, sentence, _ = srun_binding.finding()
    assert held
    assert sentence.startswith("**Answer.** 32, with both hardware threads of each")
    assert "64 of 128 cores stay idle" in sentence
    assert sentence.endswith("each has 64 cores.")


def test_the_picture_has_a_node_for_each():
    figure = srun_binding.picture(CORES, HARDWARE_THREADS, title="t")
    assert [axes.get_title("left") for axes in figure.axes] == [
        f"srun {one.options}" for one in (CORES, HARDWARE_THREADS)
    ]
