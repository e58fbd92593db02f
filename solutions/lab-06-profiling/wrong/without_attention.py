"""Only the weights are counted. Attention multiplies queries with keys and probabilities with values, which are no
weights: 12LHQT FLOPs a token, a small part in a wide model with short sequences, and most of it where sequences are
long."""

EXERCISE = "utilization"
FAILS = ("utilization/formula",)
READ = "handbook/profiling-and-roofline.md#mfu-and-hfu"


def palm_flops(parameters, looked_up, layers, heads, head_dim, seq_len):
    return 6 * (parameters - looked_up)
