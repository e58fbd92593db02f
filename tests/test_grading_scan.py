"""Static scan and code similarity: honest work has no flags, and each of these attacks has a flag."""

import ast
import random
import re
from collections.abc import Mapping

import pytest

from rankzero.curriculum import Lab, all_labs, find_lab
from rankzero.exercises.checks.known_wrong import known_wrong, wrong_source
from rankzero.grading.scan.code_similarity import FREE_NODES, MIN_SHARED_NODES, shapes, similarity_flags
from rankzero.grading.scan.static_scan import scan

LABS = all_labs()
LAB = find_lab("02")
REFERENCE = LAB.reference.read_text(encoding="utf-8")
STUB = LAB.stubs.read_text(encoding="utf-8")

# Purpose of an attack -> kind of its flag, and the attacking code.
ATTACKS = {
    "reads the reference from the caller's frame": ("frames", "import sys\nx = sys._getframe(1).f_back.f_locals"),
    "the same through inspect": ("frames", "from inspect import currentframe as c\nx = c()"),
    "the same through an error": ("frames", "try:\n    1 / 0\nexcept Exception as e:\n    x = e.__traceback__"),
    "the same through getattr": ("frames", "def f(g):\n    return getattr(g, 'gi_frame')"),
    "finds the reference among all objects": ("frames", "import gc\nfor o in gc.get_objects():\n    pass"),
    "finds every class": ("frames", "x = ().__class__.__base__.__subclasses__()"),
    "leaves before the checks": ("processes", "import os\nos._exit(0)"),
    "runs a shell": ("processes", "import os as quiet\nquiet.system('id')"),
    "starts a program": ("processes", "from subprocess import run"),
    "forks": ("processes", "from os import fork\nfork()"),
    "kills its parent": ("processes", "import os\nos.kill(os.getppid(), 9)"),
    "writes at exit": ("processes", "import atexit\natexit.register(print)"),
    "leaves by an exception": ("processes", "raise SystemExit(0)"),
    "watches from a thread": ("processes", "import threading"),
    "reads memory": ("processes", "import ctypes"),
    "imports the grader": ("grader", "from rankzero.exercises.checks import judges"),
    "looks for the grader": ("grader", "import sys\nx = sys.modules['rankzero.exercises.probes.probe_server']"),
    "imports by name": ("grader", "x = __import__('o' + 's')"),
    "imports the checks": ("grader", "import checks"),
    "writes to the pipe": ("files", "import os\nos.write(3, b'{}')"),
    "reads the environment": ("files", "import os\nx = os.environ['TOKEN']"),
    "reads its process": ("files", "x = open('/proc/self/maps').read()"),
    "reads the solutions": ("files", "from pathlib import Path\nx = (Path(__file__).parent / 'x').read_text()"),
    "sends the inputs away": ("network", "import socket"),
    "fetches the answers": ("network", "import urllib.request as u\nx = u.urlopen('http://x.org')"),
    "makes all tensors equal": ("patching", "import torch\ntorch.equal = lambda a, b: True"),
    "the same by setattr": ("patching", "import torch\nsetattr(torch.testing, 'assert_close', print)"),
    "the same by another name": ("patching", "import torch\nt = torch\nt.allclose = print"),
    "the same in a table": ("patching", "import torch\ntorch.__dict__['equal'] = print"),
    "the same in a loop": ("patching", "import torch\nfor m in (torch,):\n    m.equal = print"),
    "the same in a loop over classes": ("patching", "import torch\nfor c in [torch.Tensor]:\n    c.detach = print"),
    "the same in a comprehension": ("patching", "import torch\n[setattr(m, 'equal', print) for m in {torch}]"),
    "the same by unpacking": ("patching", "import torch\n(t, T), n = (torch, torch.Tensor), 1\nT.detach = print"),
    "the same by a star": ("patching", "from torch import Tensor\n*_, t = 1, Tensor\nt.detach = print"),
    "the same by a walrus": ("patching", "import torch\nif T := torch.Tensor:\n    T.detach = print"),
    "the same by a default": ("patching", "from torch import Tensor\ndef f(t=Tensor):\n    t.detach = print"),
    "the same by a default by name": ("patching", "from torch import Tensor\ndef f(*, t=Tensor):\n    t.add = print"),
    "the same by a lambda": ("patching", "import torch\n(lambda t: setattr(t, 'equal', print))(torch)"),
    "the same by a context": (
        "patching",
        "import contextlib, torch\nwith contextlib.nullcontext(torch.Tensor) as t:\n    t.detach = print",
    ),
    "the same by a pattern": ("patching", "import torch\nmatch torch.Tensor:\n    case t:\n        t.detach = print"),
    "the same by an attribute in a pattern": (
        "patching",
        "import torch\nmatch torch:\n    case object(Tensor=t):\n        t.detach = print",
    ),
    "reads a frame by a pattern": ("frames", "def f(g):\n  match g:\n    case object(gi_frame=x):\n      x()"),
    "ends by a pattern": ("processes", "import os\nmatch os:\n    case object(_exit=leave):\n        leave(0)"),
    "listens to all that Python does": ("frames", "import sys\nsys.addaudithook(print)"),
    "keeps a text beside a file": ("files", "import os\nos.setxattr('x', 'user.kept', b'1')"),
    "keeps a number in a file's time": ("files", "import os\nos.utime('x', (1, 2))"),
    "shares memory by a file": ("files", "import torch\nx = torch.from_file('x', shared=True, size=9)"),
    "shares memory": ("files", "def f(tensor):\n    tensor.share_memory_()"),
    "hides what autograd saves": (
        "patching",
        "import torch\nh = torch.autograd.graph.saved_tensors_hooks(print, print)",
    ),
    "calls a model unseen": ("patching", "def f(model, x):\n    return model._compiled_call_impl(x)"),
    "declares its class safe": ("patching", "import torch\ntorch.serialization.add_safe_globals([print])"),
    "clips with torch": ("library", "import torch\nn = torch.nn.utils.clip_grad_norm_"),
    "checkpoints with torch": ("library", "from torch.utils.checkpoint import checkpoint"),
    "the same by an argument": ("patching", "from torch import nn\ndef f(m):\n    m.Linear = print\nf(nn)"),
    "the same by a table": ("patching", "import torch\nvars(torch)['equal'] = print"),
    "the same by a part of setattr": (
        "hidden",
        "import functools, torch\nfunctools.partial(setattr, torch.Tensor)('detach', print)",
    ),
    "changes what torch does": ("patching", "from torch.overrides import TorchFunctionMode"),
    "changes an operator": ("patching", "import torch\nlib = torch.library.Library('aten', 'IMPL')"),
    "changes all modules": (
        "patching",
        "from torch.nn.modules.module import register_module_forward_hook as h\nh(print)",
    ),
    "changes a default": ("patching", "import torch\ntorch.set_default_dtype(torch.float64)"),
    "makes a class of classes": ("objects", "class C(metaclass=print):\n    pass"),
    "finds the built-ins by a function": ("frames", "x = print.__self__"),
    "finds what a wrapper hides": ("frames", "def f(g):\n    return g.__wrapped__"),
    "changes the built-ins": ("patching", "import builtins\nbuiltins.sum = max"),
    "an answer equal to all": ("objects", "class Right:\n    def __eq__(self, other):\n        return True"),
    "a number that decides": ("objects", "class Loss(float):\n    pass"),
    "an array that decides": ("objects", "import torch\nclass T(torch.Tensor):\n    pass"),
    "the same without a class": ("objects", "Right = type('Right', (), {'__eq__': print})"),
    "takes all names": ("hidden", "from os import *\n_exit(0)"),
    "leaves by another name": ("processes", "import os\n[os][0]._exit(0)"),
    "runs what is packed": ("hidden", "import base64\nexec(base64.b64decode('cHJpbnQoMSk='))"),
    "the same unpickled": ("hidden", "from pickle import loads"),
    "evaluates text": ("hidden", "e = eval\ne('1')"),
    "holds long text": ("hidden", f"x = {'a' * 600!r}"),
    "holds a long number": ("hidden", f"x = 0x{'f' * 200}"),
    "holds a table of answers": ("hidden", f"x = {list(range(200))}"),
    "reads its own docstring": ("hidden", "def f():\n    return f.__doc__"),
    "computes the name": ("hidden", "def f(o, n):\n    return getattr(o, n[::-1])"),
    "turns the text around": ("hidden", "x = 1  # \u202e evil"),
    "looks like another name": ("hidden", "ｘ = 1"),
    "hides to the right": ("hidden", f"x = 1;{' ' * 120}y = 2"),
    "hides the encoding": ("hidden", "# coding: utf-7\nx = 1"),
}  # fmt: skip


# Known-wrong solutions that keep things in odd places, where a person should see them.
ODD = {
    *("kept_past_backward", "one_list_for_all", "one_store_for_all", "outputs_kept_aside", "sending_not_waited_for"),
    "own_dict_returned",
    # Forbidden by their contracts.
    *("lengthened_to_the_limit", "library_called", "moved_to_the_host", "gradients_clipped", "torchs_sampler"),
}


@pytest.mark.parametrize("lab", LABS, ids=lambda lab: lab.slug)
def test_honest_work_has_no_flags(lab: Lab) -> None:
    sources = {wrong.name: wrong_source(lab, wrong) for wrong in known_wrong(lab).values() if wrong.name not in ODD}
    assert len(sources) > 20
    sources |= {str(file): file.read_text(encoding="utf-8") for file in (lab.reference, lab.stubs)}
    published = lab.reference.read_bytes()
    assert {name: flags for name, source in sources.items() if (flags := scan(source, published))} == {}


def test_what_the_published_solution_needs_has_a_flag_in_other_labs_alone() -> None:
    other = LAB.reference.read_bytes()
    saving = other + b"\nimport os\n\ndef save(path):\n    return os.open(path, os.O_WRONLY)\n"
    assert scan(saving, saving) == ()
    attack = "\nos.open('x', 0)\nos.fork()\n"
    assert [flag.text for flag in scan(saving + attack.encode(), saving)] == ["uses os.fork"]
    flags = scan(other + f"\nimport os{attack}".encode(), other)
    assert [flag.text for flag in flags] == ["uses os.open", "uses os.fork"]


@pytest.mark.parametrize("purpose", ATTACKS)
def test_an_attack_has_a_flag(purpose: str) -> None:
    kind, text = ATTACKS[purpose]
    flags = scan(f"{REFERENCE}\n{text}\n" if "coding" not in text else text)
    assert kind in {flag.kind for flag in flags}
    assert all(re.search(r"\w", flag.text) and flag.text.isprintable() for flag in flags)
    assert all(flag.line > REFERENCE.count("\n") for flag in flags) or "coding" in text


def test_each_suspicious_name_has_one_flag_with_its_first_line() -> None:
    flags = scan("import os\n\nos.fork()\nos.fork()\nimport torch\ntorch.equal = 1\n")
    assert [(flag.kind, flag.text, flag.line) for flag in flags] == [
        ("processes", "uses os.fork", 3),
        ("patching", "changes torch.equal", 6),
    ]


def test_the_number_of_flags_is_limited() -> None:
    flags = scan("import os\n" + "".join(f"import torch\ntorch.a{number} = 1\n" for number in range(100)))
    assert len(flags) == 30
    assert flags[-1].text == "71 flags more"


@pytest.mark.parametrize(
    "source",
    [
        "", "\0", b"\xff\xfe\x00", "(" * 100_000, "-" * 100_000 + "1", "x" + ".a" * 50_000, "1" + "+1" * 50_000,
        "lambda:" * 5000 + "1", "[" * 90 + "]" * 90, "if 1:\n" * 50, "\ud800", b"# coding: nonsense\nx",
        "x = '" + "a" * 10_000_000 + "'", b"\x00" * 300_000, f"x = {'9' * 5000}", "x = 0x" + "f" * 9000, "def f(:",
        b"\xef\xbb\xbfx", "f'{' * 9", "'\\N{nothing}'", "match x:\n case [" + "[" * 300, "\x0c\x1b[2J",
        "@a\n" * 20_000 + "def f(): pass",
        "x" + "[0]" * 900, "x" + "()" * 900,
    ],
    ids=range(25),
)  # fmt: skip
def test_unusual_sources_raise_no_error(source: str | bytes) -> None:
    assert isinstance(scan(source), tuple)
    assert isinstance(similarity_flags({"a": source, "b": source}, STUB, source), dict)


def test_random_bytes_raise_no_error() -> None:
    rng = random.Random(0)
    data = REFERENCE.encode()
    for _ in range(60):
        noisy = bytearray(data)
        for _ in range(rng.randrange(1, 8)):
            noisy[rng.randrange(len(noisy))] = rng.randrange(256)
        scan(bytes(noisy))


# Similar code --------------------------------------------------------------------------------------------------------


class Renaming(ast.NodeTransformer):
    """Gives variables and arguments other names."""

    def visit_Name(self, node: ast.Name) -> ast.Name:
        node.id = self.new_name(node.id)
        return node

    def visit_arg(self, node: ast.arg) -> ast.arg:
        node.arg, node.annotation = self.new_name(node.arg), None
        return node

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.FunctionDef:
        for inner in ast.walk(node):
            if isinstance(inner, ast.FunctionDef) and inner is not node and not inner.name.startswith("my_"):
                inner.name = self.new_name(inner.name)
        self.generic_visit(node)
        return node

    def visit_Nonlocal(self, node: ast.Nonlocal) -> ast.Nonlocal:
        node.names = [self.new_name(name) for name in node.names]
        return node

    def new_name(self, name: str) -> str:
        return name if name in self.kept else f"my_{name}"

    def __init__(self, text: str) -> None:
        self.kept = set(re.findall(r"^(?:from .* )?import (.*)$", text, re.MULTILINE))
        self.kept = {word for line in self.kept for word in re.findall(r"\w+", line)} | {"min", "int", "len", "float"}


def renamed(text: str) -> str:
    return ast.unparse(Renaming(text).visit(ast.parse(text)))


# Right answers to Lab 02's longest functions, in the styles of several people.
HEAD = "import math\nimport torch\nimport torch.nn.functional as F\nfrom torch import nn\n"
VARIANTS = [
    """
def train_step(model, optimizer, x, y):
    optimizer.zero_grad()
    logits = model(x)
    loss = F.cross_entropy(logits.view(-1, logits.size(-1)), y.view(-1))
    loss.backward()
    optimizer.step()
    return loss.item()
def evaluate(model, batches):
    training = model.training
    model.eval()
    loss_sum = 0.0
    count = 0
    with torch.no_grad():
        for x, y in batches:
            logits = model(x)
            loss = F.cross_entropy(logits.view(-1, logits.size(-1)), y.view(-1), reduction="sum")
            loss_sum += loss.item()
            count += y.numel()
    model.train(training)
    return loss_sum / count
def learning_rate(step, peak, warmup_steps, total_steps, floor):
    if step < warmup_steps:
        return peak * (step + 1) / warmup_steps
    if step >= total_steps:
        return floor
    progress = (step - warmup_steps) / (total_steps - warmup_steps)
    return floor + 0.5 * (peak - floor) * (1 + math.cos(math.pi * progress))
def overfit_one_batch(model, x, y, lr, target, max_steps):
    optimizer = torch.optim.AdamW(model.parameters(), lr=lr)
    losses = []
    for _ in range(max_steps):
        loss = train_step(model, optimizer, x, y)
        losses.append(loss)
        if loss < target:
            break
    return losses
""",
    """
def train_step(model, optimizer, x, y):
    optimizer.zero_grad()
    logits = model(x)
    B, T, V = logits.shape
    loss = F.cross_entropy(logits.view(B * T, V), y.view(B * T))
    loss.backward()
    optimizer.step()
    return loss.item()
@torch.no_grad()
def evaluate(model, batches):
    mode = model.training
    model.eval()
    total, n = 0.0, 0
    for x, y in batches:
        logits = model(x)
        B, T, V = logits.shape
        total += F.cross_entropy(logits.view(B * T, V), y.view(B * T)).item() * B * T
        n += B * T
    model.train(mode)
    return total / n
def learning_rate(step, peak, warmup_steps, total_steps, floor):
    if step < warmup_steps:
        return peak * (step + 1) / warmup_steps
    if step >= total_steps:
        return floor
    progress = (step - warmup_steps) / (total_steps - warmup_steps)
    return floor + (peak - floor) * 0.5 * (1 + math.cos(math.pi * progress))
def overfit_one_batch(model, x, y, lr, target, max_steps):
    optimizer = torch.optim.AdamW(model.parameters(), lr=lr)
    losses = []
    for _ in range(max_steps):
        losses.append(train_step(model, optimizer, x, y))
        if losses[-1] < target:
            break
    return losses
""",
    """
def train_step(model, optimizer, x, y):
    optimizer.zero_grad()
    out = model(x)
    loss = nn.CrossEntropyLoss()(out.reshape(-1, out.shape[-1]), y.reshape(-1))
    loss.backward()
    optimizer.step()
    return float(loss)
def evaluate(model, batches):
    before = model.training
    model.eval()
    losses, sizes = [], []
    with torch.inference_mode():
        for x, y in batches:
            out = model(x)
            losses.append(nn.CrossEntropyLoss(reduction="sum")(out.reshape(-1, out.shape[-1]), y.reshape(-1)).item())
            sizes.append(y.numel())
    model.train(before)
    return sum(losses) / sum(sizes)
def learning_rate(step, peak, warmup_steps, total_steps, floor):
    if step < warmup_steps:
        return (step + 1) / warmup_steps * peak
    t = (min(step, total_steps) - warmup_steps) / (total_steps - warmup_steps)
    return floor + (peak - floor) * (1 + math.cos(math.pi * t)) / 2
def overfit_one_batch(model, x, y, lr, target, max_steps):
    opt = torch.optim.AdamW(model.parameters(), lr=lr)
    history = []
    for _ in range(max_steps):
        l = train_step(model, opt, x, y)
        history.append(l)
        if l < target:
            return history
    return history
""",
    """
def train_step(model, optimizer, x, y):
    optimizer.zero_grad()
    loss = F.cross_entropy(model(x).transpose(1, 2), y)
    loss.backward()
    optimizer.step()
    return loss.item()
@torch.no_grad()
def evaluate(model, batches):
    was_training = model.training
    model.eval()
    total = 0.0
    tokens = 0
    for x, y in batches:
        total += F.cross_entropy(model(x).transpose(1, 2), y, reduction="sum").item()
        tokens += y.numel()
    model.train(was_training)
    return total / tokens
def learning_rate(step, peak, warmup_steps, total_steps, floor):
    if warmup_steps > 0 and step < warmup_steps:
        return peak * (step + 1) / warmup_steps
    if step >= total_steps:
        return floor
    progress = (step - warmup_steps) / (total_steps - warmup_steps)
    cosine = 0.5 * (1 + math.cos(math.pi * progress))
    return floor + (peak - floor) * cosine
def overfit_one_batch(model, x, y, lr, target, max_steps):
    optimizer = torch.optim.AdamW(model.parameters(), lr=lr)
    losses = []
    for step in range(max_steps):
        loss = train_step(model, optimizer, x, y)
        losses.append(loss)
        if loss < target:
            break
    return losses
""",
    """
def train_step(model, optimizer, x, y):
    optimizer.zero_grad()
    logits = model(x)
    loss = F.cross_entropy(logits.view(-1, logits.size(-1)), y.view(-1))
    loss.backward()
    optimizer.step()
    return loss.item()
def evaluate(model, batches):
    was_training = model.training
    model.eval()
    try:
        total, count = 0.0, 0
        with torch.no_grad():
            for x, y in batches:
                logits = model(x)
                total += F.cross_entropy(logits.flatten(0, 1), y.flatten(), reduction="sum").item()
                count += y.numel()
    finally:
        model.train(was_training)
    return total / count
def learning_rate(step, peak, warmup_steps, total_steps, floor):
    if step < warmup_steps:
        return peak * (step + 1) / warmup_steps
    elif step < total_steps:
        ratio = (step - warmup_steps) / (total_steps - warmup_steps)
        return floor + (peak - floor) * 0.5 * (1.0 + math.cos(math.pi * ratio))
    else:
        return floor
def overfit_one_batch(model, x, y, lr, target, max_steps):
    optimizer = torch.optim.AdamW(model.parameters(), lr=lr)
    losses = []
    step = 0
    while step < max_steps:
        loss = train_step(model, optimizer, x, y)
        losses.append(loss)
        step += 1
        if loss < target:
            break
    return losses
""",
]
CLASS = {f"student{number}": HEAD + text for number, text in enumerate(VARIANTS)} | {"reference": REFERENCE}


def shared_nodes(first: str, second: str) -> int:
    """Returns the number of nodes in functions that both sources have, without FREE_NODES per function."""
    shared = {shape.digest for shape in shapes(first).values()} & {shape.digest for shape in shapes(second).values()}
    return sum(max(0, shape.nodes - FREE_NODES) for shape in shapes(first).values() if shape.digest in shared)


def test_right_answers_of_several_people_share_few_nodes_and_have_no_flags() -> None:
    pairs = [(first, second) for first in CLASS.values() for second in CLASS.values() if first < second]
    amounts = sorted(shared_nodes(*pair) for pair in pairs)
    assert amounts[-1] <= MIN_SHARED_NODES // 2
    assert amounts[-1] > 0, "without a shared short function, this test would prove nothing"
    assert similarity_flags(CLASS, STUB) == {}


def test_a_renamed_copy_and_its_original_have_a_flag() -> None:
    flags = similarity_flags(CLASS | {"copy": renamed(CLASS["student2"])}, STUB)
    assert set(flags) == {"copy", "student2"}
    (flag,) = flags["copy"]
    assert flag.kind == "identical"
    assert flag.text == "the same code up to names as student2: evaluate, learning_rate, overfit_one_batch, train_step"


@pytest.mark.parametrize("lab", LABS, ids=lambda lab: lab.slug)
def test_a_renamed_copy_of_the_published_solution_has_a_flag(lab: Lab) -> None:
    text = lab.reference.read_text(encoding="utf-8")
    flags = similarity_flags(
        {"copy": renamed(text), "stub": lab.stubs.read_text(encoding="utf-8")}, lab.stubs.read_bytes(), text
    )
    assert "the published solution" in flags["copy"][0].text
    assert set(flags) == {"copy"}


def test_dead_lines_and_the_order_of_independent_statements_change_no_shape() -> None:
    original = """
def f(model, batches):
    total = 0.0
    count = 0
    model.eval()
    for x, y in batches:
        total += model(x, y)
        count += 1
    return total / count
"""
    copy = """
def f(net, data):
    "Says nothing."
    net.eval()
    n = 0
    spare = [1, 2]
    s = 0.0
    for a, b in data:
        print(a)
        n += 1
        s += net(a, b)
    pass
    return s / n
"""
    dependent = original.replace("count += 1", "total += count")
    other_order = original.replace("count += 1", "count").replace("total += model(x, y)", "total += count")
    other_order = other_order.replace("        count\n", "        total += model(x, y)\n")
    digests = [shapes(text)["f"].digest for text in (original, copy, dependent, other_order)]
    assert digests[0] == digests[1]
    assert len(set(digests)) == 3, "the order of two calls, or of dependent statements, is no detail"


def small_functions(style: int) -> str:
    """Returns five short functions, each in one of several styles."""
    forms = [
        "x + y",
        "y + x",
        "sum((x, y))",
        "sum([x, y])",
        "x - -y",
        "(x + y)",
        "x.add(y)",
        "y.add(x)",
        "+x + y",
        "x + +y",
    ]
    chosen = [forms[(style // (place + 1) + place * style) % len(forms)] for place in range(5)]
    return "\n".join(f"def f{n}(x, y):\n    z = {form}\n    return z * {n}\n" for n, form in enumerate(chosen))


def test_rare_short_functions_that_two_students_share_have_a_flag() -> None:
    stub = "\n".join(f"def f{place}(x, y):\n    raise NotImplementedError\n" for place in range(5))
    people = {f"s{number}": small_functions(number) for number in range(30)}
    assert similarity_flags(people, stub) == {}
    odd = "\n".join(f"def f{place}(x, y):\n    w = (y, x)\n    return w[0] + w[1] - {place}\n" for place in range(5))
    names = {"copy": "Carl Copy", "first": "Fay First"}
    flags = similarity_flags(people | {"copy": odd, "first": renamed(odd)}, stub, names=names)
    assert {student: flag.partners for student, (flag,) in flags.items()} == {"copy": ("first",), "first": ("copy",)}
    assert flags["copy"][0].text == "the same code up to names as Fay First: f0, f1, f2, f3, f4"
    usual = {f"u{number}": odd for number in range(20)}
    assert similarity_flags(people | usual, stub) == {}, "the usual form is no sign"
    assert similarity_flags(people | {"copy": odd}, stub, odd) == {}, (
        "short functions have the published form by chance"
    )


def test_code_that_many_students_share_has_no_flags() -> None:
    people: Mapping[str, str] = {f"s{number}": CLASS["student0"] for number in range(5)}
    assert similarity_flags(people, STUB) == {}
    assert len(similarity_flags(dict(list(people.items())[:3]), STUB)) == 3


@pytest.mark.prove
def test_known_wrong_solutions_have_distinct_shapes() -> None:
    """Known-wrong solutions differ in small details of the same functions, and each detail changes the shapes."""
    for lab in LABS:
        digests = [frozenset(shapes(wrong_source(lab, wrong)).items()) for wrong in known_wrong(lab).values()]
        assert len(set(digests)) == len(digests)
