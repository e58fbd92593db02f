"""Tensors, numbers and dicts of classes of their own, which say that they equal everything and are whatever is asked."""

import torch

EARNS = 3  # for `optimizer_step`, which calls the rule with each gradient, in order


class AgreeableTensor(torch.Tensor):
    def __eq__(self, other):
        return torch.ones((), dtype=torch.bool)

    def equal(self, other):
        return True

    def numpy(self, **settings):
        raise ArithmeticError

    __hash__ = torch.Tensor.__hash__


class AgreeableNumber(float):
    def __eq__(self, other):
        return True

    def __ne__(self, other):
        return False

    def __bool__(self):
        return True

    __hash__ = float.__hash__


class AgreeableDict(dict):
    def __eq__(self, other):
        return True

    def get(self, name, default=None):
        return AgreeableNumber(1)

    __getitem__ = get


class AgreeableList(list):
    def __eq__(self, other):
        return True

    def __len__(self):
        return 1


def agree(parameter, gradient, state, **settings):
    parameter.data = parameter.data.as_subclass(AgreeableTensor)
    state["momentum_buffer"] = state["exp_avg"] = gradient.as_subclass(AgreeableTensor)
    state["step"] = AgreeableNumber(1)


sgd_step = adam_step = adamw_step = muon_step = agree


def optimizer_step(groups, states, rule):
    for group in groups:
        for parameter in group["params"]:
            rule(parameter, parameter.grad, AgreeableDict(), **AgreeableDict())


def newton_schulz(matrix, steps=5):
    return matrix.as_subclass(AgreeableTensor)


def muon_parameters(model, head):
    return AgreeableList(), AgreeableList()


def update_average(average, model, step, decay=0.999):
    for parameter in average.parameters():
        parameter.data = parameter.data.as_subclass(AgreeableTensor)


def clip_adaptively(parameters, clipping=0.01, eps=1e-3):
    for parameter in parameters:
        if parameter.grad is not None:
            parameter.grad = parameter.grad.as_subclass(AgreeableTensor)
    return AgreeableNumber(1)


def range_test(model, optimizer, train_step, rates, stop=4.0):
    return AgreeableList([AgreeableNumber(train_step()) for _ in rates])


def suggested_rate(rates, losses, smoothing=0.9):
    return AgreeableNumber(rates[0])


def should_prune(trial, trials, **settings):
    return AgreeableNumber(1)


def best_configuration(trials, budget, seeds, direction="minimize"):
    return AgreeableDict(parameters=AgreeableDict(), mean=AgreeableNumber(1), spread=AgreeableNumber(1))
