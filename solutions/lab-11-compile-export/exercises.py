"""Lab 11, exercises: what a compiler captures, when it compiles again, when it pays, and a model that leaves Python.

Eleven small exercises, in the order of the page; the later ones call the earlier ones. Replace the lines that raise
NotImplementedError; keep the signatures. A float is Python's float, an int is Python's int, a list is a list. A stub
may need imports of your own: put them at the top.

    rankzero check 11                  # all of them
    rankzero check 11 graph_sizes      # one
    rankzero hint 11 graph_sizes       # when stuck

A backend is a function that torch.compile calls once per captured graph, with the graph as a torch.fx.GraphModule and
a list of example inputs; it returns what runs in place of the graph. `gm.forward` runs the graph as it is.
"""

import copy
import math
import statistics
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, fx, nn
from torch.export import Dim, ExportedProgram

Backend = Callable[[fx.GraphModule, list[Any]], Callable[..., Any]]


# ------------------------------------------------------------------------------------------- graphs and compilations
def graph_sizes(function: Callable[..., Any], *inputs: Any) -> list[int]:
    """The number of operations of each graph that the compiler captures for one call function(*inputs), in order.

    Operations are the graph's nodes of kind call_function, call_method and call_module. Inputs, weights and the output
    are nodes too, and are not counted. `function` is a function or an nn.Module. A list of one number means one graph
    without a break; an empty list means that nothing was captured.

    Earlier compilations don't change the result: a second call returns the same list. Afterwards the compiler is in
    the state that torch._dynamo.reset() leaves, also after an exception of `function`, which reaches the caller. The
    function is called once, with gradients on or off as the caller has them; torch's settings stay as they are.

    For `def f(x): y = x.sin() + 1; print("!"); return y * 2` the result is [2, 1].
    Read: handbook/compile-and-export.md, "Graphs and graph breaks"
    """
    ### BEGIN SOLUTION
    sizes = []

    def backend(gm: fx.GraphModule, example_inputs: list[Any]) -> Callable[..., Any]:
        sizes.append(sum(node.op in ("call_function", "call_method", "call_module") for node in gm.graph.nodes))
        return gm.forward

    torch._dynamo.reset()
    try:
        torch.compile(function, backend=backend)(*inputs)
    finally:
        torch._dynamo.reset()
    return sizes
    ### END SOLUTION


def compilations(
    function: Callable[..., Any], calls: Sequence[tuple[Any, ...]], dynamic: bool | None = None
) -> list[int]:
    """The number of graphs that each call compiles, where function(*arguments) is called for the items of `calls`.

    The function is compiled by torch.compile with `dynamic`, and called once per item, in order. A call whose guards
    hold compiles nothing: 0. A call of a function with one graph break may compile 2 graphs, and counts 2. Once torch's
    limit of 8 compilations of one function is reached, a new shape runs uncompiled and counts 0.

    As in `graph_sizes`, earlier compilations don't change the result, and the compiler is reset afterwards.

    With x of 5, 6, 7 and 5 rows, `compilations(torch.sin, [(x,), ...])` is [1, 1, 0, 0]: the second compilation is for
    any number of rows. With dynamic=False it is [1, 1, 1, 0].
    Read: handbook/compile-and-export.md, "Recompilation and dynamic shapes"
    """
    ### BEGIN SOLUTION
    graphs = []

    def backend(gm: fx.GraphModule, example_inputs: list[Any]) -> Callable[..., Any]:
        graphs.append(gm)
        return gm.forward

    torch._dynamo.reset()
    try:
        compiled, counts = torch.compile(function, backend=backend, dynamic=dynamic), []
        for arguments in calls:
            before = len(graphs)
            compiled(*arguments)
            counts.append(len(graphs) - before)
    finally:
        torch._dynamo.reset()
    return counts
    ### END SOLUTION


def clip_in_one_graph(x: Tensor, limit: float) -> Tensor:
    """`x`, scaled down to the Euclidean norm `limit` where its norm is above it, as one graph without a branch.

    Gives the values and the gradients of the following function. Its .item() and its `if` need the value of a tensor,
    so this function breaks the graph:

        norm = torch.linalg.vector_norm(x.float()).item()
        return (x.float() * (limit / norm)).to(x.dtype) if norm > limit else x.clone()

    In this function the factor limit / norm is a constant: no gradient flows through the norm. So the gradient of the
    result with respect to x is the factor, which is 1 if x is all zeros. x is fp32 or bf16, of any shape, and stays as
    it is; the result has its dtype, and everything before the result is computed in fp32. `limit` is above 0. The
    function is captured as one graph, with or without gradients, and other values of x cause no compilation.

    clip_in_one_graph(tensor([3.0, 4.0]), 1.0) is [0.6, 0.8], with a gradient of 0.2 for each number.
    Read: handbook/compile-and-export.md, "Graphs and graph breaks"
    """
    ### BEGIN SOLUTION
    norm = torch.linalg.vector_norm(x.detach().float())
    factor = torch.where(norm > limit, limit / norm, 1.0)
    return (x.float() * factor).to(x.dtype)
    ### END SOLUTION


def make_update(
    parameters: list[Tensor], rate: Callable[[int], float], backend: str | Backend
) -> Callable[[list[Tensor | None]], None]:
    """Returns update(gradients), a step of plain gradient descent that is compiled once, whatever the learning rate.

    Call number k of update, k = 1, 2, 3, ..., subtracts rate(k) times its gradient from each parameter, in place; a
    parameter whose gradient is None stays as it is. `rate` is called once per update, with an int; it may do anything
    in Python, such as read a file, so it is called outside the compiled code.

    The subtractions of all parameters are one graph, compiled by torch.compile with `backend` at the first call of
    update. Later calls, with gradients of the same shapes and of the same parameters, compile nothing. By default a
    Python float that changes compiles a second time; a 0-dimensional tensor is data, which compiles once. Parameters
    may require gradients; the update records none. Their dtypes may differ and stay as they are, and their shapes are
    any, [] among them. Two updates made by two calls of make_update count their own calls.

    With rate(1) = 0.5, a parameter of 2.0 with the gradient 1.0 becomes 1.5.
    Read: handbook/compile-and-export.md, "Recompilation and dynamic shapes"
    """
    ### BEGIN SOLUTION
    calls = 0

    @torch.no_grad()
    def subtract(gradients: list[Tensor | None], learning_rate: Tensor) -> None:
        for parameter, gradient in zip(parameters, gradients, strict=True):
            if gradient is not None:
                parameter -= learning_rate * gradient

    compiled = torch.compile(subtract, backend=backend)

    def update(gradients: list[Tensor | None]) -> None:
        nonlocal calls
        calls += 1
        compiled(gradients, torch.tensor(rate(calls)))

    return update
    ### END SOLUTION


# --------------------------------------------------------------------------------------------------- buckets of lengths
def bucket_of(length: int, buckets: Sequence[int]) -> int:
    """The smallest bucket that holds a sequence of `length` tokens; `buckets` are sizes in any order.

    ValueError, which names the length and the largest bucket, if no bucket holds the sequence: cutting it off would
    change the training data silently. bucket_of(65, [128, 64, 256]) is 128, bucket_of(64, [128, 64, 256]) is 64.
    Read: handbook/compile-and-export.md, "Buckets of lengths"
    """
    ### BEGIN SOLUTION
    fitting = [bucket for bucket in buckets if bucket >= length]
    if not fitting:
        raise ValueError(f"{length} tokens fit into no bucket: the largest holds {max(buckets, default=0)}")
    return min(fitting)
    ### END SOLUTION


def pad_to_bucket(tokens: Tensor, targets: Tensor, buckets: Sequence[int], padding: int) -> tuple[Tensor, Tensor]:
    """Tokens and targets, int64 [B, T], padded on the right to the bucket of T, so that few lengths are compiled.

    New tokens are `padding`, a token that the embedding holds. New targets are -100, which F.cross_entropy leaves out
    of the mean: the loss of a causal model stays as it was. Targets that are -100 already stay. Both arguments stay as
    they are. ValueError as in `bucket_of`.

    With tokens [[5, 6, 7]], targets [[6, 7, 8]], buckets [2, 4] and padding 0 the result is [[5, 6, 7, 0]] and
    [[6, 7, 8, -100]].
    """
    ### BEGIN SOLUTION
    missing = bucket_of(tokens.shape[1], buckets) - tokens.shape[1]
    return F.pad(tokens, (0, missing), value=padding), F.pad(targets, (0, missing), value=-100)
    ### END SOLUTION


def best_buckets(lengths: Sequence[int], count: int) -> list[int]:
    """At most `count` bucket sizes, ascending, into which sequences of these lengths fit with the least padding.

    The padding is the sum of bucket_of(length, buckets) - length over all sequences. Each sequence fits. There is at
    least one length; lengths may repeat, and come in any order; `count` is 1 or more. With as many buckets as different
    lengths there is no padding. 300 different lengths and 12 buckets take at most a few seconds: trying every choice of
    sizes would take years. `lengths` stays as it is.

    best_buckets([10, 11, 12, 40, 100], 2) is [12, 100], with 3 + 60 tokens of padding; [40, 100] has 87.
    Read: handbook/compile-and-export.md, "Buckets of lengths"
    """
    ### BEGIN SOLUTION
    counts = Counter(lengths)
    sizes = sorted(counts)
    sequences, tokens = [0], [0]  # of the first i sizes: how many sequences, how many tokens
    for size in sizes:
        sequences.append(sequences[-1] + counts[size])
        tokens.append(tokens[-1] + counts[size] * size)

    def padding(start: int, end: int) -> int:
        """Of the sizes from start to end - 1 in one bucket."""
        return sizes[end - 1] * (sequences[end] - sequences[start]) - (tokens[end] - tokens[start])

    # best[end]: the least padding of the first `end` sizes in the buckets so far, and these buckets.
    best: list[tuple[float, list[int]]] = [(0, [])] + [(math.inf, [])] * len(sizes)
    for _ in range(count):
        previous, best = best, [(0, [])]
        for end in range(1, len(sizes) + 1):
            least, start = min((previous[start][0] + padding(start, end), start) for start in range(end))
            best.append((least, [*previous[start][1], sizes[end - 1]]))
    return best[-1][1]
    ### END SOLUTION


# ------------------------------------------------------------------------------------------------- times and break-even
class Timings(NamedTuple):
    """Seconds of a compiled function and of the same function in eager mode."""

    first: float  # the compiled function's first call, which compiles
    eager: float  # median of the eager function's calls
    compiled: float  # median of the compiled function's later calls


def timings(
    eager: Callable[[], object], compiled: Callable[[], object], rounds: int, clock: Callable[[], float]
) -> Timings:
    """Times of both functions: `clock`, in seconds, is read directly before and directly after each timed call.

    First one call of `compiled` is timed: it compiles. Then one call of `eager` is made and not timed, because first
    calls allocate. Then, `rounds` times, a call of `eager` and a call of `compiled` are timed, in turns, so that a
    machine that slows down slows both. No other call is made, and the clock is read at no other time. The medians are
    those of the timed calls in the rounds; `rounds` is 1 or more. The functions wait for their device themselves.

    Read: handbook/compile-and-export.md, "When compiling pays"
    """

    ### BEGIN SOLUTION
    def seconds(function: Callable[[], object]) -> float:
        start = clock()
        function()
        return clock() - start

    first = seconds(compiled)
    eager()
    pairs = [(seconds(eager), seconds(compiled)) for _ in range(rounds)]
    return Timings(first, *(statistics.median(times) for times in zip(*pairs, strict=True)))
    ### END SOLUTION


def break_even(first: float, eager: float, compiled: float) -> float:
    """The smallest number of calls, 1 or more, after which the compiled function has taken no more time than eager.

    `first` is the time of the compiled function's first call, which compiles and does the work of one call; `compiled`
    is the time of each later call, `eager` of each eager call, all in seconds and above 0. Returns a whole number as an
    int, or math.inf where no number of calls is enough.

    break_even(first=10.0, eager=2.0, compiled=1.0) is 9: after 9 calls, both have taken 18 seconds.
    Read: handbook/compile-and-export.md, "When compiling pays"
    """
    ### BEGIN SOLUTION
    if first <= eager:
        return 1
    if compiled >= eager:
        return math.inf
    return 1 + math.ceil((first - eager) / (eager - compiled))
    ### END SOLUTION


# ------------------------------------------------------------------------------------------------------------- digits
def errors_against_float64(model: nn.Module, compiled: Callable[..., Tensor], *inputs: Tensor) -> tuple[float, float]:
    """The largest absolute differences of model(*inputs) and of compiled(*inputs) from the same model in float64.

    `compiled` runs the modules of `model`, so it has the same weights and the same mode. Dropout would draw another
    mask in each run, so everything runs in eval mode; afterwards, also after an exception, each module is in the mode,
    train or eval, that it had before. Weights, buffers, gradients and inputs stay as they are, and so does torch's
    random state; no gradients are recorded.

    The float64 model is a copy with weights and buffers in float64. Inputs of floating point enter it in float64;
    others, such as token ids, as they are. The results are floats: (error of eager, error of compiled). Most often
    neither error is zero: a compiled model is as good as the eager model if its error is about as small.

    Read: handbook/compile-and-export.md, "Differences in the last digits"
    """
    ### BEGIN SOLUTION
    modes = {module: module.training for module in model.modules()}
    model.eval()
    try:
        with torch.no_grad():
            exact_inputs = [x.double() if x.is_floating_point() else x for x in inputs]
            exact = copy.deepcopy(model).double()(*exact_inputs)
            eager, other = ((run(*inputs).double() - exact).abs().max().item() for run in (model, compiled))
            return eager, other
    finally:
        for module, mode in modes.items():
            module.training = mode
    ### END SOLUTION


# ------------------------------------------------------------------------------------------------------------- export
def last_rows(hidden: Tensor, lengths: Tensor) -> Tensor:
    """Each sequence's row at its last token, [B, C], for `hidden` [B, T, C] and `lengths`, int64 [B], from 1 to T.

    Row b of the result is hidden[b, lengths[b] - 1], the last row that is no padding. Rows of padding may hold any
    value, also nan, and get a gradient of 0. The dtype is that of `hidden`; both arguments stay as they are.

    No loop over rows and no number read from a tensor: the function is one graph, in which the batch size and T may
    stay symbols. Note that len(lengths) is an int, which ties an exported program to one batch size, while
    lengths.shape[0] stays a symbol.

    Read: handbook/compile-and-export.md, "Export"
    """
    ### BEGIN SOLUTION
    index = (lengths - 1)[:, None, None].expand(-1, 1, hidden.shape[2])  # [B, 1, C]
    return hidden.gather(1, index).squeeze(1)
    ### END SOLUTION


def export_for_serving(model: nn.Module, max_batch: int, max_length: int) -> ExportedProgram:
    """The model as an exported program for any batch of 1 to max_batch sequences of 1 to max_length tokens.

    model(tokens, lengths) takes token ids, int64 [B, T], and lengths, int64 [B], and returns scores, float [B, V]. Ids
    from 0 to 3 are valid for every model. max_batch and max_length are 4 or more.

    The program computes what the model computes in eval mode, for any shape in the range, from the same two positional
    arguments; for a shape outside it, and for tokens and lengths of different batch sizes, it raises an error.
    Afterwards each of the model's modules is in the mode, train or eval, that it had before, and its weights and
    buffers are as they were.

    Read: handbook/compile-and-export.md, "Export"
    """
    ### BEGIN SOLUTION
    batch, length = Dim("batch", min=1, max=max_batch), Dim("length", min=1, max=max_length)
    example = torch.zeros(2, 3, dtype=torch.int64), torch.tensor([3, 2])
    modes = {module: module.training for module in model.modules()}
    model.eval()
    try:
        return torch.export.export(model, example, dynamic_shapes=({0: batch, 1: length}, {0: batch}))
    finally:
        for module, mode in modes.items():
            module.training = mode
    ### END SOLUTION
