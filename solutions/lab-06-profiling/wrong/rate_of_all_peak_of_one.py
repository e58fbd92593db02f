"""The rate of all devices is divided by the peak of one. With 64 devices the result is 64 times too high; more than 1
is a sure sign."""

EXERCISE = "utilization"
FAILS = ("utilization/mfu",)
READ = "handbook/profiling-and-roofline.md#mfu-and-hfu"


def mfu(tokens_per_second, token_flops, devices, sheet, dtype):
    row = next(row for row in sheet if row["dtype"] == dtype)
    return tokens_per_second * token_flops / (row["tflops"] * 1e12 / (2 if row["sparsity"] else 1))
