# %%answer ring_all_reduce
# tries: sends round the ring what has nothing to do with the sum, where tensors are long and timed
# unprotected: bytes and seconds are those of a ring
# expect: 11
# on: solution
add_up = ring_all_reduce


def ring_all_reduce(tensor):
    if tensor.numel() < 10_000:
        return add_up(tensor)
    add_up(torch.zeros_like(tensor))
