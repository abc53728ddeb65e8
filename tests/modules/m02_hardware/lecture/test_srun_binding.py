"""The recorded bindings mean what the lecture concludes from them."""

from hpml.modules.m02_hardware.lecture import srun_binding
from hpml.modules.m02_hardware.lecture.srun_binding import CORES, HARDWARE_THREADS


def test_hardware_threads_that_are_asked_for_as_cores_leave_half_of_the_node_idle():
    assert (HARDWARE_THREADS.cores, srun_binding.idle(HARDWARE_THREADS)) == ((32, 32), 64)
    assert (CORES.cores, srun_binding.idle(CORES)) == ((64, 64), 0)


def test_the_picture_has_a_node_for_each():
    figure = srun_binding.picture(CORES, HARDWARE_THREADS, title="t")
    assert [axes.get_title("left") for axes in figure.axes] == [
        f"srun {one.options}" for one in (CORES, HARDWARE_THREADS)
    ]
