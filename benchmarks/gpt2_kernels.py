"""Kernel families of the last rung of gpt2.py: what the GPU does in a step, in milliseconds, and what MFU that allows.

torch.profiler traces some steps. Each kernel belongs to the first family whose pattern its name has. The difference
between a step's time and the sum of its kernels is the time in which the GPU waits.

    python benchmarks/gpt2_kernels.py                     # on a GPU
    python benchmarks/gpt2_kernels.py --toy --device cpu  # operators of a tiny model, to see that it runs
"""

import json
import re
import sys
import time

import torch
from gpt2 import ladder, make_parser, prepared, synchronize
from torch._C._autograd import DeviceType
from torch.profiler import ProfilerActivity, profile

from rankzero.errors import UserError
from rankzero.learn.machine.device import choose_device, device_name, peak_flops

STEPS = 3
WAITING = "waiting"
FAMILIES = {
    "attention": r"flash|fmha|sdpa|scaled_dot_product|attention|cudnn_generated",
    "matrix products": r"gemm|nvjet|cutlass|xmma|::(add)?mm$|::bmm$|splitK",
    "optimizer": r"multi_tensor|fused_adam|adamw",
    "compiled point-wise operations and sums": r"^triton",
    "copies": r"memcpy|memset|copy",
    "other operations": r"",
}


def family_of(kernel: str) -> str:
    """Returns the family that a kernel, or an operator of the CPU, belongs to."""
    return next(name for name, pattern in FAMILIES.items() if re.search(pattern, kernel, re.IGNORECASE))


def kernel_times(events: list[tuple[str, float]], step_ms: float, steps: int) -> dict[str, float]:
    """Returns milliseconds per step by family, the waiting included. `events`: name and milliseconds over all steps."""
    times = dict.fromkeys(FAMILIES, 0.0)
    for name, ms in events:
        times[family_of(name)] += ms / steps
    return times | {WAITING: max(0.0, step_ms - sum(times.values()))}


def events_of(trace: profile, device: torch.device) -> list[tuple[str, float]]:
    """Returns name and milliseconds of each kernel of the GPU; on the CPU, of each operator."""
    averages = [event for event in trace.key_averages() if not getattr(event, "is_user_annotation", False)]
    if device.type != "cuda":
        return [(event.key, event.self_cpu_time_total / 1e3) for event in averages]
    # Calls of CUDA from the host are events too, with the times of the kernels that they launched.
    kernels = [event for event in averages if event.device_type == DeviceType.CUDA]
    return [(event.key, event.self_device_time_total / 1e3) for event in kernels]


def main(arguments: list[str] | None = None) -> int:
    parser = make_parser()
    options = parser.parse_args(arguments)
    try:
        device = choose_device(options.device)
    except UserError as error:
        parser.error(str(error))
    rung = ladder()[: options.rungs][-1]
    activity = ProfilerActivity.CUDA if device.type == "cuda" else ProfilerActivity.CPU
    with prepared(rung, options, device) as made:
        for number in range(3):
            made.step(number)
        synchronize(device)  # the warm-up's steps are done
        begin = time.perf_counter()
        for number in range(STEPS):
            made.step(number)
        synchronize(device)
        step_ms = 1e3 * (time.perf_counter() - begin) / STEPS  # without the profiler, which slows the host
        with profile(activities=[activity]) as trace:
            for number in range(STEPS):
                made.step(number)
            synchronize(device)
    times = kernel_times(events_of(trace, device), step_ms, STEPS)
    flops = made.tokens * made.model.flops_per_token()
    peak = peak_flops(device, torch.bfloat16)
    print(f"{device_name(device)}, torch {torch.__version__}; {rung.name}; {step_ms:.2f} ms per step")
    for name, ms in times.items():
        print(f"  {name:<42}{ms:9.2f} ms {100 * ms / step_ms:6.1f} %")
    if peak:
        busy = times["matrix products"] + times["attention"]
        allowed = 1e3 * flops / busy / peak
        print(f"MFU {1e3 * flops / step_ms / peak:.1%}; with products and attention alone {allowed:.1%}")
    if options.json:
        options.json.write_text(json.dumps({"step_ms": step_ms, "times": times}, indent=2) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
