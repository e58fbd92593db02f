"""Measuring of claims: in this process or in parallel processes, and whether this machine can measure a claim."""

import concurrent.futures
import multiprocessing
import signal
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import torch

from rankzero.claims.chart import Chart, Charted
from rankzero.claims.claim import Claim, Value
from rankzero.claims.registry import find_claim
from rankzero.learn.distributed.quiet_children import children_ignore_ctrl_c
from rankzero.learn.machine.lazy_dynamo import import_dynamo_lazily


@dataclass(frozen=True)
class Outcome:
    """Result of measuring a claim: a value, with a chart for some claims, or an error."""

    slug: str
    measured: Value | None
    seconds: float
    holds: bool
    error: str = ""
    chart: Chart | None = None


def can_measure(claim: Claim) -> bool:
    """Returns whether this machine has the hardware that the claim needs."""
    return "cuda" not in claim.needs or torch.cuda.is_available()


def run_claim(slug: str) -> Outcome:
    """Measures one claim in this process. An error in its function is an outcome too."""
    claim = find_claim(slug)
    begin = time.perf_counter()
    try:
        measured = claim.measure()
    except Exception as error:
        return Outcome(slug, None, time.perf_counter() - begin, False, f"{type(error).__name__}: {error}")
    seconds = time.perf_counter() - begin
    if isinstance(measured, Charted):
        return Outcome(slug, measured.value, seconds, claim.holds(measured.value), chart=measured.chart)
    return Outcome(slug, measured, seconds, claim.holds(measured))


def _prepare_worker() -> None:
    signal.pthread_sigmask(signal.SIG_UNBLOCK, [signal.SIGINT])  # it stays ignored
    import_dynamo_lazily()
    torch.set_num_threads(1)


def run_claims(slugs: Iterable[str], jobs: int) -> Iterator[Outcome]:
    """Measures claims in `jobs` processes of one thread each; yields each outcome as soon as it is measured."""
    context = multiprocessing.get_context("spawn")
    pool = concurrent.futures.ProcessPoolExecutor(max_workers=jobs, mp_context=context, initializer=_prepare_worker)
    with pool:
        try:
            with children_ignore_ctrl_c():
                futures = [pool.submit(run_claim, slug) for slug in slugs]
            for future in concurrent.futures.as_completed(futures):
                yield future.result()
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            for worker in multiprocessing.active_children():
                worker.kill()
            raise
