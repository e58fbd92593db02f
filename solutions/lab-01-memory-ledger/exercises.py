"""Lab 01, exercises: the memory ledger, written by hand.

Six exercises, in the order of the page. Each is one function with a contract in its docstring. Replace the line that
raises NotImplementedError; keep the signatures. B = sequences per micro-batch, T = tokens per sequence, C = hidden_dim,
H = heads, L = blocks, V = tokens in the vocabulary. The GPT is that of rankzero/learn/models/gpt.py: no biases, no
dropout. Bytes and counts are Python ints: no floats, no tensors, no NumPy numbers.

    rankzero check 01                  # all of them
    rankzero check 01 state_bytes      # one
    rankzero hint 01 state_bytes       # when stuck
"""

from collections.abc import Callable

import torch
from torch import Tensor, nn


def parameter_count(vocab_size: int, block_size: int, n_layer: int, hidden_dim: int, tied: bool) -> int:
    """Returns the number of parameters of a GPT of these sizes, without building it.

    Token embedding [V, C] and learned positions [block_size, C]. Each block has LayerNorm [C], attention with one
    matrix [3C, C] for q, k and v and one [C, C] after it, LayerNorm [C], and an MLP with [4C, C] and [C, 4C]. One more
    LayerNorm [C] follows the last block. The output layer is [V, C]; if `tied`, it is the token embedding's own matrix.
    Nothing has a bias.

    Read: handbook/memory.md
    """
    ### BEGIN SOLUTION
    C = hidden_dim
    block = 3 * C * C + C * C + 2 * 4 * C * C + 2 * C
    output = 0 if tied else vocab_size * C
    return vocab_size * C + block_size * C + n_layer * block + C + output
    ### END SOLUTION


def state_bytes(n_parameters: int, n_tensors: int, recipe: str, optimizer: str) -> dict[str, int]:
    """Returns the bytes of "weights", "gradients" and "optimizer state", between backward and the update.

    `recipe` is one of
    - "fp32": everything in fp32
    - "mixed": weights and gradients in bf16; the optimizer keeps fp32 master weights, and its averages in fp32
    - "mixed-fp32-accum": as mixed, and an fp32 sum of the gradients of several micro-batches is kept too
    - "bf16": weights, gradients and the optimizer's averages in bf16, no master weights
    `optimizer` is "sgd" (no averages), "momentum" (one) or "adamw" (two, and a 4-byte step count for each of the
    `n_tensors` parameter tensors). Master weights are optimizer state; the fp32 sum is gradients.

    Read: handbook/memory.md
    """
    ### BEGIN SOLUTION
    weight, gradient, master, average = {
        "fp32": (4, 4, 0, 4),
        "mixed": (2, 2, 4, 4),
        "mixed-fp32-accum": (2, 2 + 4, 4, 4),
        "bf16": (2, 2, 0, 2),
    }[recipe]
    averages = {"sgd": 0, "momentum": 1, "adamw": 2}[optimizer]
    steps = 4 * n_tensors if optimizer == "adamw" else 0
    return {
        "weights": weight * n_parameters,
        "gradients": gradient * n_parameters,
        "optimizer state": (master + averages * average) * n_parameters + steps,
    }
    ### END SOLUTION


def activation_bytes(batch_size: int, seq_len: int, hidden_dim: int, n_head: int, number: int, fused: bool) -> int:
    """Returns the bytes that autograd keeps for one block of the GPT, from its forward pass until backward.

    A number takes `number` bytes (4 in fp32, 2 in bf16). So does LayerNorm's mean and its 1/std, one each per token.
    Each tensor counts once, however many operations read it, and weights do not count. With `fused` attention autograd
    keeps q, k, v, the output, and one fp32 number per token and head (the log-sum-exp of its scores). Without fused
    attention, it keeps the softmax's output [B, H, T, T] instead of the log-sum-exp.

    Read: handbook/forward-pass.md, "Tensors kept by other layers"
    """
    ### BEGIN SOLUTION
    tokens, C = batch_size * seq_len, hidden_dim
    norms = 2 * (C + 2) * number  # the input, mean and 1/std, twice
    attention = (C + 3 * C + C) * number  # its input; q, k, v; the output, which is also the last product's input
    scores = 4 * n_head if fused else n_head * seq_len * number
    mlp = (C + 4 * C + 4 * C) * number  # its input; before GELU; after GELU
    return tokens * (norms + attention + scores + mlp)
    ### END SOLUTION


def saved_bytes(model: nn.Module, x: Tensor) -> int:
    """Runs `model(x)` and returns how many bytes autograd keeps for a backward pass, outside the model's own memory.

    Count memory, not tensors: two saved tensors may be views of one storage, which then counts once and whole. Storages
    of the model's parameters and buffers do not count: they are in memory without the batch too. So are those of frozen
    parameters, and of buffers that state_dict() leaves out. A parameter may be a part of a larger storage, and autograd
    may save a view of a parameter. `x` counts if autograd keeps it, whether it holds floats or token ids; if `x` is a
    slice, its whole storage counts. Run the model on `x` itself, in the mode that it has. Every call counts afresh:
    keep nothing between calls. After the call, the model and `x` are as before: same mode, weights and gradients (or
    None), no new hooks. Only what `model(x)` itself changes may differ, such as BatchNorm's averages.

    Read: handbook/forward-pass.md, "A linear layer keeps its input"
    """
    ### BEGIN SOLUTION
    own = {tensor.untyped_storage().data_ptr() for tensor in (*model.parameters(), *model.buffers())}
    kept = {}

    def pack(tensor: Tensor) -> Tensor:
        storage = tensor.untyped_storage()
        if storage.data_ptr() not in own:
            kept[storage.data_ptr()] = storage  # holding it keeps its address from being used again
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
        output = model(x)  # held, so that nothing is freed before it is counted
    del output
    return sum(storage.nbytes() for storage in kept.values())
    ### END SOLUTION


def kv_cache_bytes(
    n_layer: int, n_head: int, n_kv_head: int, hidden_dim: int, batch_size: int, tokens: int, number: int
) -> int:
    """Returns the bytes of the keys and values that generation keeps: `batch_size` sequences of `tokens` tokens each.

    Each of `n_layer` blocks keeps a key and a value for each of its `n_kv_head` heads; a head is hidden_dim / n_head
    wide, and a number takes `number` bytes.

    Read: handbook/memory.md
    """
    ### BEGIN SOLUTION
    head_dim = hidden_dim // n_head
    return 2 * n_layer * n_kv_head * head_dim * number * batch_size * tokens
    ### END SOLUTION


def largest_micro_batch(peak: Callable[[int], int], budget: int) -> int:
    """Returns the sequences of the largest micro-batch that fits: the largest B >= 1 with peak(B) <= budget, else 0.

    `peak(B)` predicts the peak memory of a step in bytes. It grows with B, but unevenly: allocators round. A call may
    take a second, so make few: about 2 * log2 of the answer, not one for each B. The answer has no upper limit.
    Another call may have another `peak`: keep no predictions between calls.

    Read: handbook/memory.md
    """
    ### BEGIN SOLUTION
    if peak(1) > budget:
        return 0
    fits, too_large = 1, 2
    while peak(too_large) <= budget:
        fits, too_large = too_large, 2 * too_large
    while too_large - fits > 1:
        middle = (fits + too_large) // 2
        if peak(middle) <= budget:
            fits = middle
        else:
            too_large = middle
    return fits
    ### END SOLUTION
