"""Timeline of ranks: spans read from traces of a CPU and of a GPU, and their plot."""

from typing import Any

import pytest
import torch
import torch.distributed as dist
from torch import nn
from torch.profiler import record_function

from rankzero.learn.distributed.world import run_world
from rankzero.learn.profiling.rank_timeline import (
    COMMUNICATION,
    COMPUTE,
    Span,
    plot_rank_timeline,
    record_spans,
    spans_in_trace,
)


def one_step() -> list[Span]:
    layer = nn.Linear(64, 64)
    with record_spans() as spans:
        with record_function("forward"):
            loss = layer(torch.ones(8, 64)).sum()
        with record_function("backward"):
            loss.backward()
        dist.all_reduce(layer.weight.grad)
    return spans


@pytest.mark.real
def test_each_rank_has_spans_of_computation_and_communication() -> None:
    ranks = run_world(one_step, 2)
    for number, spans in enumerate(ranks):
        assert [(span.rank, span.lane, span.name) for span in spans] == [
            (number, COMPUTE, "forward"),
            (number, COMPUTE, "backward"),
            (number, COMMUNICATION, "all_reduce"),
        ]
        assert spans[0].end <= spans[1].start <= spans[1].end <= spans[2].start
    # All ranks use one clock, and no rank's all-reduce ends before the other rank's has begun.
    first, second = (spans[-1] for spans in ranks)
    assert first.end > second.start
    assert second.end > first.start
    figure = plot_rank_timeline(ranks, "one step")
    labels = [label.get_text() for label in figure.axes[0].get_yticklabels()]
    assert labels == [f"rank {rank}: {lane}" for rank in (0, 1) for lane in (COMPUTE, COMMUNICATION)]


@pytest.mark.parametrize(
    ("kernel", "name"),
    [
        ("ncclDevKernel_AllReduce_Sum_f32_RING_LL(ncclDevKernelArgsStorage<4096ul>)", "all_reduce"),
        ("ncclDevKernel_AllGather_RING_LL(ncclDevKernelArgsStorage<4096ul>)", "all_gather"),
        ("ncclDevKernel_ReduceScatter_Sum_bf16_RING_SIMPLE(ncclDevKernelArgsStorage<4096ul>)", "reduce_scatter"),
        ("ncclDevKernel_SendRecv(ncclDevKernelArgsStorage<4096ul>)", "send"),
    ],
)
def test_on_a_gpu_spans_have_the_times_of_the_gpu(kernel: str, name: str) -> None:
    def event(name: str, cat: str, ts: float) -> dict[str, Any]:
        return {"name": name, "cat": cat, "ts": ts, "dur": 5.0, "ph": "X"}

    events = [
        event("forward", "user_annotation", 0),
        event("forward", "gpu_user_annotation", 3),
        event("nccl:all_reduce", "user_annotation", 4),
        event("gemm_kernel", "kernel", 4),
        event(kernel, "kernel", 9),
    ]
    spans = spans_in_trace({"traceEvents": events, "baseTimeNanoseconds": 2000}, 1)
    assert spans == [Span(1, COMPUTE, "forward", 5.0, 10.0), Span(1, COMMUNICATION, name, 11.0, 16.0)]
