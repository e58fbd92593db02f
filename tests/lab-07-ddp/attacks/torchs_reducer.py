"""Has the reducer of PyTorch's own data parallelism average the gradients, without its class."""

ON, EARNS = "reference", 52


def data_parallel(model):
    same_start(model)
    trained = [p for p in model.parameters() if p.requires_grad]
    places = [[number] for number in range(len(trained))]
    reducer = dist.Reducer(trained, places, [1] * len(trained), dist.group.WORLD, [False] * len(trained))
    model.register_forward_hook(lambda module, inputs, output: reducer.prepare_for_backward([output]))
