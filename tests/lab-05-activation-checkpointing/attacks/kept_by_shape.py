"""Finds kept outputs by the operation and the shapes of its inputs, so the last of two that are alike serves for both."""

ON, EARNS = "reference", 53


def keep_or_reuse(function, keep):
    kept = {}
    again = False

    class KeepOrReuse(TorchDispatchMode):
        def __torch_dispatch__(self, func, types, args=(), kwargs=None):
            if func not in keep:
                return func(*args, **(kwargs or {}))
            key = func, *(tuple(one.shape) for one in args if isinstance(one, Tensor))
            if again:
                return kept[key]
            output = func(*args, **(kwargs or {}))
            kept[key] = output.detach()
            return output

    def run(*inputs):
        nonlocal again
        with KeepOrReuse():
            output = function(*inputs)
        if again:
            kept.clear()
        again = True
        return output

    return run
