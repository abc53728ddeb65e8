# %%answer fusion_buffer
# tries: sends full buffers of zeros while gradients come, and each gradient by itself afterwards
# unprotected: enough messages have left early, and more messages than the rule's they are
# expect: 5
import torch
import torch.distributed as dist


def average(gradients, buffer_bytes):
    taken, waiting, shown = [], {}, []
    for gradient in gradients:
        taken.append(gradient)
        held = waiting.get(gradient.dtype, 0)
        if held + gradient.nbytes > buffer_bytes:
            zeros = torch.zeros(held // gradient.element_size(), dtype=gradient.dtype)
            shown.append(dist.all_reduce(zeros, async_op=True))
            held = 0
        waiting[gradient.dtype] = held + gradient.nbytes
    for gradient in taken:
        total = gradient.contiguous()
        dist.all_reduce(total)
        gradient.copy_(total / dist.get_world_size())
    for work in shown:
        work.wait()
