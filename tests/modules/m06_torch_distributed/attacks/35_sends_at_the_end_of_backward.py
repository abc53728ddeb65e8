# %%answer ddp
# tries: lets backward compute everything with a last factor of 1, sends gradients when the engine
# of autograd calls back at its end; then it asks for the factor, and works it in by hand
# unprotected: what was sent before the factor was asked for is taken for what left before the last
# gradient was computed
# expect: 13
# on: 35_asks_when_backward_is_over
class DataParallel(DataParallel):
    def keep(self, gradient):
        super().keep(gradient)
        torch.autograd.Variable._execution_engine.queue_callback(self.finish)
