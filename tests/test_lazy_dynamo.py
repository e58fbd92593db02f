"""Lazy import of torch's compiler: eager training does not import it, and code that needs it gets torch's module."""

import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from warm_process import cold_starts

BEGIN = """import sys, torch
from rankzero.learn.machine.lazy_dynamo import import_dynamo_lazily
import_dynamo_lazily()
"""
IS_IMPORTED = "'torch._dynamo.symbolic_convert' in sys.modules"

# Operations of training starters that need no compiler.
OPTIMIZERS = """
p = torch.nn.Parameter(torch.ones(3))
for optimizer in (torch.optim.AdamW([p]), torch.optim.SGD([p], lr=0.1, momentum=0.9)):
    p.sum().backward()
    optimizer.step()
    optimizer.zero_grad()
    optimizer.load_state_dict(optimizer.state_dict())
"""
DDP = """
import torch.distributed as dist
dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(3, 3))
model(torch.ones(2, 3)).sum().backward()
"""
CHECKPOINTING = """
from torch.utils.checkpoint import checkpoint
x = torch.ones(3, requires_grad=True)
checkpoint(torch.sin, x, use_reentrant=False).sum().backward()
"""

DISPATCH_MODE = """
import gc, weakref
from torch.utils._python_dispatch import TorchDispatchMode
def run(held):
    class Mode(TorchDispatchMode):
        def __torch_dispatch__(self, func, types, args=(), kwargs=None):
            held.append(1)
            return func(*args, **(kwargs or {}))
    with Mode():
        return torch.nn.Linear(3, 3)(torch.ones(2, 3))
class Held(list):
    pass
held = Held()
run(held)
freed = weakref.ref(held)
assert held.pop()
del held
gc.collect()
assert freed() is None, "what a mode's function holds is freed with the mode"
"""

EAGER = {"optimizers": OPTIMIZERS, "DDP": DDP, "checkpointing": CHECKPOINTING, "dispatch mode": DISPATCH_MODE}

# Programs that need the compiler, each in another way.
COMPILES = """
calls = []
def backend(graph, inputs):
    calls.append(graph)
    return graph.forward
assert torch.compile(lambda x: x + 1, backend=backend)(torch.ones(1)) == 2
assert len(calls) == 1, "it was compiled"
"""
IMPORTS_A_PART = "import torch._dynamo.config\nassert torch._dynamo.config.recompile_limit > 0\n"
IMPORTS_FROM_DYNAMO = "from torch._dynamo import is_compiling\nassert not is_compiling()\n"
READS_AN_ATTRIBUTE = "import torch._dynamo\nassert torch._dynamo.utils.counters is not None\n"
EXPORTS = "torch.export.export(torch.nn.Linear(3, 3), (torch.ones(2, 3),))\n"
SHARDS = """
import torch.distributed as dist
from torch.distributed.fsdp import fully_shard
dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
model = fully_shard(torch.nn.Linear(3, 3))
model(torch.ones(2, 3)).sum().backward()
torch.optim.AdamW(model.parameters()).step()
"""


# Imports torch once, and runs each program in a fork of that process.
SERVER = """
import json, os, sys, traceback, torch
for line in sys.stdin:
    read, write = os.pipe()
    pid = os.fork()
    if not pid:
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        os.dup2(write, 2)
        try:
            exec(json.loads(line), {"__name__": "__main__"})
        except BaseException:
            traceback.print_exc()
            os._exit(1)
        os._exit(0)
    os.close(write)
    with os.fdopen(read) as errors:
        text = errors.read()
    print(json.dumps([os.waitpid(pid, 0)[1], text]), flush=True)
"""
Run = Callable[[str], None]


OTHER_NEEDS = (IMPORTS_A_PART, IMPORTS_FROM_DYNAMO, READS_AN_ATTRIBUTE, EXPORTS, SHARDS)


@pytest.fixture(scope="module")
def run() -> Iterator[Run]:
    """Runs a program in a process that has imported only torch; fails with the program's traceback."""
    pipes: Any = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    with cold_starts():
        server = subprocess.Popen([sys.executable, "-c", SERVER], **pipes)
    with server:

        def run_program(program: str) -> None:
            assert server.stdin
            assert server.stdout
            print(json.dumps(program), file=server.stdin, flush=True)
            status, errors = json.loads(server.stdout.readline())
            assert status == 0, errors

        yield run_program
        assert server.stdin
        server.stdin.close()


def test_eager_training_does_not_import_the_compiler(run: Run, tmp_path: Path) -> None:
    starter = f"""import sys, torch
from rankzero.curriculum import find_lab
find_lab("02").import_starter().main(["--steps", "1", "--out", {str(tmp_path)!r}])
"""
    checked = [f"{part}assert not {IS_IMPORTED}, {name!r}\n" for name, part in ({"a starter": starter} | EAGER).items()]
    run(f"{''.join(checked)}{COMPILES}assert {IS_IMPORTED}\n{OPTIMIZERS}{CHECKPOINTING}")


@pytest.mark.prove
@pytest.mark.parametrize(
    "needs",
    [COMPILES, *(pytest.param(needs, marks=pytest.mark.prove) for needs in OTHER_NEEDS)],
    ids=["compile", "import of a part", "import from", "attribute", "export", "fully_shard"],
)
def test_code_that_needs_the_compiler_gets_torchs_module(run: Run, needs: str) -> None:
    same = "assert torch._dynamo is sys.modules['torch._dynamo']\nassert 'site-packages' in torch._dynamo.__file__\n"
    run(f"{BEGIN}{OPTIMIZERS}{needs}{same}{OPTIMIZERS}")


@pytest.mark.prove
def test_methods_that_torch_disables_for_its_compiler_are_disabled_again(run: Run) -> None:
    method = "torch.optim.Optimizer.zero_grad.__wrapped__"
    disabled = f"getattr({method}, '__dynamo_disable', None)"
    before = f"assert {disabled} is {method}, 'the stand-in returns the method unchanged'\n"
    after = f"assert {disabled} is None\n{OPTIMIZERS}assert {disabled} not in (None, {method})\n"
    run(f"{BEGIN}{OPTIMIZERS}{before}{IMPORTS_FROM_DYNAMO}{after}")


@pytest.mark.prove
def test_a_compiler_that_was_imported_before_stays(run: Run) -> None:
    run(f"import sys, torch._dynamo\n{BEGIN}assert {IS_IMPORTED}\n{OPTIMIZERS}")
