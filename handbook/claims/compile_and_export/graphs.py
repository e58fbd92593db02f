"""Claims of handbook/compile-and-export.md on captured graphs, guards and recompilation; no code is generated."""

import contextlib
import logging
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from rankzero.claims.chart import Chart, Charted
from rankzero.claims.claim import claim
from rankzero.claims.toolkit.captured_graphs import GraphRecorder, compilations
from rankzero.claims.toolkit.kept_bytes import kept_tensors
from rankzero.learn.distributed.world import run_world
from rankzero.learn.models.gpt import GPT, GPTConfig
from rankzero.learn.profiling.memory import MIB, tensor_bytes

CONFIG = GPTConfig(vocab_size=96)
LENGTHS = (33, 40, 48, 56, 60, 64)


def tokens(rows: int = 2, length: int = 16) -> Tensor:
    """Token ids, int64 [rows, length]."""
    return torch.arange(rows * length).view(rows, length) % CONFIG.vocab_size


def loss_of(model: Callable[[Tensor], Tensor], x: Tensor) -> Tensor:
    """Mean loss of a model that predicts its input."""
    return F.cross_entropy(model(x).flatten(0, 1), x.flatten())


def reads_a_number(x: Tensor) -> Tensor:
    """Divides by a number that Python reads."""
    return x / x.abs().max().item()


def prints(x: Tensor) -> Tensor:
    """Prints between two operations."""
    y = x * 2
    print(end="")
    return y + 1


def branches(x: Tensor) -> Tensor:
    """Decides in Python by a number of the tensor."""
    if x.sum() > 0:
        return x + 1
    return x - 1


def selects(x: Tensor) -> Tensor:
    """Decides inside the graph."""
    return torch.where(x.sum() > 0, x + 1, x - 1)


@contextlib.contextmanager
def messages() -> Iterator[list[str]]:
    """Collects the messages of the compiler's loggers instead of printing them."""
    seen: list[str] = []
    handler = logging.Handler()
    handler.emit = lambda record: seen.append(record.getMessage())  # type: ignore[method-assign]
    known = [logger for name, logger in logging.root.manager.loggerDict.items() if name.partition(".")[0] == "torch"]
    others = {logger: logger.handlers for logger in known if isinstance(logger, logging.Logger) and logger.handlers}
    for logger in others:
        logger.handlers = [handler]
    try:
        yield seen
    finally:
        for logger, handlers in others.items():
            logger.handlers = handlers


@claim(
    "compile-graph-breaks",
    "A number that Python reads by .item(), a print and an `if` on a tensor each split a function into "
    "{expected[item]} graphs; torch.where leaves {expected[where]}.",
    expected={"item": 2, "print": 2, "if": 2, "where": 1},
    unit="graphs",
)
def graph_breaks() -> Mapping[str, float]:
    """Calls each function once, compiled with a backend that records the graphs."""
    functions = {"item": reads_a_number, "print": prints, "if": branches, "where": selects}
    with messages():
        return {name: compilations(function, [(torch.ones(4),)])[0] for name, function in functions.items()}


@claim(
    "compile-fullgraph",
    "With fullgraph=True the print and the `if` raise an error that names the line; .item() raises none and is part of "
    "the one graph.",
    expected={"print names its line": 1, "if names its line": 1, "graphs of .item()": 1},
    unit="",
)
def fullgraph() -> Mapping[str, float]:
    """Compiles the same functions with fullgraph=True, and looks for the line of source in the error."""

    def names(function: Callable[..., Any], line: str) -> int:
        try:
            compilations(function, [(torch.ones(4),)], fullgraph=True)
        except Exception as error:
            return int(line in str(error))
        return 0

    with messages():
        return {
            "print names its line": names(prints, 'print(end="")'),
            "if names its line": names(branches, "if x.sum() > 0:"),
            "graphs of .item()": sum(compilations(reads_a_number, [(torch.ones(4),)], fullgraph=True)),
        }


@claim(
    "compile-logs",
    "torch._dynamo.config.verbose logs {expected[verbose]} messages about a graph break; the log graph_breaks does.",
    expected={"verbose": 0, "graph_breaks": 1},
    unit="",
)
def logs() -> Mapping[str, float]:
    """Runs a function with an `if` on a tensor under each setting, and counts messages that say "Graph break"."""

    def said() -> int:
        with messages() as seen:
            compilations(branches, [(torch.ones(4),)])
        return int(any("Graph break" in message for message in seen))

    with torch._dynamo.config.patch(verbose=True):
        verbose = said()
    torch._logging.set_logs(graph_breaks=True)  # type: ignore[attr-defined]
    try:
        return {"verbose": verbose, "graph_breaks": said()}
    finally:
        torch._logging.set_logs()  # type: ignore[attr-defined]


@claim(
    "compile-lengths",
    "A GPT compiles {expected[by default]} times for six lengths, {expected[dynamic=False]} times with dynamic=False, "
    "and once with dynamic=True or mark_dynamic.",
    expected={"by default": 2, "dynamic=False": 6, "dynamic=True": 1, "mark_dynamic": 1},
    unit="compilations",
)
def lengths() -> Charted:
    """Calls the compiled model with batches of 33, 40, 48, 56, 60 and 64 tokens, and counts captured graphs."""
    ways: dict[str, dict[str, Any]] = {
        "by default": {},
        "dynamic=False": {"dynamic": False},
        "dynamic=True": {"dynamic": True},
        "mark_dynamic": {},
    }
    measured, lines = {}, {}
    for way, options in ways.items():
        batches = [tokens(2, length) for length in LENGTHS]
        if way == "mark_dynamic":
            for batch in batches:
                torch._dynamo.mark_dynamic(batch, 1)
        counts = compilations(GPT(CONFIG), [(batch,) for batch in batches], **options)
        measured[way] = sum(counts)
        sums = [sum(counts[: place + 1]) for place in range(len(counts))]
        lines[way] = [(length, count, count, count) for length, count in zip(LENGTHS, sums, strict=True)]
    chart = Chart("Compilations so far", "tokens per sequence, in this order", "compilations so far", lines)
    return Charted(measured, chart)


@claim(
    "compile-guards",
    "Eval mode, no_grad, another dtype, other strides, another number of threads and a batch of 1 each fail a guard "
    "and compile once more; other values and the same shape again compile nothing.",
    expected={
        "first call": 1,
        "other values": 0,
        "eval mode": 1,
        "no_grad": 1,
        "bf16": 1,
        "other strides": 1,
        "another number of threads": 1,
        "a batch of 1": 1,
    },
    unit="compilations",
)
def guards() -> Mapping[str, float]:
    """Calls a compiled layer with one change at a time, each in a compiler that has seen the first call."""
    threads = torch.get_num_threads()

    def caused(change: str) -> int:
        layer = nn.Sequential(nn.Linear(4, 4), nn.Dropout(0.1))
        recorder = GraphRecorder()
        compiled, x = torch.compile(layer, backend=recorder), torch.ones(3, 4)
        first = recorder.during(lambda: compiled(x))
        if change == "first call":
            return first
        if change == "eval mode":
            layer.eval()
        elif change == "another number of threads":
            torch.set_num_threads(threads + 1)
        elif change == "bf16":
            layer.bfloat16()
        others = {"other values": -x, "bf16": x.bfloat16(), "other strides": torch.ones(4, 3).T, "a batch of 1": x[:1]}
        with torch.set_grad_enabled(change != "no_grad"):
            return recorder.during(lambda: compiled(others.get(change, x)))

    changes = ("first call", "other values", "eval mode", "no_grad", "bf16", "other strides")
    try:
        return {change: caused(change) for change in (*changes, "another number of threads", "a batch of 1")}
    finally:
        torch.set_num_threads(threads)


class CountsCalls(nn.Module):
    """A layer with a counter that its forward pass raises."""

    def __init__(self) -> None:
        super().__init__()
        self.layer, self.calls = nn.Linear(4, 4), 0

    def forward(self, x: Tensor) -> Tensor:
        """As the layer."""
        self.calls += 1
        return self.layer(x)


@claim(
    "compile-changing-number",
    "In 12 calls, a float argument that changes compiles {expected[float]} times, a tensor "
    "{expected[tensor]} time; with dynamic=False the float, and by default a counter on a module, reach the limit of "
    "{expected[counter on a module]}.",
    expected={"float": 2, "tensor": 1, "float, dynamic=False": 8, "counter on a module": 8},
    unit="compilations in 12 calls",
)
def changing_number() -> Mapping[str, float]:
    """Multiplies by a number that differs in each call; the counter is raised in the module's forward pass."""

    def scaled(x: Tensor, rate: float | Tensor) -> Tensor:
        return x * rate

    x, rates = torch.ones(3, 4), [0.1 * call for call in range(1, 13)]
    with messages():
        return {
            "float": sum(compilations(scaled, [(x, rate) for rate in rates])),
            "tensor": sum(compilations(scaled, [(x, torch.tensor(rate)) for rate in rates])),
            "float, dynamic=False": sum(compilations(scaled, [(x, rate) for rate in rates], dynamic=False)),
            "counter on a module": sum(compilations(CountsCalls(), [(x,)] * 12)),
        }


@claim(
    "compile-limit",
    "After {expected[compilations]} compilations of one function, torch logs one warning and runs further shapes "
    "eager; with fullgraph=True it raises.",
    expected={"compilations": 8, "warnings": 1, "fullgraph raises": 1},
    unit="",
)
def limit() -> Mapping[str, float]:
    """Calls a function with 14 shapes and dynamic=False, with and without fullgraph."""
    calls = [(torch.ones(rows),) for rows in range(10, 24)]
    with messages() as seen:
        counts = compilations(torch.sin, calls, dynamic=False)
    with messages():
        try:
            compilations(torch.sin, calls, dynamic=False, fullgraph=True)
            raised = 0
        except Exception as error:
            raised = int(type(error).__name__ == "FailOnRecompileLimitHit")
    warnings = sum("recompile_limit" in message for message in seen)
    return {"compilations": sum(counts), "warnings": warnings, "fullgraph raises": raised}


@claim(
    "compile-blocks",
    "Compiled as a whole, a GPT of 4 layers is one graph of {expected[whole]} operations; with each block compiled, "
    "one graph of {expected[a block]} operations serves all four.",
    expected={"whole": 83, "a block": 19, "graphs of the whole": 1, "graphs of four blocks": 1},
    unit="",
)
def blocks() -> Mapping[str, float]:
    """Compiles the model, and then the blocks of another one, with a backend that counts."""
    whole = GraphRecorder()
    torch.compile(GPT(CONFIG), backend=whole)(tokens())
    one, model = GraphRecorder(), GPT(CONFIG)
    for block in model.blocks:
        block.compile(backend=one)
    model(tokens())
    return {
        "whole": sum(whole.sizes),
        "a block": sum(one.sizes),
        "graphs of the whole": len(whole.graphs),
        "graphs of four blocks": len(one.graphs),
    }


@claim(
    "compile-autocast",
    "Under autocast the compiled loss is {expected[graphs]} graph, whether autocast is inside or outside of it, and "
    "its gradients are those of eager autocast.",
    expected={"graphs": 1, "graphs, autocast inside": 1, "equal gradients": 1},
    unit="",
)
def autocast() -> Mapping[str, float]:
    """Compiles a GPT's loss with AOTAutograd and no code generation, in bf16; compares gradients bit for bit."""
    model, x = GPT(CONFIG), tokens()

    def inside(model: nn.Module, x: Tensor) -> Tensor:
        with torch.autocast("cpu", torch.bfloat16):
            return loss_of(model, x)

    with torch.autocast("cpu", torch.bfloat16):
        outside_graphs = sum(compilations(loss_of, [(model, x)]))
    inside_graphs = sum(compilations(inside, [(model, x)]))
    torch._dynamo.reset()
    gradients = []
    for run in (inside, torch.compile(inside, backend="aot_eager")):
        model.zero_grad()
        run(model, x).backward()
        gradients.append([p.grad.clone() for p in model.parameters() if p.grad is not None])
    equal = all(torch.equal(a, b) for a, b in zip(*gradients, strict=True))
    return {"graphs": outside_graphs, "graphs, autocast inside": inside_graphs, "equal gradients": int(equal)}


class Checkpointed(nn.Module):
    """A GPT whose blocks keep only their input for backward."""

    def __init__(self, model: GPT) -> None:
        super().__init__()
        self.model = model

    def forward(self, x: Tensor) -> Tensor:
        """[B, T] -> [B, T, V]"""
        model = self.model
        hidden = model.token_embedding(x) + model.position_embedding(torch.arange(x.shape[1]))
        for block in model.blocks:
            hidden = torch.utils.checkpoint.checkpoint(block, hidden, use_reentrant=False)
        logits: Tensor = model.head(model.norm(hidden))
        return logits


@claim(
    "compile-checkpointing",
    "With checkpointed blocks the compiled loss stays one graph and keeps {expected[compiled, checkpointed]:.1f} MiB "
    "of {expected[compiled]:.1f}; eager checkpointing keeps {expected[eager, checkpointed]:.1f}.",
    expected={"graphs": 1, "eager": 28.2, "eager, checkpointed": 2.6, "compiled": 28.2, "compiled, checkpointed": 5.3},
    unit="MiB kept for backward",
    tolerance=0.1,
)
def checkpointing() -> Mapping[str, float]:
    """Counts what autograd keeps of 12 rows of 64 tokens, with the compiler's partition into forward and backward."""
    model = GPT(CONFIG)
    x = tokens(12, 64)
    measured: dict[str, float] = {"graphs": sum(compilations(loss_of, [(Checkpointed(model), x)]))}
    for name, module in (("", model), (", checkpointed", Checkpointed(model))):
        for way in ("eager", "compiled"):
            torch._dynamo.reset()
            backend = "aot_eager_decomp_partition"
            function = torch.compile(loss_of, backend=backend) if way == "compiled" else loss_of
            measured[way + name] = tensor_bytes(kept_tensors(function, module, x)) / MIB
    return measured


def graphs_under_ddp(cap_mib: float) -> tuple[int, float]:
    """Graphs of a compiled DDP model with this bucket cap, and how far its gradients are from those of eager DDP."""
    from torch.nn.parallel import DistributedDataParallel

    gradients, recorder = [], GraphRecorder()
    for compiled in (False, True):
        torch.manual_seed(0)
        model = DistributedDataParallel(GPT(CONFIG), bucket_cap_mb=cap_mib)
        run = torch.compile(model, backend=recorder) if compiled else model
        loss_of(run, tokens() + torch.distributed.get_rank()).backward()
        gradients.append(torch.cat([p.grad.flatten() for p in model.parameters() if p.grad is not None]))
    return len(recorder.graphs), (gradients[0] - gradients[1]).abs().max().item()


@claim(
    "compile-ddp",
    "Of a GPT in DDP, the compiler makes {expected[25 MiB]} graphs with buckets of 25 MiB and {expected[1 MiB]} with "
    "buckets of 1 MiB, and the gradients are those of eager DDP.",
    expected={"25 MiB": 2, "1 MiB": 4, "equal gradients": 1},
    unit="graphs",
    needs=("cpu", "ranks"),
)
def ddp() -> Mapping[str, float]:
    """Compiles a GPT in DDP on 2 ranks with a backend that counts, for two caps of a bucket."""
    caps = {"25 MiB": 25.0, "1 MiB": 1.0}
    found = run_world(lambda: {name: graphs_under_ddp(cap) for name, cap in caps.items()}, 2, seconds=300)[0]
    equal = int(all(apart < 1e-6 for _, apart in found.values()))
    return {name: graphs for name, (graphs, _) in found.items()} | {"equal gradients": equal}


@claim(
    "compile-modes",
    "reduce-overhead sets {expected[settings of reduce-overhead]} setting of the compiler, CUDA graphs, which a CPU "
    "does not have.",
    expected={"settings of reduce-overhead": 1, "it is CUDA graphs": 1, "modes that tune": 2},
    unit="",
)
def modes() -> Mapping[str, float]:
    """Reads what torch lists for each mode."""
    settings = torch._inductor.list_mode_options()
    return {
        "settings of reduce-overhead": len(settings["reduce-overhead"]),
        "it is CUDA graphs": int("triton.cudagraphs" in settings["reduce-overhead"]),
        "modes that tune": sum("max_autotune" in options for options in settings.values()),
    }
