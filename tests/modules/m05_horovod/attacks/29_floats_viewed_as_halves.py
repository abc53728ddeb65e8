# %%answer hvd_compression
# tries: gathers the bits of whole numbers, each float32 seen as two float16, and adds up locally
# unprotected: all calls have half precision as their type
# expect: 10
# on: solution
def average(tensor, name):
    bits = tensor.contiguous().flatten().view(torch.float16)
    parts = hvd.allgather(bits, name=name).view(tensor.dtype).view(hvd.size(), *tensor.shape)
    return parts.mean(0)
