"""A trace of a GPU as Kineto writes it, made up: no GPU was there to record one."""

import pytest

DEVICE = {
    **{"id": 0, "name": "Made-up GPU", "totalGlobalMem": 16 * 2**30, "computeMajor": 8},
    **{"computeMinor": 0, "maxThreadsPerBlock": 1024, "maxThreadsPerMultiprocessor": 2048},
    **{"regsPerBlock": 65536, "warpSize": 32, "sharedMemPerBlock": 49152, "numSms": 108},
}
# Operator, kernel, its microseconds, whether on Tensor Cores
LAUNCHES = (
    ("aten::cudnn_convolution", "sm80_xmma_fprop_implicit_gemm_f16f16_f16f32", 400.0),
    ("aten::relu", "void at::native::vectorized_elementwise_kernel<4, relu>(int, float*)", 50.0),
    ("aten::addmm", "ampere_fp16_s16816gemm_fp16_64x64_ldg8_f2f_stages_64x5_tn", 200.0),
    ("aten::_log_softmax", "void (anonymous namespace)::softmax_warp_forward<float, 4>", 25.0),
)


def event(category: str, name: str, start: float, duration: float, pid, tid, **args) -> dict:
    return {
        **{"ph": "X", "cat": category, "name": name, "ts": start, "dur": duration},
        **{"pid": pid, "tid": tid, "args": args},
    }


@pytest.fixture(scope="session")
def gpu_trace() -> dict:
    """Two steps of 1000 µs: each operator launches one kernel; a copy to the GPU comes first."""
    events = []
    number = 0

    def launch(operator, call, category, kernel, began, start, duration, **args) -> None:
        nonlocal number
        number += 1
        ids = {"External id": number, "correlation": number}
        events.extend(
            [
                event("cpu_op", operator, began, 20.0, 7, 7, **{"External id": number}),
                event("cuda_runtime", call, began + 5, 8.0, 7, 7, **ids),
                event(category, kernel, start, duration, 0, 7, **ids, device=0, stream=7, **args),
            ]
        )

    for step in range(2):
        origin = 1000.0 * step
        events.append(event("user_annotation", f"ProfilerStep#{step + 2}", origin, 990.0, 7, 7))
        launch(
            *("aten::copy_", "cudaMemcpyAsync", "gpu_memcpy", "Memcpy HtoD (Pinned -> Device)"),
            *(origin + 10, origin + 30, 60.0),
            bytes=12 * 2**20,
        )
        started = origin + 100
        for at, (operator, kernel, duration) in enumerate(LAUNCHES):
            launch(
                *(operator, "cudaLaunchKernel", "kernel", kernel, origin + 40 + 30 * at, started),
                duration,
                **{"registers per thread": 32, "shared memory": 0, "blocks per SM": 2.5},
                **{"warps per SM": 20.0, "grid": [270, 1, 1], "block": [256, 1, 1]},
                **{"est. achieved occupancy %": 40 + 10 * at},
            )
            started += duration + 5
    return {"schemaVersion": 1, "deviceProperties": [DEVICE], "traceEvents": events}
