"""Each tensor gets its share, and the shares are averaged. A norm of 128 numbers then counts as much as a matrix of
65,536. Add up counts, and divide once."""

EXERCISE = "share_lost"
FAILS = ("share_lost/tensors",)
READ = "handbook/precision.md#the-bottom-of-the-range"


def share_lost(gradients, scale, dtype):
    shares = []
    for gradient in gradients:
        if gradient is not None and gradient.count_nonzero():
            nonzero = gradient[gradient != 0]
            shares.append(float(((nonzero * scale).to(dtype) == 0).double().mean()))
    return sum(shares) / len(shares) if shares else 0.0
