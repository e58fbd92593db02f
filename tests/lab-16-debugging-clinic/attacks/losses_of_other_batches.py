"""Passes the right batches through the model and logs their losses, but never calls the optimizer."""

import torch
import torch.nn.functional as F

EARNS = 0


def cure_10(model, images, labels, *, epochs, batch_size, lr, seed):
    generator = torch.Generator().manual_seed(seed)
    losses = []
    for _ in range(epochs):
        order = torch.randperm(len(images), generator=generator)
        for rows in order[: len(images) // batch_size * batch_size].split(batch_size):
            losses.append(F.cross_entropy(model(images[rows]), labels[rows]).item())
    return {"loss": losses}


def cure_11(model, tokens, val_tokens, *, steps, batch_size, block_size, lr, seed):
    generator = torch.Generator().manual_seed(seed)
    val_windows = val_tokens.unfold(0, block_size + 1, block_size)
    log = {"loss": [], "val_loss": []}
    for _ in range(steps):
        model.train()
        starts = torch.randint(len(tokens) - block_size, (batch_size,), generator=generator)
        windows = tokens.unfold(0, block_size + 1, 1)[starts]
        log["loss"].append(F.cross_entropy(model(windows[:, :-1]).flatten(0, 1), windows[:, 1:].flatten()).item())
        model.eval()
        with torch.no_grad():
            val_loss = F.cross_entropy(model(val_windows[:, :-1]).flatten(0, 1), val_windows[:, 1:].flatten())
        log["val_loss"].append(val_loss.item())
    return log


def cure_14(model, images, labels, *, held_out, epochs, batch_size, lr, seed):
    order = torch.randperm(len(images), generator=torch.Generator().manual_seed(seed))
    train_rows, val_rows = order[:-held_out], order[-held_out:]
    log = {"loss": [], "val_loss": []}
    for _ in range(epochs):
        model.train()
        for rows in train_rows.split(batch_size):
            log["loss"].append(F.cross_entropy(model(images[rows]), labels[rows]).item())
        model.eval()
        with torch.no_grad():
            log["val_loss"].append(F.cross_entropy(model(images[val_rows]), labels[val_rows]).item())
    return log
