"""The part is a slice of the padded tensor, and a slice shares its memory. As long as the part lives, the whole
does: every rank holds P numbers, as if nothing had been cut. Only a copy lets the rest go."""

EXERCISE = "flat"
FAILS = ("flat/storage",)
READ = "handbook/sharding-and-zero.md#an-all-reduce-is-two-halves"


def cut(whole, rank, ranks):
    size = -(-whole.numel() // ranks)
    padded = whole.new_zeros(size * ranks)
    padded[: whole.numel()] = whole.detach().flatten()
    return padded[rank * size : (rank + 1) * size]
