"""Does nothing: no parameter moves, no gradient changes, and each decision is the one that costs no work."""

EARNS = 0


def sgd_step(parameter, gradient, state, **settings):
    pass


adam_step = adamw_step = muon_step = sgd_step


def optimizer_step(groups, states, rule):
    pass


def newton_schulz(matrix, steps=5):
    return matrix


def muon_parameters(model, head):
    return [], []


def update_average(average, model, step, decay=0.999):
    pass


def clip_adaptively(parameters, clipping=0.01, eps=1e-3):
    return 0


def range_test(model, optimizer, train_step, rates, stop=4.0):
    return []


def suggested_rate(rates, losses, smoothing=0.9):
    return None


def should_prune(trial, trials, **settings):
    return False


def best_configuration(trials, budget, seeds, direction="minimize"):
    return None
