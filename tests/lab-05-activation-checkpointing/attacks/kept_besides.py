"""Keeps everything from inside as whole numbers with the same bits, for ever, and runs the function again all the same."""

ON, EARNS = "reference", 45
KEPT = []
honest_reuse = keep_or_reuse


def also_keep(tensor):
    KEPT.append(tensor.detach().contiguous().view(torch.uint8).clone())
    return tensor


def checkpoint(function, *inputs):
    again = repeatable(function, inputs)
    count = 0
    remade = {}

    def number_instead(tensor):
        nonlocal count
        also_keep(tensor)
        count += 1
        return count - 1

    def remake(tensor):
        remade[len(remade)] = tensor.detach()

    def take(number):
        if number not in remade:
            remade.clear()
            with saved_tensors_hooks(remake, lambda nothing: nothing):
                again()
        return remade.pop(number)

    with saved_tensors_hooks(number_instead, take):
        return function(*inputs)


def keep_or_reuse(function, keep):
    run = honest_reuse(function, keep)

    def keeping(*inputs):
        output = run(*inputs)
        also_keep(output)
        return output

    return keeping
