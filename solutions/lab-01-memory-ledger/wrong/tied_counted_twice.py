"""The output layer is counted although it is the embedding's own matrix. Tied means one matrix with two uses: one
set of bytes, one gradient."""

EXERCISE = "parameter_count"
FAILS = (
    "parameter_count/tied",
    "parameter_count/untied",
)
READ = "handbook/memory.md#seven-kinds-four-moments"


def parameter_count(vocab_size, block_size, n_layer, hidden_dim, tied):
    C = hidden_dim
    block = 12 * C * C + 2 * C
    return vocab_size * C + block_size * C + n_layer * block + C + vocab_size * C
