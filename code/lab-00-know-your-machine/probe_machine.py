"""Lab 00: the limits of this machine, measured, and the operations of a training step under them.

Read `seconds`, then `measure_operations`: an operation's FLOPs and bytes say which of three limits it meets, and its
time says how near it comes. B = sequences per batch, T = tokens per sequence, C = hidden_dim, V = tokens.

    python probe_machine.py                            # under a minute on two cores
    python probe_machine.py --device cuda              # the roofline of a GPU
    python probe_machine.py --replace                  # keep these rates for the plan and the meter
"""

import argparse
import json
import sys
from collections.abc import Callable
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import psutil
import torch
from threadpoolctl import threadpool_limits
from torch import Tensor
from torch.utils.benchmark import Timer

from rankzero.errors import UserError
from rankzero.learn.machine.device import choose_device, device_name, seed_everything
from rankzero.learn.machine.fingerprint import fingerprint
from rankzero.learn.machine.measured_machine import MeasuredMachine, keep_measurement
from rankzero.learn.profiling.roofline_plots import plot_rates, plot_roofline
from rankzero.learn.profiling.roofline_report import operations_table, rates_table
from rankzero.learn.profiling.step_operations import Operation, gpt_operations
from rankzero.learn.runs.options import StarterParser, non_negative_int, positive_float, positive_int
from rankzero.learn.runs.run_folder import new_run_folder
from rankzero.learn.runs.training_options import run_starter

Rates = dict[int, float]  # by width or by bytes
DTYPES = {"fp32": torch.float32, "bf16": torch.bfloat16, "fp16": torch.float16, "int8": torch.int8}
BUSY = 25  # percent of the cores that other programs use: above it, times are wrong
LONGEST = 0.3  # seconds: no wider product is tried after one that takes longer


def make_parser() -> StarterParser:
    parser = StarterParser(description="Lab 00: the limits of this machine, measured.")
    add = parser.add_argument
    add("--max-width", type=positive_int, help="widest square product (default: 1024, on CUDA 8192)")
    add("--max-mib", type=positive_int, help="MiB that the largest copy moves (default: 256, on CUDA 2048)")
    add("--seconds", type=positive_float, default=0.1, help="seconds per measurement, at least")
    add("--batch-size", type=positive_int, default=12, help="sequences per step")
    add("--block-size", type=positive_int, default=64, help="tokens per sequence")
    add("--hidden-dim", type=positive_int, default=128, help="width of the model; a multiple of --heads")
    add("--heads", type=positive_int, default=4, help="attention heads per block")
    add("--vocabulary", type=positive_int, default=96, help="tokens in the vocabulary")
    add("--threads", type=positive_int, help="threads of the CPU (default: as torch chooses)")
    add("--device", default="auto", help="auto, cpu, cuda, cuda:N or mps")
    add("--replace", action="store_true", help="replace the rates that are kept for this machine's plan and meter")
    add("--seed", type=non_negative_int, default=0, help="of the numbers in the matrices")
    add("--out", type=Path, default=Path("runs"), help="folder in which each run makes a new one")
    parser.set_defaults(resume=None)
    return parser


# --------------------------------------------------------------------------------------------------------- measuring
def seconds(function: Callable[[], object], at_least: float) -> float:
    """Seconds of a call. Timer warms up, calls often enough, and waits for the device.

    Returns the shortest of many readings: other programs only make a call slower.
    """
    threads = torch.get_num_threads()
    timer = Timer("function()", globals={"function": function}, num_threads=threads)
    return min(timer.blocked_autorange(min_run_time=at_least).times)


def random_matrix(rows: int, columns: int, dtype: torch.dtype, device: torch.device) -> Tensor:
    """A matrix [rows, columns] of random numbers."""
    if dtype == torch.int8:
        return torch.randint(-127, 128, (rows, columns), dtype=dtype, device=device)
    return torch.randn(rows, columns, device=device).to(dtype)


def measure_products(widths: list[int], device: torch.device, at_least: float) -> dict[str, Rates]:
    """FLOP/s of square products by dtype and width. A dtype without fast instructions is left early."""
    rates: dict[str, Rates] = {}
    for name, dtype in DTYPES.items():
        multiply = torch._int_mm if name == "int8" else torch.mm
        for width in widths:
            if name == "int8" and (width < 32 or width % 8):
                continue  # int8 kernels take multiples of 8
            a, b = (random_matrix(width, width, dtype, device) for _ in range(2))
            try:
                taken = seconds(lambda multiply=multiply, a=a, b=b: multiply(a, b), at_least)  # type: ignore[misc]
            except RuntimeError:
                break  # this device has no product of this dtype
            rates.setdefault(name, {})[width] = 2 * width**3 / taken  # a multiplication and an addition per pair
            if taken > LONGEST or (width >= 128 and rates[name][width] < rates["fp32"].get(width, 0) / 4):
                break
    return rates


def measure_copies(sizes: list[int], device: torch.device, at_least: float) -> Rates:
    """Bytes/s of copies, by the bytes that they read and write together: small ones stay in a cache."""
    rates = {}
    for size in sizes:
        source = torch.ones(size // 8, device=device)  # 4 bytes read and 4 written per number
        target = torch.empty_like(source)
        rates[size] = size / seconds(lambda s=source, t=target: t.copy_(s), at_least)  # type: ignore[misc]
    return rates


# --------------------------------------------------------------------------------------------------------- operations
def measure_operations(
    operations: list[Operation], peak: float, copies: Rates, call: float, at_least: float
) -> tuple[list[dict[str, Any]], float]:
    """Cost, rate and limit of each operation, and the highest FLOP/s of all.

    The bandwidth of an operation is that of copies which move as many bytes or more.
    """
    measured = [(operation, *operation.cost(), seconds(operation.run, at_least)) for operation in operations]
    peak, rows = max(peak, *(flops / taken for _, flops, _, taken in measured)), []
    for operation, flops, moved, taken in measured:
        least = min(moved, max(copies))
        bandwidth = max(rate for size, rate in copies.items() if size >= least)
        times = {"arithmetic": flops / peak, "memory": moved / bandwidth, "the call": call}
        limit = max(times, key=lambda name: times[name])  # they overlap: the longest counts
        row = {"name": operation.name, "flops": flops, "bytes": moved}
        row |= {"intensity": flops / moved, "limit": limit, "rate": flops / taken}
        rows.append(row | {"share": times[limit] / taken, "bandwidth": bandwidth})
    return rows, peak


# ---------------------------------------------------------------------------------------------------------- comparisons
def loops(a: list[list[float]], b: list[list[float]]) -> list[list[float]]:
    """The product by three loops over lists, without any library."""
    return [[sum(x * b[k][j] for k, x in enumerate(row)) for j in range(len(b[0]))] for row in a]


def tiled(a: np.ndarray, b: np.ndarray, tile: int = 32) -> np.ndarray:
    """The product of square matrices, tile by tile; `tile` divides their width."""
    result = np.zeros_like(a)
    parts = [slice(start, start + tile) for start in range(0, len(a), tile)]
    for i in parts:
        for j in parts:
            for k in parts:
                result[i, j] += a[i, k] @ b[k, j]
    return result


def four_ways(device: torch.device, at_least: float, width: int = 128) -> dict[str, float]:
    """FLOP/s of one fp32 product in four ways, on the CPU but for the last."""
    a, b = (np.random.default_rng(seed).standard_normal((width, width)).astype(np.float32) for seed in (0, 1))
    lists, tensors = (a.tolist(), b.tolist()), [torch.from_numpy(array).to(device) for array in (a, b)]
    ways = {"Python loops": lambda: loops(*lists), "tiles of 32, NumPy": lambda: tiled(a, b)}
    ways |= {"NumPy": lambda: a @ b, "torch": lambda: torch.mm(*tensors)}
    return {name: 2 * width**3 / seconds(way, at_least) for name, way in ways.items()}


def odd_sizes(device: torch.device, at_least: float) -> dict[str, float]:
    """Rates of sizes that do not fit the hardware, as shares of those of a neighbor that fits."""
    width = 4096 if device.type == "cuda" else 1024
    shapes = {f"width {width + 1:,} / {width:,}": ((width + 1,) * 3, (width,) * 3)}
    shapes |= {"vocabulary 50,257 / 50,304": ((64, 128, 50257), (64, 128, 50304))}

    def rate(n: int, m: int, k: int) -> float:
        a, b = (random_matrix(*shape, torch.float32, device) for shape in ((n, m), (m, k)))
        return 2 * n * m * k / seconds(lambda: torch.mm(a, b), at_least)

    return {name: rate(*odd) / rate(*even) for name, (odd, even) in shapes.items()}


def product_errors(width: int = 256) -> dict[str, float]:
    """Relative errors of a product in fewer bits; int8 has scales per row or column."""
    rngs = (np.random.default_rng(seed) for seed in (0, 1))
    a, b = (rng.standard_normal((width, width)) for rng in rngs)
    exact, results = a @ b, {}
    for name in ("fp32", "bf16"):
        low_a, low_b = (torch.tensor(m).to(DTYPES[name]) for m in (a, b))
        results[name] = (low_a @ low_b).double().numpy()
    scales = [np.abs(m).max(axis, keepdims=True) / 127 for m, axis in ((a, 1), (b, 0))]
    whole = [np.rint(m).astype(np.int32) for m in (a / scales[0], b / scales[1])]
    results["int8"] = (whole[0] @ whole[1]) * scales[0] * scales[1]
    errors = {name: np.linalg.norm(result - exact) for name, result in results.items()}
    return {name: float(off / np.linalg.norm(exact)) for name, off in errors.items()}


# ------------------------------------------------------------------------------------------------------------ the run
def probe(options: argparse.Namespace, saved: object) -> int:
    """Measures, prints and draws; returns the exit code."""
    seed_everything(options.seed)
    torch.set_num_threads(options.threads or torch.get_num_threads())
    threadpool_limits(options.threads)  # of NumPy's BLAS
    device, at_least = choose_device(options.device), options.seconds
    large, sizes = device.type == "cuda", (options.batch_size, options.block_size, options.hidden_dim, options.heads)
    widest, most = options.max_width or (8192 if large else 1024), 2**20 * (options.max_mib or (2048 if large else 256))
    if options.hidden_dim % options.heads:
        raise UserError(f"--hidden-dim {options.hidden_dim} does not divide into --heads {options.heads}.")
    operations = gpt_operations(*sizes, options.vocabulary, device)
    folder = new_run_folder(options.out, "lab-00")
    try:
        print(f"device  {device} ({device_name(device)}), torch {torch.__version__}")
        if (busy := psutil.cpu_percent(0.3)) > BUSY:
            print(f"note    other programs keep {busy:.0f}% of the cores busy: rates will be too low")
        print(f"run     into {folder}/\n", flush=True)
        one = torch.ones(1, 1, device=device)
        call = min(seconds(lambda: torch.mm(one, one), at_least), seconds(lambda: one + one, at_least))
        products = measure_products([16 * 2**n for n in range(20) if 16 * 2**n <= widest] or [16], device, at_least)
        print(rates_table("GFLOP/s, width", products), end="\n\n")
        copies = measure_copies([2**n for n in range(13, 45, 2) if 2**n < most] + [most], device, at_least)
        print(rates_table("GB/s, bytes", {"copy": copies}), end="\n\n")
        peaks, memory = {name: max(line.values()) for name, line in products.items()}, copies[most]
        rows, peak = measure_operations(operations, peaks["fp32"], copies, call, at_least)
        peaks["fp32"] = peak
        print(f"roof    {peak / 1e9:,.1f} GFLOP/s in fp32, {memory / 1e9:,.1f} GB/s of memory")
        print(f"ridge   {peak / memory:.2f} FLOP/B; a call takes {call * 1e6:.2f} µs\n")
        print(operations_table(rows, peak), end="\n\n")
        ways, odd, errors = four_ways(device, at_least), odd_sizes(device, at_least), product_errors()
        for name, rate in ways.items():
            print(f"product 128 wide, {name:<20}{rate / 1e9:>10.4f} GFLOP/s{rate / ways['Python loops']:>9,.0f} x")
        for name, share in odd.items():
            print(f"rate at {name:<30}{share:>10.2f}")
        print("error of a product 256 wide  " + "  ".join(f"{name} {error:.1e}" for name, error in errors.items()))
        total = torch.cuda.get_device_properties(device).total_memory if large else psutil.virtual_memory().total
        facts = fingerprint(device)
        machine = MeasuredMachine(
            device.type, device_name(device), str(facts["date"]), peaks, memory, call, total, facts
        )
        results = {"machine": asdict(machine), "products": products, "copies": copies, "operations": rows}
        results |= {"four_ways": ways, "odd_sizes": odd, "errors": errors}
        (folder / "measurements.json").write_text(json.dumps(results, indent=2) + "\n", encoding="utf-8")
        roofs = plot_roofline(products["fp32"], peak, memory, max(copies.values()), call, rows)
        roofs.savefig(folder / "roofline.png", dpi=110)
        plot_rates(products, copies, ways, call).savefig(folder / "rates.png", dpi=110)
        print(f"\nfiles   roofline.png, rates.png, measurements.json in {folder}/")
        print(f"note    the ridge of {peak / memory:.2f} is that of memory: numbers in a cache have a lower ridge")
        if busy > BUSY and not options.replace:
            print("kept    nothing: other programs ran, so rates and limits may be wrong; --replace keeps them")
        else:
            print(f"kept    {keep_measurement(machine, replace=options.replace)}")
    finally:
        with suppress(OSError):
            folder.rmdir()  # if it is empty: a run that was stopped leaves nothing
    return 0


def main(arguments: list[str] | None = None) -> int:
    return run_starter(make_parser(), probe, arguments, lab="lab-00")


if __name__ == "__main__":
    sys.exit(main())
