"""The argument `tied` changes nothing. An output layer of its own is another matrix of vocab_size rows: for small
models with large vocabularies it is most of the model."""

EXERCISE = "parameter_count"
FAILS = ("parameter_count/untied",)
READ = "handbook/memory.md#seven-kinds-four-moments"


def parameter_count(vocab_size, block_size, n_layer, hidden_dim, tied):
    C = hidden_dim
    return vocab_size * C + block_size * C + n_layer * (12 * C * C + 2 * C) + C
