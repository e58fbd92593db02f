"""Data: batches that come again, labels that change, and pieces of validation data that were trained on."""

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from rankzero.triage.observe import causality
from rankzero.triage.observe.model_watch import ModelWatch
from rankzero.triage.observe.watch import Watch

Words = NDArray[np.uint64]

MOST_PIECES = 400_000  # digests kept of a model's training inputs
MOST_ROWS = 2048  # rows kept with their labels, for the linear classifier
MOST_FEATURES = 4096
FEWEST_ROWS = 200
WHOLE = 0.9  # share of the training data
MOST_CALLS = 64  # of validation, whose pieces are kept
PIECE = (8, 48)  # shortest and longest piece of a sequence, in tokens


def install(watch: Watch) -> None:
    """Arranges that the data's part of each model's record is made when the record is written."""

    def summarize() -> None:
        for model in watch.known:
            _summarize(model)

    watch.summaries.append(summarize)


def note_training(model: ModelWatch, watch: Watch) -> None:
    """Notes the batch of a training forward pass, which `model` was given."""
    model.rows, inputs = None, watch.batch
    if not inputs or inputs[0].dim() < 2 or (len(model.record.steps) > 30 and not watch.affordable()):
        return
    rows = _rows(inputs[0])
    address = inputs[0].untyped_storage().data_ptr()  # of a batch that is kept, so no other tensor has this address
    model.record.reused += address == model.address
    model.address, model.kept_batch = address, inputs[0]
    if len(rows) == 1 or len(set(rows.tolist())) > 1:  # equal rows, such as positions, are no data
        model.step.batch = f"{model.step.batch}{int(rows.sum(dtype=np.uint64)):x} "[-200:]
    if len(model.trained_pieces) < MOST_PIECES:
        model.trained_pieces.update(_pieces(inputs[0]).tolist())
    model.rows = rows


def note_validation(model: ModelWatch, inputs: list[Tensor]) -> None:
    """Notes the inputs of a forward pass without gradients."""
    calls = model.validated_pieces
    if inputs and len(calls) < MOST_CALLS and inputs[0].dim() >= 2:
        model.record.sequences = causality.are_tokens(inputs[0])
        calls.setdefault(_digest(inputs[0]), _pieces(inputs[0]))


def note_labels(watch: Watch, labels: Tensor | None) -> None:
    """Notes the labels [B] of the rows of the batch."""
    model = watch.batch_of
    if model is None or model.rows is None or labels is None or labels.dim() != 1 or len(labels) != len(model.rows):
        return
    record, batch = model.record, watch.batch[0]
    for place, (row, label) in enumerate(zip(model.rows.tolist(), labels.tolist(), strict=True)):
        if row in model.labels:
            record.repeats += 1
            record.contradictions += model.labels[row] != label
        elif len(model.labels) < MOST_PIECES:
            model.labels[row] = label
            if batch.is_floating_point() and len(model.examples) < MOST_ROWS and batch[0].numel() <= MOST_FEATURES:
                model.examples.append((batch[place].flatten().float().cpu().numpy(), label))
    record.rows, model.rows = len(model.labels), None


def _words(values: Tensor) -> Words:
    """Returns the bytes of each row [R, ...] as unsigned numbers [R, W]."""
    rows = values.detach().cpu().contiguous().flatten(1) if values.dim() > 1 else values.detach().cpu().reshape(1, -1)
    raw = rows.view(torch.uint8).numpy()
    padded = np.zeros((raw.shape[0], -(-raw.shape[1] // 8) * 8), np.uint8)
    padded[:, : raw.shape[1]] = raw
    return padded.view(np.uint64)


def _hash(words: Words) -> Words:
    """Returns a digest of each row of [..., W]: the sum of its words, each with a random odd factor."""
    factors = np.random.default_rng(0).integers(2**63, size=words.shape[-1], dtype=np.uint64) * 2 + 1
    mixed = words ^ (words >> np.uint64(29))
    products = mixed * factors  # overflow wraps around, here and in the sum
    digests: Words = (products ^ (products >> np.uint64(32))).sum(-1, dtype=np.uint64)
    return digests


def _rows(values: Tensor) -> Words:
    return _hash(_words(values))


def _digest(values: Tensor) -> int:
    return int(_rows(values).sum(dtype=np.uint64)) + values.numel()


def _pieces(values: Tensor) -> Words:
    """Returns digests of the rows of a batch; of tokens [B, T], digests of all pieces of a row, three quarters long."""
    if values.is_floating_point() or values.dim() != 2:
        return _rows(values) if values.dim() >= 2 else np.zeros(0, np.uint64)
    length = min(max(PIECE[0], 3 * values.shape[1] // 4), PIECE[1], values.shape[1])
    tokens = values.detach().cpu().to(torch.int64).numpy().astype(np.uint64)
    return _hash(np.lib.stride_tricks.sliding_window_view(tokens, length, axis=1)).reshape(-1)


def _summarize(model: ModelWatch) -> None:
    model.record.overlap = _overlap(model)
    rows, labels = [row for row, _ in model.examples], [label for _, label in model.examples]
    if len(rows) >= FEWEST_ROWS:
        model.record.probe = linear_classifier(np.stack(rows), np.array(labels))


def _overlap(model: ModelWatch) -> float | None:
    """Returns the share of validation pieces that were trained on, in the call at the lower quartile.

    None for a script that also measures its loss on all training data, on purpose.
    """
    trained, calls = model.trained_pieces, [call.tolist() for call in model.validated_pieces.values() if len(call)]
    again = {piece for call in calls for piece in call if piece in trained}
    if not calls or not trained or len(again) >= WHOLE * len(trained):
        return None
    model.record.overlap_pieces = sum(map(len, calls))
    return float(np.quantile([sum(piece in again for piece in call) / len(call) for call in calls], 0.25))


def linear_classifier(rows: NDArray[Any], labels: NDArray[Any]) -> list[float]:
    """Fits a linear classifier to one half of the rows; returns its share right on the other half, and chance.

    Chance is the share of the most frequent label in that half.
    """
    rows = (rows - rows.mean(0)) / (rows.std(0) + 1e-6)
    rows = np.concatenate([rows, np.ones((len(rows), 1), rows.dtype)], 1)
    order = np.random.default_rng(0).permutation(len(rows))
    fitted, judged = order[::2], order[1::2]
    classes = np.eye(int(labels.max()) + 1)[labels]
    gram = rows[fitted] @ rows[fitted].T + 0.1 * rows.shape[1] * np.eye(len(fitted))
    scores = rows[judged] @ (rows[fitted].T @ np.linalg.solve(gram, classes[fitted]))
    right = float((scores.argmax(1) == labels[judged]).mean())
    return [right, float(np.bincount(labels[judged]).max() / len(judged))]
