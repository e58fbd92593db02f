"""Every peak is halved. Only rows with sparsity count a zero half; fp32 has none, and its MFU comes out twice too
high."""

EXERCISE = "utilization"
FAILS = ("utilization/mfu",)
READ = "handbook/profiling-and-roofline.md#mfu-and-hfu"


def mfu(tokens_per_second, token_flops, devices, sheet, dtype):
    row = next(row for row in sheet if row["dtype"] == dtype)
    return tokens_per_second * token_flops / (devices * row["tflops"] * 1e12 / 2)
