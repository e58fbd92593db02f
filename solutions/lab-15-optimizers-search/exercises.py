"""Lab 15, exercises: optimizers, written by hand, and the decisions of a search.

Thirteen exercises, in the order of the page; later exercises call earlier ones. Replace the lines that raise
NotImplementedError; keep the signatures.

A step function changes one parameter in place. It is called under `torch.no_grad()`, as `optimizer_step` calls it.
`parameter` and `gradient` have one shape and one dtype: float64, float32 or bfloat16. `state` is the parameter's own
dict: empty before the parameter's first step, and kept by the caller from step to step. Its tensors have the shape and
dtype of the parameter, and share no memory with `gradient`. A step leaves `gradient` as it is; later the caller
overwrites it.

    rankzero check 15                  # all of them
    rankzero check 15 adam_step        # one
    rankzero hint 15 adam_step         # when stuck
"""

import copy
import math
import statistics
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch.optim import Optimizer

State = dict[str, Any]  # of one parameter, under the names that torch's optimizers use
Trial = dict[str, Any]  # of a search; see `should_prune`


# ----------------------------------------------------------------------------------------------------------- the steps
def sgd_step(
    parameter: Tensor,
    gradient: Tensor,
    state: State,
    *,
    lr: float,
    momentum: float = 0.0,
    dampening: float = 0.0,
    weight_decay: float = 0.0,
    nesterov: bool = False,
) -> None:
    """One step of SGD, by the rule of torch.optim.SGD.

    g is the gradient plus weight_decay times the parameter. With momentum, the buffer u is g in the first step, and
    momentum * u + (1 - dampening) * g in every later step. The parameter moves by -lr times g without momentum, u with
    momentum, and g + momentum * u with Nesterov's momentum, where u is the new buffer.

    With momentum, `state` holds the buffer as "momentum_buffer"; with momentum 0 it stays empty. `nesterov` comes with
    a momentum above 0 and without dampening.

    From 1.0, two steps with gradient 2.0, lr=0.1, momentum=0.9 lead to 0.8 and 0.42; with Nesterov to 0.62 and 0.078.
    Read: handbook/optimizers.md, "Momentum: three conventions"
    """
    ### BEGIN SOLUTION
    g = gradient.add(parameter, alpha=weight_decay)
    if momentum:
        if "momentum_buffer" not in state:
            state["momentum_buffer"] = g.clone()
        else:
            state["momentum_buffer"].mul_(momentum).add_(g, alpha=1 - dampening)
        buffer = state["momentum_buffer"]
        g = g.add(buffer, alpha=momentum) if nesterov else buffer
    parameter.add_(g, alpha=-lr)
    ### END SOLUTION


def adam_step(
    parameter: Tensor,
    gradient: Tensor,
    state: State,
    *,
    lr: float,
    betas: tuple[float, float] = (0.9, 0.999),
    eps: float = 1e-8,
    weight_decay: float = 0.0,
) -> None:
    """One step of Adam, by the rule of torch.optim.Adam: the decay is a part of the gradient.

    g is the gradient plus weight_decay times the parameter. m and v are running means of g and of its square. They
    begin at 0, and in each step m keeps the share beta1 of itself and v the share beta2. With t the number of the step,
    counted from 1, m̂ = m / (1 - beta1 ** t) and v̂ = v / (1 - beta2 ** t). The parameter moves by -lr times
    m̂ / (sqrt(v̂) + eps).

    `state` holds m as "exp_avg", v as "exp_avg_sq", both without the correction, and t as "step", a Python int.

    From 1.0, two steps with gradients 2.0 and -1.0 and lr=0.1 lead to 0.9 and 0.8733663.
    Read: handbook/optimizers.md, "Adam: two averages with bias correction"
    """
    ### BEGIN SOLUTION
    if not state:
        state.update(step=0, exp_avg=torch.zeros_like(parameter), exp_avg_sq=torch.zeros_like(parameter))
    g = gradient + weight_decay * parameter
    state["step"] += 1
    m = state["exp_avg"].mul_(betas[0]).add_(g, alpha=1 - betas[0])
    v = state["exp_avg_sq"].mul_(betas[1]).addcmul_(g, g, value=1 - betas[1])
    m_hat = m / (1 - betas[0] ** state["step"])
    v_hat = v / (1 - betas[1] ** state["step"])
    parameter.sub_(lr * m_hat / (v_hat.sqrt() + eps))
    ### END SOLUTION


def adamw_step(
    parameter: Tensor,
    gradient: Tensor,
    state: State,
    *,
    lr: float,
    betas: tuple[float, float] = (0.9, 0.999),
    eps: float = 1e-8,
    weight_decay: float = 0.01,
) -> None:
    """One step of AdamW, by the rule of torch.optim.AdamW: the decay acts on the parameter alone.

    The parameter is first multiplied by 1 - lr * weight_decay. Then it takes a step of Adam without weight decay,
    so that the decay does not enter m and v. `state` is that of `adam_step`, which you may call.

    From 1.0, one step with gradient 2.0, lr=0.1 and weight_decay=0.5 leads to 0.85.
    Read: handbook/optimizers.md, "AdamW: decoupled weight decay"
    """
    ### BEGIN SOLUTION
    parameter.mul_(1 - lr * weight_decay)
    adam_step(parameter, gradient, state, lr=lr, betas=betas, eps=eps)
    ### END SOLUTION


def optimizer_step(groups: list[dict[str, Any]], states: dict[Tensor, State], rule: Callable[..., None]) -> None:
    """One step of all parameters, by a step function such as `sgd_step`.

    A group is a dict: "params" is a list of parameters, and each other entry is a setting of that group, such as "lr".
    Calls `rule(parameter, gradient, state, **settings)` for each parameter that has a gradient, in the order of the
    groups and their lists, under `torch.no_grad()`. Afterwards gradients are recorded, or not, as before the call, also
    after an error in `rule`. A parameter whose `grad` is None is left out: no call, no state. A gradient of zeros is a
    gradient, and so is one of a parameter whose requires_grad is False. `states` maps each parameter to its own dict,
    which lives on from step to step; a parameter that has none gets an empty one before its first call. Groups and
    gradients stay as they are.
    Read: handbook/optimizers.md, "Which weights decay" and "No gradient, a gradient of zero, a sparse gradient"
    """
    ### BEGIN SOLUTION
    with torch.no_grad():
        for group in groups:
            settings = {name: value for name, value in group.items() if name != "params"}
            for parameter in group["params"]:
                if parameter.grad is not None:
                    rule(parameter, parameter.grad, states.setdefault(parameter, {}), **settings)
    ### END SOLUTION


# ---------------------------------------------------------------------------------------------------------------- Muon
def newton_schulz(matrix: Tensor, steps: int = 5) -> Tensor:
    """A matrix with the singular vectors of `matrix` [n, m], and singular values near 1, by matrix products alone.

    X begins as `matrix` divided by its Frobenius norm, or by 1e-7 if the norm is smaller, so that a matrix of zeros
    stays zero. Each of `steps` steps replaces X by a X + (b A + c A²) X, where A = X Xᵀ, a = 3.4445, b = -4.7750 and
    c = 2.0315: every singular value s becomes a s + b s³ + c s⁵. If n > m, the steps run on the transposed matrix, so
    that A has the smaller side. Returns a new tensor [n, m] in the dtype of `matrix`, computed in that dtype;
    `matrix` stays as it is. torch.optim.Muon does the same in bfloat16.

    newton_schulz(torch.diag(torch.tensor([3.0, 4.0])), steps=1) is diagonal with 1.193 and 0.976.
    Source: Jordan et al. 2024, https://kellerjordan.github.io/posts/muon/
    Read: handbook/optimizers.md, "Newer optimizers: Lion, Sophia, Muon"
    """
    ### BEGIN SOLUTION
    a, b, c = 3.4445, -4.7750, 2.0315
    tall = matrix.shape[0] > matrix.shape[1]
    x = matrix.T if tall else matrix
    x = x / x.norm().clamp(min=1e-7)
    for _ in range(steps):
        gram = x @ x.T
        x = a * x + (b * gram + c * gram @ gram) @ x
    return x.T if tall else x
    ### END SOLUTION


def muon_step(
    parameter: Tensor,
    gradient: Tensor,
    state: State,
    *,
    lr: float,
    momentum: float = 0.95,
    weight_decay: float = 0.1,
    nesterov: bool = True,
    steps: int = 5,
) -> None:
    """One step of Muon on a matrix [n, m], by the rule of torch.optim.Muon, computed in the parameter's dtype.

    The buffer u begins at 0 and becomes momentum * u + (1 - momentum) * gradient. The direction is the new u; with
    `nesterov` it is momentum * u + (1 - momentum) * gradient, computed from the new u. The update is `newton_schulz` of
    the direction, with `steps` iterations. The parameter is first multiplied by 1 - lr * weight_decay, and then moves
    by -lr * sqrt(max(1, n / m)) times the update. `state` holds u as "momentum_buffer". torch.optim.Muon differs in one
    point: it converts the direction to bfloat16 before the iterations.

    From [[1.0]] one step with gradient [[2.0]], lr=0.1, steps=1 and weight_decay=0 leads to [[0.9299]]: a matrix of one
    number becomes 1 when divided by its norm, so the update is a + b + c = 0.701 for every gradient above 0.
    Read: handbook/optimizers.md, "Newer optimizers: Lion, Sophia, Muon"
    """
    ### BEGIN SOLUTION
    buffer = state.setdefault("momentum_buffer", torch.zeros_like(parameter))
    buffer.lerp_(gradient, 1 - momentum)
    update = newton_schulz(gradient.lerp(buffer, momentum) if nesterov else buffer, steps)
    parameter.mul_(1 - lr * weight_decay)
    parameter.sub_(lr * math.sqrt(max(1, parameter.shape[0] / parameter.shape[1])) * update)
    ### END SOLUTION


def muon_parameters(model: nn.Module, head: nn.Module) -> tuple[list[nn.Parameter], list[nn.Parameter]]:
    """The parameters of `model` for Muon, and those for AdamW.

    Muon gets the matrices of hidden layers: parameters of exactly two dimensions that belong neither to an
    nn.Embedding nor to `head`, the model's output layer. AdamW gets all others: embeddings, the head, biases, norms,
    convolutions. A parameter that several layers share is for Muon only if none of them is an embedding or the head.
    A frozen parameter, whose requires_grad is False, is in neither list. Each list has every parameter once, in the
    order of model.parameters(). Embeddings are recognized by their class, not by their names.

    For nn.Sequential(nn.Embedding(9, 4), nn.Linear(4, 4), nn.Linear(4, 9)) with the last layer as head, Muon gets one
    matrix, and AdamW the other four parameters.
    Read: handbook/optimizers.md, "Newer optimizers: Lion, Sophia, Muon"
    """
    ### BEGIN SOLUTION
    excluded = set(head.parameters())
    for module in model.modules():
        if isinstance(module, nn.Embedding):
            excluded.update(module.parameters())
    trained = [parameter for parameter in model.parameters() if parameter.requires_grad]
    matrices = [parameter for parameter in trained if parameter.ndim == 2 and parameter not in excluded]
    return matrices, [parameter for parameter in trained if parameter.ndim != 2 or parameter in excluded]
    ### END SOLUTION


# ------------------------------------------------------------------------------------------------- around the optimizer
def update_average(average: nn.Module, model: nn.Module, step: int, decay: float = 0.999) -> None:
    """Updates `average`, a copy of `model`, to the exponential moving average of the model's weights.

    `step` counts the updates from 0. The share d that the average keeps is min(decay, (1 + step) / (10 + step)): 0.1
    in the first update, so that early weights are soon forgotten. Every parameter of `average` becomes d times itself
    plus (1 - d) times the parameter of `model`. Every buffer, float or integer, becomes a copy of the model's: a buffer
    is a statistic or a count, not a weight. A parameter that layers share is updated once. `average` keeps its dtypes,
    also where `model` has bfloat16 weights and `average` float32: there, all is computed in float32. The two models
    share no memory afterwards; `model` stays as it is, and no graph is built.

    With decay=0.999 a weight that is 0 in `average` and 1 in `model` becomes 0.9 at step 0, and 0.001 at step 10**5.
    Source: tf.train.ExponentialMovingAverage, argument num_updates.
    Read: handbook/optimizers.md, "An average of the weights"
    """
    ### BEGIN SOLUTION
    kept = min(decay, (1 + step) / (10 + step))
    with torch.no_grad():
        for mean, parameter in zip(average.parameters(), model.parameters(), strict=True):
            mean.lerp_(parameter.to(mean.dtype), 1 - kept)
        for copied, buffer in zip(average.buffers(), model.buffers(), strict=True):
            copied.copy_(buffer)
    ### END SOLUTION


def clip_adaptively(parameters: Iterable[nn.Parameter], clipping: float = 0.01, eps: float = 1e-3) -> int:
    """Clips the gradient of each unit to a share of the norm of its weights, in place. Returns the number clipped.

    A unit is what computes one output: row i of a matrix, `weight[i]` of a convolution with all of its dimensions. A
    parameter with one dimension or none is a single unit. With G the gradient of a unit and W its weights, G becomes
    G * clipping * max(|W|, eps) / |G| if |G| > clipping * max(|W|, eps), and stays as it is otherwise. Norms are
    Euclidean; `eps` may be 0. A gradient of zeros stays zero. A parameter whose `grad` is None is left out. Each
    gradient stays the same tensor, with its dtype; parameters stay as they are. `parameters` may be a generator.
    Returns a Python int.

    With clipping=0.1, a weight [[3, 4], [0, 0]] and a gradient [[1, 0], [1, 0]], the gradient becomes
    [[0.5, 0], [0.0001, 0]], and the function returns 2.
    Source: Brock et al. 2021, arXiv 2102.06171, section 4.1: adaptive gradient clipping.
    Read: handbook/gradient-mechanics.md, "Clipping, by norm and by value"
    """
    ### BEGIN SOLUTION
    clipped = 0
    for parameter in parameters:
        if parameter.grad is None:
            continue
        units = 1 if parameter.ndim < 2 else len(parameter)
        weight, gradient = (tensor.detach().reshape(units, -1) for tensor in (parameter, parameter.grad))
        limit = clipping * weight.norm(dim=1).clamp(min=eps)
        norm = gradient.norm(dim=1)
        factor = torch.where(norm > limit, limit / norm, 1.0).to(gradient.dtype)
        parameter.grad.detach().mul_(factor.view(-1, *[1] * (parameter.ndim - 1)) if parameter.ndim else factor[0])
        clipped += int((norm > limit).sum())
    return clipped
    ### END SOLUTION


def range_test(
    model: nn.Module,
    optimizer: Optimizer,
    train_step: Callable[[], float],
    rates: Sequence[float],
    stop: float = 4.0,
) -> list[float]:
    """The losses of a learning-rate range test: one training step at each rate.

    For each of `rates`, in their order, sets "lr" of every parameter group of `optimizer` and calls `train_step()`,
    which trains `model` on a batch by one step of `optimizer`, and returns the batch's loss. Ends early after a loss
    that is not finite, or above `stop` times the lowest loss so far; that loss is the last of the list. Returns a list
    of Python floats, one per step taken.

    Afterwards the model's parameters and buffers, the mode of each of its layers (train or eval), the optimizer's state
    and the rates of its groups are as they were before the call, bit for bit, also after an error in `train_step`,
    which is passed on. The model's parameters are still the same tensors.
    Source: Smith 2017, arXiv 1506.01186.
    Read: handbook/learning-rate-and-schedules.md, "The learning-rate range test"
    """
    ### BEGIN SOLUTION
    before = copy.deepcopy((model.state_dict(), optimizer.state_dict()))
    modes = [(layer, layer.training) for layer in model.modules()]
    losses: list[float] = []
    try:
        for rate in rates:
            for entry in optimizer.param_groups:
                entry["lr"] = rate
            losses.append(float(train_step()))
            if not losses[-1] <= stop * min(losses) or math.isinf(losses[-1]):
                break
    finally:
        model.load_state_dict(before[0])
        optimizer.load_state_dict(before[1])
        for layer, training in modes:
            layer.training = training
    return losses
    ### END SOLUTION


def suggested_rate(rates: Sequence[float], losses: Sequence[float], smoothing: float = 0.9) -> float | None:
    """The rate at which the smoothed loss of a range test falls fastest per factor of the rate.

    `losses` may be shorter than `rates`: a range test may end early. Losses from the first one that is not finite on
    are left out. Smoothing is a running mean that begins at 0, as Adam's m: in each step it keeps the share `smoothing`
    of itself, and the mean after loss k, counted from 1, is divided by 1 - smoothing ** k. With s the smoothed losses,
    the trend at step k is (s[k + 1] - s[k - 1]) / log(rates[k + 1] / rates[k - 1]); the first and the last loss have no
    trend. Returns the rate of the most negative trend, one of `rates`; None if no trend is below 0. The rates rise, not
    always evenly.

    For rates 0.01, 0.1, 1, 10 and losses 3, 3, 1, 2 without smoothing, the suggested rate is 0.1.
    Read: handbook/learning-rate-and-schedules.md, "The learning-rate range test"
    """
    ### BEGIN SOLUTION
    mean, smooth = 0.0, []
    for k, loss in enumerate(losses, start=1):
        if not math.isfinite(loss):
            break
        mean = smoothing * mean + (1 - smoothing) * loss
        smooth.append(mean / (1 - smoothing**k))
    trends = {
        rates[k]: (smooth[k + 1] - smooth[k - 1]) / math.log(rates[k + 1] / rates[k - 1])
        for k in range(1, len(smooth) - 1)
    }
    best = min(trends, key=trends.__getitem__, default=None)
    return best if best is not None and trends[best] < 0 else None
    ### END SOLUTION


# ----------------------------------------------------------------------------------------------------------- the search
def should_prune(
    trial: Trial,
    trials: Sequence[Trial],
    *,
    startup_trials: int = 5,
    warmup_steps: int = 0,
    direction: str = "minimize",
) -> bool:
    """Decides whether the median rule ends a running trial early, as optuna.pruners.MedianPruner does.

    A trial is a dict: "number" (an int), "state" ("running", "complete", "pruned" or "failed"), "parameters" (a dict),
    "seed" (an int), and "training" and "validation", each a dict from step to a value. The rule uses "validation"
    only. `trials` are all trials of the study, `trial` among them.

    False while fewer than `startup_trials` trials, or none, are complete; while `trial` has reported no validation
    value; and while its last step, the largest one that it has reported, is below `warmup_steps`. Otherwise compares
    the best value of `trial` so far with the median of the values that complete trials reported at exactly that last
    step, and returns True if the best is worse. With "minimize" a smaller value is better, with "maximize" a larger
    one. NaN is no value: neither the best nor the median takes it into account. True if all values of `trial` are NaN.
    False if no complete trial reported a value at that step. All trials stay as they are.

    If five complete trials have 1, 2, 3, 4 and 5 at step 20, a trial with 4 at step 10 and 6 at step 20 is pruned.
    Read: handbook/search-and-tracking.md, "When a trial may be stopped"
    """
    ### BEGIN SOLUTION
    complete = [other["validation"] for other in trials if other["state"] == "complete"]
    if len(complete) < max(1, startup_trials) or not trial["validation"]:
        return False
    step = max(trial["validation"])
    if step < warmup_steps:
        return False
    sign = 1 if direction == "minimize" else -1
    own = [sign * value for value in trial["validation"].values() if not math.isnan(value)]
    if not own:
        return True
    others = [sign * values[step] for values in complete if step in values and not math.isnan(values[step])]
    return bool(others) and min(own) > statistics.median(others)
    ### END SOLUTION


def best_configuration(
    trials: Sequence[Trial], budget: int, seeds: Sequence[int], direction: str = "minimize"
) -> dict[str, Any] | None:
    """The parameters with the best mean validation value after `budget`, over the same seeds for all.

    `trials` are those of `should_prune`; a step is a number of tokens. A trial counts if it is complete, its seed is
    one of `seeds`, and it has a finite validation value at exactly the step `budget`: a value from another step is a
    value of another budget. If several trials that count have the same parameters and the same seed, only the trial
    with the highest number counts: it repeats the earlier ones. Equal dicts are the same parameters, whatever the order
    of their entries; 16 and 16.0 are equal. Parameters take part if they have a trial for each of `seeds`.

    Returns a dict: "parameters", "mean" over the seeds, and "spread", the sample standard deviation over the seeds
    (divided by the number of seeds - 1), 0.0 for one seed. None if no parameters take part. No two means are equal.
    `trials` stay as they are.

    With seeds 0 and 1, values 2.0 and 4.0 of one lr and 3.5 and 3.7 of another, the first wins: mean 3.0, spread 1.414.
    Read: handbook/search-and-tracking.md, "Trials that compare"
    """
    ### BEGIN SOLUTION
    values: dict[Any, dict[int, float]] = {}
    for trial in sorted(trials, key=lambda trial: trial["number"]):
        value = trial["validation"].get(budget, math.nan)
        if trial["state"] == "complete" and trial["seed"] in seeds and math.isfinite(value):
            values.setdefault(frozenset(trial["parameters"].items()), {})[trial["seed"]] = value
    sign = 1 if direction == "minimize" else -1
    complete = {key: list(by_seed.values()) for key, by_seed in values.items() if len(by_seed) == len(set(seeds))}
    if not complete:
        return None
    best = min(complete, key=lambda key: sign * statistics.mean(complete[key]))
    spread = statistics.stdev(complete[best]) if len(complete[best]) > 1 else 0.0
    return {"parameters": dict(best), "mean": statistics.mean(complete[best]), "spread": spread}
    ### END SOLUTION
