# %% [markdown]
# # Lab 14: autograd engine
#
# **How does `loss.backward()` compute every gradient in one pass, and how can you tell that the gradients are right?**
#
# In each experiment you *predict* a number, *run* the cell, and *explain* the difference. Write a number before you
# run, even a bad one. Read the [lab page](../../labs/lab-14-autograd-engine.md) beside this notebook. All of it takes
# seconds on a CPU.

# %%
# %matplotlib inline
import matplotlib.pyplot as plt
import numpy as np
import torch
from torch import nn

from rankzero.curriculum import find_lab
from rankzero.learn.data.image_sets import load_images
from rankzero.learn.runs.predictions import answered, compare

starter = find_lab("14").import_starter()  # the functions of engine.py, not copies of them
Tensor, TAPE = starter.Tensor, starter.TAPE
images = load_images("digits")
pixels, labels = images.train_images.flatten(1).numpy() / 255, images.train_labels.numpy()


# %% [markdown]
# The net of the starter, 64-32-10, with the same first weights in each experiment.


# %%
def fresh(hidden=32):
    rng = np.random.default_rng(0)
    return {
        "w1": rng.standard_normal((64, hidden)) / 8,
        "b1": np.zeros(hidden),
        "w2": rng.standard_normal((hidden, 10)) / hidden**0.5,
        "b2": np.zeros(10),
    }


def tensors(weights):
    return {name: Tensor(array, name) for name, array in weights.items()}


print(f"{sum(map(np.size, fresh().values())):,} weights, {len(labels):,} pictures")

# %% [markdown]
# ## 1. The tape
#
# `engine_loss` computes the loss of a batch: two layers, the cross-entropy, and the weight decay of two matrices.
# **Predict** how many results are on the tape afterwards.

# %% tags=["nbval-check-output"]
results = 10  # predict: results

TAPE.clear()
loss, _, _ = starter.engine_loss(tensors(fresh()), pixels[:64], labels[:64], decay=1e-3)
compare(results, len(TAPE), "results")
if answered(results):
    print(", ".join(result.name for result in TAPE))

# %% [markdown]
# **Explain**: the batch and the weights are tensors too. Why are they not on the tape?

# %% [markdown] tags=["answer"]
# The tape holds results of operations. Inputs and weights have no vjp, so backward has nothing to call for them; they
# get their gradients as parents.

# %% [markdown]
# ## 2. A value that is used twice
#
# $y = a^2 + 3a$, computed as a product of $a$ with itself plus three times $a$. **Predict** dy/da at a = 2.

# %% tags=["nbval-check-output"]
derivative = 7.0  # predict: dy/da


def product(a, b):
    return Tensor(a.data * b.data, "product", (a, b), lambda g: (g * b.data, g * a.data))


TAPE.clear()
a, three = Tensor(np.asarray(2.0), "a"), Tensor(np.asarray(3.0), "3")
y = starter.add(product(a, a), product(three, a))
starter.backward(y)
compare(derivative, float(a.grad), "dy/da")

# %% [markdown]
# **Explain**: each gradient that a vjp returns for `a` is a share. How many shares does `a` get, and what is each?

# %% [markdown] tags=["answer"]
# Three: the product of a with itself returns 2 for each of its two parents, which are both a, and the other product
# returns 3.

# %% [markdown]
# ## 3. The tape after backward
#
# **Predict** how many results are on the tape now, after `backward`.

# %%
left = 0  # predict: results

compare(left, len(TAPE), "results")

# %% [markdown]
# **Explain**: a training loop calls the engine 500 times. What would grow without `TAPE.clear()`, and what would be
# computed twice?

# %% [markdown] tags=["answer"]
# The tape, with all arrays of all steps. Backward would visit the results of earlier steps as well. These results still
# have their gradients, so their vjps would run again, and add to gradients that are not used any more.

# %% [markdown]
# ## 4. A derivative without backward
#
# The weights are moved along a random direction d, forward and backward, and the derivative of the loss along d is near
# $(L(w + hd) - L(w - hd)) / 2h$. The error depends on h: if h is large, the loss is no straight line between the two
# points; if h is small, the two losses agree in most of their digits, and rounding is all that is left of their
# difference. **Predict** the power of ten of the best h in float64.

# %%
best_power = -5  # predict: power of ten

weights = fresh()
d = {name: np.random.default_rng(1).standard_normal(array.shape) for name, array in weights.items()}
_, gradients = starter.engine_step(weights, pixels[:64], labels[:64], 1e-3)
exact = sum(np.sum(gradients[name] * d[name]) for name in weights)


def loss_at(h):
    moved = {name: array + h * d[name] for name, array in weights.items()}
    return starter.engine_step(moved, pixels[:64], labels[:64], 1e-3)[0]


powers = np.arange(-12, 0)
errors = [abs((loss_at(10.0**p) - loss_at(-(10.0**p))) / (2 * 10.0**p) - exact) for p in powers]
compare(best_power, int(powers[np.argmin(errors)]), "power of ten")
if answered(best_power):
    plt.figure(figsize=(7, 3))
    plt.loglog(10.0**powers, errors, "o-")
    plt.xlabel("h")
    plt.ylabel("error of the difference")
    plt.show()

# %% [markdown]
# **Explain**: why does the error grow to the right, and why to the left? Why does torch's `gradcheck` need float64?

# %% [markdown] tags=["answer"]
# On the right the error grows with h squared. On the left the two losses agree in all but their last digits, and the
# rounding error of the losses is divided by a smaller and smaller 2h. In float32 the rounding error is so large that no
# h gives more than a few digits.

# %% [markdown]
# ## 5. Gradients that are set
#
# The bug of the page's Break It: a share replaces the gradient instead of being added. **Predict** for how many of the
# four arrays w1, b1, w2 and b2 the gradient is then wrong.

# %% tags=["nbval-check-output"]
wrong_arrays = 2  # predict: arrays


def backward_that_sets(loss):
    loss.grad = np.ones_like(loss.data)
    for result in reversed(TAPE):
        if result.grad is not None and result.vjp is not None:
            for parent, share in zip(result.parents, result.vjp(result.grad), strict=True):
                parent.grad = share
    TAPE.clear()


TAPE.clear()
net = tensors(weights)
backward_that_sets(starter.engine_loss(net, pixels[:64], labels[:64], decay=1e-3)[0])
wrong = [name for name in weights if not np.allclose(net[name].grad, gradients[name], rtol=1e-9)]
compare(wrong_arrays, len(wrong), "arrays")
if answered(wrong_arrays):
    print(wrong)

# %% [markdown]
# **Explain**: what do these arrays have in common, and which of their shares is left?

# %% [markdown] tags=["answer"]
# Both matrices are used twice, by a product and by the weight decay. The decay is later on the tape, so backward visits
# it first, and the share of the product replaces its share.

# %% [markdown]
# ## 6. The cost of an engine of single numbers
#
# An engine of single numbers makes one node of the graph per addition and per product. **Predict** how many nodes it
# makes for the first layer's product, of [64, 64] and [64, 32], operands not counted.

# %% tags=["nbval-check-output"]
nodes = 260_096  # predict: nodes

rows, inner, columns = 64, 64, 32
counted = rows * columns * (inner + (inner - 1))  # each result: its products, and the additions between them
compare(nodes, counted, "nodes")

# %% [markdown]
# **Explain**: the engine of arrays makes one node for this product. What does Python do for each node, besides the
# multiplication or addition itself?

# %% [markdown] tags=["answer"]
# It makes an object, a tuple of parents and a closure in forward, and calls the closure in backward. This work is per
# node: the engine of arrays does it once, and the engine of single numbers 260,096 times.

# %% [markdown]
# ## 7. A hook that looks
#
# torch frees the gradients of intermediate results. A hook on such a tensor is called with its gradient. The stack
# below has three layers; a hook on the output of each layer notes the norm of the gradient. **Predict** which layer's
# hook is called first: 1, 2 or 3.

# %% tags=["nbval-check-output"]
first_called = 3  # predict: layer

torch.manual_seed(0)
layers = nn.ModuleList([nn.Linear(8, 8) for _ in range(3)])
called = []
x = torch.randn(4, 8)
for number, layer in enumerate(layers, start=1):
    x = torch.tanh(layer(x))
    x.register_hook(lambda gradient, number=number: called.append((number, float(gradient.norm()))))
x.square().mean().backward()
compare(first_called, called[0][0], "layer")

# %% [markdown]
# **Explain**: the lambda calls `append`, which returns `None`. What would a hook do that returns `2 * gradient`?

# %% [markdown] tags=["answer"]
# Backward runs from the last layer to the first. A returned tensor replaces the gradient: the gradients of this layer
# and of all earlier layers would be twice as large.

# %% [markdown]
# ## 8. A hook that changes
#
# The hook below divides the gradient at the output of layer 2 by 10. **Predict** in how many of the three layers the
# gradient of the weights changes.

# %% tags=["nbval-check-output"]
changed_layers = 2  # predict: layers


def weight_gradients(hook_at=None):
    x = torch.linspace(-1, 1, 32).reshape(4, 8)
    for number, layer in enumerate(layers, start=1):
        layer.zero_grad()
        x = torch.tanh(layer(x))
        if number == hook_at:
            x.register_hook(lambda gradient: gradient / 10)
    x.square().mean().backward()
    return [layer.weight.grad.clone() for layer in layers]


changed = sum(not torch.equal(a, b) for a, b in zip(weight_gradients(), weight_gradients(hook_at=2), strict=True))
compare(changed_layers, changed, "layers")

# %% [markdown]
# **Explain**: which layer is not affected, and where would you put the hook to change layer 2 alone?

# %% [markdown] tags=["answer"]
# Layer 3: its gradient does not depend on the gradient at layer 2. A hook on the weight of layer 2,
# `layers[1].weight.register_hook`, changes this gradient alone, because no other gradient is computed from it.
