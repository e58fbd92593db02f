"""The data sheet's number is taken as it stands. Its footnote says "with sparsity": matrices of which half is zero, at
twice the rate. Training multiplies dense ones, and against that peak no run gets above half."""

EXERCISE = "utilization"
FAILS = ("utilization/mfu",)
READ = "handbook/profiling-and-roofline.md#mfu-and-hfu"


def mfu(tokens_per_second, token_flops, devices, sheet, dtype):
    row = next(row for row in sheet if row["dtype"] == dtype)
    return tokens_per_second * token_flops / (devices * row["tflops"] * 1e12)
