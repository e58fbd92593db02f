"""The largest number of the data sheet is taken. It is the peak of the narrowest dtype, which this run does not use;
what a run could reach depends on the dtype that it multiplies in."""

EXERCISE = "utilization"
FAILS = ("utilization/mfu",)
READ = "handbook/profiling-and-roofline.md#mfu-and-hfu"


def mfu(tokens_per_second, token_flops, devices, sheet, dtype):
    row = max(sheet, key=lambda row: row["tflops"])
    return tokens_per_second * token_flops / (devices * row["tflops"] * 1e12 / (2 if row["sparsity"] else 1))
