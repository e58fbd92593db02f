"""Cost of the meter, log, evaluation and checkpoint around a training loop.

Trains the same small GPT (4 layers, 4 heads, width 128, 64 tokens per sequence, batch 12, no dropout) in a bare loop,
with nothing but forward, backward and step, and in the starter of Lab 02 with its meter, log, evaluation and
checkpoint. The two loops take turns, so that a machine that slows down slows both. Prints the tokens/s of each loop,
and the share of the starter's loop that passed outside forward, backward and step. That share comes from one run, so
it is the figure to trust on a machine that also does other work.
"""

import argparse
import contextlib
import io
import statistics
import tempfile
import time
from typing import Any

import torch
import torch.nn.functional as F

from rankzero.curriculum import find_lab
from rankzero.learn.data.batches import random_batch
from rankzero.learn.data.corpus import load_corpus
from rankzero.learn.machine.device import choose_device, device_name, seed_everything
from rankzero.learn.machine.fingerprint import fingerprint
from rankzero.learn.models.gpt import GPT, GPTConfig
from rankzero.learn.runs.step_meter import StepMeter

BATCH, BLOCK = 12, 64
starter = find_lab("02").import_starter()


def synchronize(device: torch.device) -> None:
    """Waits until the device has finished all launched work."""
    if device.type == "cuda":
        torch.cuda.synchronize(device)


def bare_seconds(steps: int, device: torch.device) -> float:
    """Returns the seconds of a loop of forward, backward and step, with all batches on the device beforehand."""
    seed_everything(0)
    corpus = load_corpus()
    model = GPT(GPTConfig(corpus.vocab_size, block_size=BLOCK)).to(device)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    batches = [random_batch(corpus.train, step=i, seed=0, batch_size=BATCH, block_size=BLOCK) for i in range(steps)]
    batches = [(x.to(device), y.to(device)) for x, y in batches]
    synchronize(device)
    start = time.perf_counter()
    for x, y in batches:
        optimizer.zero_grad(set_to_none=True)
        F.cross_entropy(model(x).flatten(0, 1), y.flatten()).backward()
        optimizer.step()
    synchronize(device)
    return time.perf_counter() - start


class TimedMeter(StepMeter):
    """Times the starter's loop from its first batch to its last evaluation and save."""

    loop_seconds = 0.0

    def __enter__(self) -> "TimedMeter":
        super().__enter__()
        self._entered = time.perf_counter()
        return self

    def __exit__(self, kind: type[BaseException] | None, *error: object) -> None:
        super().__exit__(kind, *error)
        TimedMeter.loop_seconds = time.perf_counter() - self._entered


def starter_seconds(steps: int, device: torch.device) -> tuple[float, float]:
    """Returns the seconds of the starter's whole loop with the same steps, and the seconds inside the steps alone."""
    train_step = vars(starter)["train_step"]
    in_steps = 0.0

    def timed_step(*arguments: Any, **settings: Any) -> Any:
        nonlocal in_steps
        synchronize(device)
        start = time.perf_counter()
        loss = train_step(*arguments, **settings)
        synchronize(device)
        in_steps += time.perf_counter() - start
        return loss

    vars(starter).update(StepMeter=TimedMeter, train_step=timed_step)
    with tempfile.TemporaryDirectory() as folder, contextlib.redirect_stdout(io.StringIO()):
        options = ["--steps", str(steps), "--batch-size", str(BATCH), "--block-size", str(BLOCK)]
        starter.main([*options, "--device", str(device), "--out", folder])
    vars(starter).update(StepMeter=StepMeter, train_step=train_step)
    return TimedMeter.loop_seconds, in_steps


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--steps", type=int, default=200, help="steps per turn (default: 200)")
    parser.add_argument("--turns", type=int, default=5, help="turns of each; the best turns are compared (default: 5)")
    parser.add_argument("--device", default="auto", help="auto, cpu, cuda or mps")
    options = parser.parse_args()
    device = choose_device(options.device)
    facts = fingerprint(device)
    print(f"{facts['date']}  {device_name(device)}  torch {facts['torch']}  commit {facts['commit']}")
    bare_seconds(20, device)  # warm-up: thread pool, allocator, caches
    tokens = options.steps * BATCH * BLOCK
    bare_rates, starter_rates, shares = [], [], []
    for turn in range(options.turns):
        bare_rates.append(tokens / bare_seconds(options.steps, device))
        seconds, in_steps = starter_seconds(options.steps, device)
        starter_rates.append(tokens / seconds)
        shares.append(100 * (1 - in_steps / seconds))
        print(
            f"turn {turn + 1}: bare {bare_rates[-1]:,.0f} tokens/s, starter {starter_rates[-1]:,.0f} tokens/s, "
            f"{shares[-1]:.1f} % of the starter outside the steps"
        )
    # The best turns: other work on the machine can only slow a turn down.
    print(
        f"best: bare {max(bare_rates):,.0f} tokens/s, starter {max(starter_rates):,.0f} tokens/s; "
        f"median share outside the steps {statistics.median(shares):.1f} %"
    )


if __name__ == "__main__":
    main()
