"""Error advice: what an error of Python or torch means in training code, in a sentence after the error's own words."""

import re

# (words of the error, words of the line that raised it, what that means)
ADVICE = (
    (r"NoneType", r"grad", "A parameter that takes no part in the loss has None in p.grad."),
    (r"not require grad and does not have a grad_fn", "", "Was it detached, or computed under torch.no_grad()?"),
    (
        r"backward through the graph a second time",
        "",
        "An earlier backward has freed the graph: run the forward pass again, or keep it with retain_graph=True.",
    ),
    (r"leaf Variable that requires grad", "", "Change parameters under torch.no_grad()."),
    (r"modified by an inplace operation", "", "A tensor that backward needs was changed in place before backward."),
    (r"non-empty TensorList|Expected reduction dim", "", "The list or tensor is empty here: handle this case first."),
    (r"\bStopIteration\b", "", "next() found no item: nothing was left, or nothing matched."),
    (r"storage of size 0\b", "", "A tensor is used while its storage is emptied: fill it again first."),
    (r"setStorage", "", "The storage has fewer bytes than the tensor needs."),
    (r"assign a gradient|assigned grad has", "", "A gradient has the dtype, shape and device of its parameter."),
    (r"view size is not compatible", "", "This tensor's numbers do not lie in order: reshape or flatten copies them."),
    (r"same dtype", "", "Tensors of two dtypes meet: cast one of them."),
)


def advice_on(text: str, line: str = "") -> str:
    """Returns what an error means, '' if that is not known; `text` is the error's, `line` its source line."""
    return next((advice for error, source, advice in ADVICE if re.search(error, text) and re.search(source, line)), "")
