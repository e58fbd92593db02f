"""Its notes are scalars, each a view into a tensor of the output's size, so that nothing is freed."""

ON, EARNS = "reference", 59


def note(module, activations, gradients):
    handles = []

    def wide(tensor):
        return tensor.detach().to(torch.promote_types(tensor.dtype, torch.float32))

    def root(tensor):
        return tensor.square().flatten().cumsum(0)

    def hook(module, inputs, output):
        activations.append(root(wide(output)).div_(output.numel()).sqrt_()[-1])
        if output.requires_grad:
            handles.append(output.register_hook(lambda gradient: gradients.append(root(wide(gradient)).sqrt_()[-1])))

    def stop():
        for handle in handles:
            handle.remove()

    handles.append(module.register_forward_hook(hook))
    return stop
