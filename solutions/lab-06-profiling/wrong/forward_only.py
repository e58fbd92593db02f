"""2N + 4LHQT is the forward pass. Training also runs backward, which takes twice that: one product for the weights'
gradients and one for the inputs'."""

EXERCISE = "utilization"
FAILS = ("utilization/formula",)
READ = "handbook/profiling-and-roofline.md#mfu-and-hfu"


def palm_flops(parameters, looked_up, layers, heads, head_dim, seq_len):
    return 2 * (parameters - looked_up) + 4 * layers * heads * head_dim * seq_len
