"""Left behind: whatever code keeps is counted, in whatever form, and so is all that it leaves on a module."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from rankzero.exercises.probes.left_behind import Attached, Watch

KEEPING: dict[str, Callable[[Tensor], Any]] = {
    "a tensor": lambda values: values.clone(),
    "whole numbers": lambda values: values.to(torch.int8),
    "bytes": lambda values: values.view(torch.uint8).clone(),
    "a part of a tensor": lambda values: values.clone()[:1],
    "a storage": lambda values: values.untyped_storage().clone(),
    "an array": lambda values: values.numpy().copy(),
    "a list": lambda values: values.tolist(),
}


@pytest.mark.parametrize("form", KEEPING)
def test_what_is_kept_is_counted_in_any_form(form: str) -> None:
    values = torch.rand(2000, dtype=torch.float64)
    with Watch() as watch:
        kept = KEEPING[form](values)
        assert watch.bytes_but() >= 2000
        del kept
        assert watch.bytes_but() == 0


def test_a_tensor_and_a_state_of_the_generator_can_be_left_out() -> None:
    with Watch() as watch:
        output, state = torch.rand(300), torch.get_rng_state()
        assert watch.bytes_but(output) == 0
        assert watch.bytes_but() == output.nbytes
        more = torch.get_rng_state()
        assert watch.bytes_but(output) == more.nbytes == state.nbytes


def hook(*_: object) -> None:
    """Does nothing."""


LEAVING: dict[str, Callable[[nn.Module], Any]] = {
    "a hook": lambda module: module.register_forward_hook(hook),
    "a hook on a part": lambda module: module[0].register_full_backward_hook(hook),  # type: ignore[index]
    "a hook on a parameter": lambda module: next(module.parameters()).register_hook(hook),
    "a hook on a gradient": lambda module: next(module.parameters()).register_post_accumulate_grad_hook(hook),
    "an attribute": lambda module: setattr(module[1], "forward", hook),  # type: ignore[index]
    "another class": lambda module: setattr(module, "__class__", type("Sequential", (nn.Sequential,), {})),
}


@pytest.mark.parametrize("trace", LEAVING)
def test_what_is_left_on_a_module_is_counted(trace: str) -> None:
    module = nn.Sequential(nn.Linear(2, 2), nn.ReLU())
    attached = Attached(module)
    assert attached.more() == 0
    LEAVING[trace](module)
    assert attached.more() > 0
