"""Lab 04: train on batches that need not fit, a micro-batch at a time. Lab 02's loop with one more loop in its step.

Read `train_step` first: the lesson is there. `compare_gradients` calls it to show that the parts add up to the whole
batch's gradient. The rest is Lab 02's. B = sequences per batch, b = sequences per micro-batch, T = tokens per sequence,
V = tokens in the vocabulary.

    python train_accumulation.py                                        # batches of 12, as 3 micro-batches of 4
    python train_accumulation.py --micro-batch 12                       # the same batches whole: the same losses
    python train_accumulation.py --micro-batch 5 --clip 1.0             # 5 + 5 + 2 sequences; clipped once an update
"""

import argparse
import copy
import math
import sys
from collections.abc import Callable, Iterable
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.optim import SGD, AdamW, Optimizer

from rankzero.errors import UserError
from rankzero.learn.data.batches import check_length, random_batch, to_device, validation_batches
from rankzero.learn.data.corpus import Corpus, load_corpus
from rankzero.learn.machine.device import choose_device, device_name, seed_everything
from rankzero.learn.machine.fingerprint import fingerprint
from rankzero.learn.models.gpt import GPT, GPTConfig
from rankzero.learn.profiling.memory import MIB, PhaseMemory, check_fits
from rankzero.learn.runs.checkpoints import check_same_run, save_checkpoint
from rankzero.learn.runs.options import StarterParser, non_negative_float, positive_int
from rankzero.learn.runs.run_folder import check_new_file, new_run_folder
from rankzero.learn.runs.step_meter import StepMeter
from rankzero.learn.runs.stop_request import finish_step_on_interrupt
from rankzero.learn.runs.training_options import SETTINGS, end_of_run, learning_rate, run_starter, training_parser

LAB = "lab-04"
LAB_SETTINGS = (*SETTINGS, "micro_batch", "clip")
EQUAL = 1e-12  # float64 rounds at the 16th digit; a few hundred additions in another order leave at least 12


def make_parser() -> StarterParser:
    parser = training_parser("Lab 04: train on batches that need not fit, a micro-batch at a time.")
    add = parser.add_argument
    add("--micro-batch", type=positive_int, default=4, help="sequences that go through the model at once")
    add("--clip", type=non_negative_float, default=0.0, help="longest gradient of an update (global norm); 0: no limit")
    parser.set_defaults(steps=200, eval_every=100)
    return parser


# ----------------------------------------------------------------------------------------------------------- one step
def train_step(
    model: nn.Module,
    optimizer: Optimizer,
    x: Tensor,
    y: Tensor,
    micro_batch: int,
    clip: float = 0.0,
    after: Callable[[str], None] = lambda phase: None,
) -> tuple[Tensor, Tensor]:
    """One update of the model by the whole batch, `micro_batch` sequences at a time. `x` and `y` are int64 [B, T].

    Returns the batch's loss before the update, in nats per token, and its gradient's norm before clipping. `after` is
    called with a phase's name when that phase ends; the run measures memory there.
    """
    optimizer.zero_grad(set_to_none=True)  # once: from here on, each micro-batch adds to what the others left

    loss = torch.zeros((), device=x.device)
    for micro_x, micro_y in zip(x.split(micro_batch), y.split(micro_batch), strict=True):  # [b, T]; the last: fewer
        logits = model(micro_x)  # [b, T, V]; only this micro-batch's activations are kept
        summed = F.cross_entropy(logits.flatten(0, 1), micro_y.flatten(), reduction="sum")
        part = summed / y.numel()  # its share of the mean over all B*T tokens, right for a smaller last part too
        after("forward")

        part.backward()  # adds to p.grad, and frees the activations before the next micro-batch makes its own
        after("backward")
        loss += part.detach()

    norm = nn.utils.clip_grad_norm_(model.parameters(), clip or math.inf)  # once, when the gradient is complete
    optimizer.step()
    after("update")
    return loss, norm


def first_gradient(model: nn.Module, x: Tensor, y: Tensor, size: int, dtype: torch.dtype) -> tuple[Tensor, float]:
    """The gradient that `train_step` hands to the optimizer, laid end to end, and the most activations it held, in MiB.

    The step is taken on a copy of `model`, by an SGD whose rate is 0: nothing moves.
    """
    device = torch.device("cpu") if x.device.type == "mps" else x.device  # MPS: no float64
    twin = copy.deepcopy(model).to(device, dtype)
    optimizer = SGD(twin.parameters(), lr=0.0)
    followed = [torch.zeros(0, device=device, dtype=dtype)]  # empty if there is no update
    every = list(twin.parameters())
    optimizer.register_step_pre_hook(
        lambda *_: followed.extend(p.grad.flatten() for p in every if p.grad is not None),
    )
    with PhaseMemory(twin, optimizer, device) as memory:
        train_step(twin, optimizer, x.to(device), y.to(device), size, after=memory.record)
    return torch.cat(followed), max(row.activations for row in memory.rows) / MIB


def compare_gradients(model: nn.Module, x: Tensor, y: Tensor, micro_batch: int) -> str:
    """The batch's gradient in one piece against the sum over its micro-batches, and what each way held, as a table.

    In float64 rounding is too small to hide a mistake; float32 is what the run will see.
    """
    lines = ["type     largest gradient  difference  relative  MiB at once: whole  in parts"]
    apart = []
    for dtype in (torch.float64, torch.float32):
        whole, held = first_gradient(model, x, y, len(x), dtype)
        parts, held_by_parts = first_gradient(model, x, y, micro_batch, dtype)
        once = len(parts) == len(whole)  # not so where a changed step updates several times, or never
        largest, difference = whole.abs().max().item(), (parts - whole).abs().max().item() if once else math.inf
        apart.append(difference / largest)
        numbers = f"{largest:18.2e}{difference:12.1e}{apart[-1]:10.1e}{held:20.2f}{held_by_parts:10.2f}"
        lines.append(str(dtype).removeprefix("torch.") + numbers)
    verdict = "equal" if apart[0] <= EQUAL else "NOT EQUAL"
    return "\n".join([*lines, f"{verdict} within {EQUAL:g} in float64, where only the order of additions differs"])


@torch.no_grad()  # nothing will run backward, so nothing needs keeping
def evaluate(model: nn.Module, batches: Iterable[tuple[Tensor, Tensor]], device: torch.device) -> float:
    """Mean loss in nats per token. A smaller last batch counts by its tokens."""
    modes = [(module, module.training) for module in model.modules()]
    model.eval()  # dropout off, if there is any
    total, tokens = 0.0, 0
    for x, y in batches:
        x, y = to_device(x, y, device)
        total += F.cross_entropy(model(x).flatten(0, 1), y.flatten(), reduction="sum").item()
        tokens += y.numel()
    for module, training in modes:  # leave each part in its own mode
        module.training = training
    return total / tokens


# --------------------------------------------------------------------------------------------------- save and restore
def restore(saved: dict[str, Any], options: argparse.Namespace, corpus: Corpus, model: GPT, optimizer: AdamW) -> int:
    """Puts a checkpoint's state into `model` and `optimizer`; returns how many steps they have been trained."""
    check_same_run(saved, options, corpus, model)
    model.load_state_dict(saved["model"])
    optimizer.load_state_dict(saved["optimizer"])  # AdamW's averages: without them training goes on differently
    return int(saved["step"])


# ------------------------------------------------------------------------------------------------------------ the run
def train(options: argparse.Namespace, saved: dict[str, Any] | None) -> int:
    """Trains as `options` say; returns the exit code. Every mistake in them raises before anything is written."""
    seed_everything(options.seed, deterministic=options.deterministic)
    device = choose_device(options.device)
    corpus = load_corpus(options.corpus)
    check_length(corpus.val, options.block_size, f"the validation part of corpus {corpus.name}")
    config = GPTConfig(corpus.vocab_size, options.block_size, options.layers, options.heads, options.hidden_dim)
    if options.micro_batch > options.batch_size:
        too_many = f"--micro-batch {options.micro_batch} is more than --batch-size {options.batch_size}"
        raise UserError(f"{too_many}: use --micro-batch {options.batch_size} or less.")
    tokens = options.batch_size * options.block_size  # 16 bytes each: x and y are int64
    needed = config.training_bytes(options.micro_batch) + 16 * tokens
    check_fits(needed, device, "--micro-batch, ")
    model = GPT(config).to(device)
    optimizer = AdamW(model.parameters(), lr=options.lr)
    first_step = restore(saved, options, corpus, model, optimizer) if saved else 0
    if options.checkpoint:
        check_new_file(options.checkpoint, may_replace=saved["path"] if saved else None)
    folder = new_run_folder(options.out, LAB)
    checkpoint = options.checkpoint or folder / "checkpoint.pt"
    batch = {name: getattr(options, name) for name in ("batch_size", "block_size")}
    how = (options.micro_batch, options.clip)
    settings = {name: getattr(options, name) for name in LAB_SETTINGS} | {"corpus": corpus.name}
    print(f"device  {device} ({device_name(device)})")
    print(f"model   {config.summary()}, {model.parameter_count():,} parameters")
    print(f"text    {corpus.summary()}")
    k, rest = divmod(options.batch_size, options.micro_batch)
    batches = f"{options.batch_size} = {k} x {options.micro_batch}" + (f" + {rest}" if rest else "")
    print(f"run     steps {first_step + 1} to {options.steps}, batch {batches}, into {folder}/\n")
    first = random_batch(corpus.train, step=first_step, seed=options.seed, **batch)
    try:
        check_fits(2 * config.training_bytes(options.batch_size), device)  # in float64, beside the model itself
        print(compare_gradients(model, *to_device(*first, device), options.micro_batch) + "\n")
    except UserError:
        print("The whole batch would not fit, so there is nothing to compare with.\n")
    with (
        finish_step_on_interrupt("Stopping after this step, an evaluation and a save") as interrupted,
        StepMeter(
            folder / "log.jsonl",
            first_step=first_step,
            last_step=options.steps,
            tokens_per_step=tokens,
            flops_per_token=model.flops_per_token(),
            device=device,
        ) as meter,
    ):
        meter.write("run", settings=settings, **fingerprint(device))
        model.train()
        for step in range(first_step, options.steps):
            x, y = random_batch(corpus.train, step=step, seed=options.seed, **batch)  # [B, T]
            x, y = to_device(x, y, device)
            lr = learning_rate(step, options.lr, options.warmup_steps, options.decay_steps)
            for group in optimizer.param_groups:
                group["lr"] = lr

            if step == first_step:
                with PhaseMemory(model, optimizer, device) as memory:
                    loss, norm = train_step(model, optimizer, x, y, *how, after=memory.record)
                meter.print(memory.table() + "\n")
            else:
                loss, norm = train_step(model, optimizer, x, y, *how)
            meter.step(loss, lr, grad_norm=norm)

            if meter.done % options.eval_every == 0 or meter.done == options.steps or interrupted:
                with meter.paused():
                    meter.evaluation(evaluate(model, validation_batches(corpus.val, count=8, **batch), device))
                    state = {"step": meter.done, "settings": settings, "corpus_sha256": corpus.sha256}
                    save_checkpoint(checkpoint, model, optimizer, **state)
            if interrupted:
                break

    if meter.done == options.steps:
        start = torch.zeros(1, 1, dtype=torch.int64, device=device)
        sample = model.generate(start, 200, torch.Generator().manual_seed(options.seed))
        print(f"\nthe model now writes:\n{corpus.decode(sample[0, 1:])}")
    return end_of_run(options, meter, folder, checkpoint, __file__, device, interrupted)


def main(arguments: list[str] | None = None) -> int:
    return run_starter(make_parser(), train, arguments, lab=LAB, settings=LAB_SETTINGS)


if __name__ == "__main__":
    sys.exit(main())
