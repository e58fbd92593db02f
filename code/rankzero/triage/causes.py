"""Causes: the bugs that triage knows, by key, each with its meaning and the place to look first."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Cause:
    """One known bug."""

    meaning: str
    look_first: str


CAUSES = {
    "gradients-not-cleared": Cause(
        "gradients of earlier updates are still there when backward adds new ones",
        "the call of zero_grad: once per update, anywhere between an update and the next backward pass",
    ),
    "gradients-cleared-early": Cause(
        "gradients are cleared between the backward pass and the update",
        "the order of zero_grad, backward and step",
    ),
    "accumulation-not-averaged": Cause(
        "the losses of several backward passes per update are summed, not averaged",
        "the loss before backward: divide it by the number of micro-batches",
    ),
    "stays-in-eval-mode": Cause(
        "the model trains in evaluation mode after the first validation",
        "the end of the validation: model.train() is missing before the next training step",
    ),
    "validates-in-train-mode": Cause(
        "validation runs in training mode: dropout is on, BatchNorm uses and changes its statistics",
        "the start of the validation: model.eval() is missing",
    ),
    "softmax-before-loss": Cause(
        "the loss function, which applies log-softmax itself, is given probabilities",
        "the model's last layer and the call of cross_entropy: give it logits",
    ),
    "schedule-in-wrong-unit": Cause(
        "the schedule of the learning rate is stepped more often than its length counts",
        "the call of scheduler.step() and the unit of the schedule's length: batches or epochs",
    ),
    "parameters-not-in-optimizer": Cause(
        "parameters get gradients, but no optimizer updates them",
        "the order of building the optimizer and changing the model",
    ),
    "graph-cut": Cause(
        "a part of the model runs, but gets no gradient",
        "detach(), .data, .item(), no_grad() or NumPy between this part and the loss",
    ),
    "bad-initialization": Cause(
        "the first loss is far above that of equal probabilities: the first logits are too large",
        "the initialization of the weights, and the scale of the inputs",
    ),
    "inputs-and-labels-misaligned": Cause(
        "the labels do not belong to the inputs",
        "shuffling and indexing: one order for inputs and labels",
    ),
    "clipping-in-wrong-place": Cause(
        "gradients are clipped when it has no effect, or while they are scaled",
        "the order of unscale_, clip_grad_norm_ and step",
    ),
    "dead-units": Cause(
        "many units of ReLU are 0 for every input, so that they get no gradient",
        "the learning rate, the initialization of the biases, and the scale of the inputs",
    ),
    "same-batch": Cause(
        "every step draws the same batch",
        "the place where the generator gets its seed: before the loop, not in it",
    ),
    "target-is-input": Cause(
        "the targets equal the inputs at the same positions",
        "the slices of inputs and targets: targets are shifted by one token",
    ),
    "no-causal-mask": Cause(
        "an output changes with inputs that come after it",
        "the mask of the attention scores",
    ),
    "validation-in-training": Cause(
        "validation data are among the training data",
        "the split of the data, and the order of splitting, shuffling and cutting into windows",
    ),
    "graph-kept": Cause(
        "tensors that are kept over steps hold the graphs of these steps",
        "sums and lists of losses, and validation without no_grad: keep loss.item() or loss.detach()",
    ),
    "slow-input": Cause(
        "most of a step passes before its forward pass begins",
        "work on the data inside the loop that could be done once, before it, or by a DataLoader's workers",
    ),
    "anomaly-detection-on": Cause(
        "autograd's anomaly detection is on, which makes every step slower",
        "torch.autograd.set_detect_anomaly and detect_anomaly",
    ),
    "wrong-shape": Cause("two tensors have shapes that do not fit", "the shapes just before the line that raises"),
    "two-devices": Cause(
        "two tensors of one operation are on different devices",
        "x.to(device), which returns a new tensor, and tensors made without a device",
    ),
    "loss-without-graph": Cause(
        "the loss has no grad_fn: it depends on no parameter by recorded operations",
        "no_grad, detach, .item(), and new tensors made of numbers, between model and loss",
    ),
    "wrong-dtype": Cause(
        "two tensors of one operation have different dtypes",
        "data from NumPy, which are float64, and labels, which must be int64",
    ),
    "label-out-of-range": Cause("a label is no class number of the model", "the number of classes, and the labels"),
    "second-backward": Cause("backward runs twice through one graph", "a loss or a state that lives from step to step"),
    "changed-in-place": Cause("a tensor that backward needs was changed in place", "operations with _ and +="),
    "out-of-memory": Cause("memory runs out", "batch size, kept tensors, activations"),
    "ranks-start-apart": Cause(
        "the ranks train different weights",
        "the random seed before the model is made, and the broadcast of rank 0's weights",
    ),
    "straggler": Cause("one rank is slower than the others, which wait for it", "the amount of work of each rank"),
    "ranks-in-different-collectives": Cause(
        "the ranks do not call the same collectives in the same order",
        "collectives inside conditions on the rank or on a rank's own data",
    ),
    "ranks-draw-same-data": Cause(
        "all ranks train on the same batches",
        "the sampler or the random seed of the data: it must depend on the rank",
    ),
    "loss-not-finite": Cause("the loss becomes NaN or infinite", "the learning rate, and operations such as log and /"),
    "learns-nothing": Cause(
        "the loss does not fall", "the learning rate, the labels, and whether one batch can be learned by heart"
    ),
    "raises": Cause("the script raises an error", "the line of the script in the traceback"),
}
