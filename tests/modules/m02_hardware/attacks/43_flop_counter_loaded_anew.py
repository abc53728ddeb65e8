# %%answer roofline
# tries: empties what refuses FlopCounterMode, found by gc, and loads it anew
# unprotected: PyTorch's counter is the answer of two claims
# on: nothing_refused, 40_flop_counter_by_another_name
def counted(run):
    home = loaded_anew("torch.utils.flop_counter")
    with getattr(home, "Flop" + "CounterMode")(display=False) as counter:
        run()
    return counter.get_total_flops()
