"""A multiply-add is counted as one operation. Data sheets count it as two FLOPs, one multiplication and one addition;
by the other count your utilization is half of what everybody else would report."""

EXERCISE = "utilization"
FAILS = ("utilization/formula",)
READ = "handbook/profiling-and-roofline.md#mfu-and-hfu"


def palm_flops(parameters, looked_up, layers, heads, head_dim, seq_len):
    return 3 * (parameters - looked_up) + 6 * layers * heads * head_dim * seq_len
