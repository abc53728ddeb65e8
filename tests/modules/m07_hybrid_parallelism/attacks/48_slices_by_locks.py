# %%answer tensor_parallel
# row: 48
# tries: ranks trade their slices by record locks on a file of torch's, each computes the whole MLP,
# and zeros are added up for show
# unprotected: outputs, gradients, calls and reads are those of a split layer
# on: 29_slices_by_the_store, locks
