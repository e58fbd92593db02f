"""Twelve times hidden_dim squared is the matrices of a block; each of its two norms has hidden_dim weights
besides, and one more norm follows the last block."""

EXERCISE = "parameter_count"
FAILS = ("parameter_count/block",)
READ = "handbook/memory.md#seven-kinds-four-moments"


def parameter_count(vocab_size, block_size, n_layer, hidden_dim, tied):
    C = hidden_dim
    block = 12 * C * C
    return (vocab_size * (1 if tied else 2) + block_size) * C + n_layer * block
