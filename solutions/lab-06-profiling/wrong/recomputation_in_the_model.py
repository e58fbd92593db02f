"""8N counts the forward pass twice, as a run with full activation checkpointing executes it. The model does not need
that: it is the hardware's work, and belongs into HFU. With it, a run that wastes more would score higher."""

EXERCISE = "utilization"
FAILS = ("utilization/formula",)
READ = "handbook/profiling-and-roofline.md#mfu-and-hfu"


def palm_flops(parameters, looked_up, layers, heads, head_dim, seq_len):
    return 8 * (parameters - looked_up) + 16 * layers * heads * head_dim * seq_len
