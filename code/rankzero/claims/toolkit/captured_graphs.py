"""Captured graphs: a backend of torch.compile that records each graph and runs it as it is."""

from collections.abc import Callable, Iterable
from typing import Any

import torch


class GraphRecorder:
    """A backend for `torch.compile` whose `graphs` are those captured since the compiler was reset at its creation."""

    def __init__(self) -> None:
        torch._dynamo.reset()
        self.graphs: list[torch.fx.GraphModule] = []

    def __call__(self, graph: torch.fx.GraphModule, inputs: list[Any]) -> Callable[..., Any]:
        self.graphs.append(graph)
        return graph.forward

    @property
    def sizes(self) -> list[int]:
        """The number of operations of each graph, in order."""
        return [sum(node.op.startswith("call_") for node in graph.graph.nodes) for graph in self.graphs]

    def during(self, action: Callable[[], object]) -> int:
        """Returns how many graphs are captured while `action` runs."""
        before = len(self.graphs)
        action()
        return len(self.graphs) - before


def compilations(function: Callable[..., Any], calls: Iterable[tuple[Any, ...]], **options: Any) -> list[int]:
    """Returns the number of graphs that each call captures; `options` are those of torch.compile."""
    recorder = GraphRecorder()
    compiled = torch.compile(function, backend=recorder, **options)
    return [recorder.during(lambda arguments=arguments: compiled(*arguments)) for arguments in calls]  # type: ignore[misc]
