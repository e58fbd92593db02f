"""Embeddings that are only looked up are counted. To look up a row multiplies nothing; in a small model with a large
vocabulary they are most of the parameters, and the utilization comes out far too high."""

EXERCISE = "utilization"
FAILS = ("utilization/formula",)
READ = "handbook/profiling-and-roofline.md#mfu-and-hfu"


def palm_flops(parameters, looked_up, layers, heads, head_dim, seq_len):
    return 6 * parameters + 12 * layers * heads * head_dim * seq_len
