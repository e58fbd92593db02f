"""Attention is halved because the mask hides half of it. A kernel may skip that half, but the formula that published
numbers use does not discount it; say so if yours does."""

EXERCISE = "utilization"
FAILS = ("utilization/formula",)
READ = "handbook/profiling-and-roofline.md#mfu-and-hfu"


def palm_flops(parameters, looked_up, layers, heads, head_dim, seq_len):
    return 6 * (parameters - looked_up) + 6 * layers * heads * head_dim * seq_len
