"""The learner's functions in Lab 10's starter: `rankzero run 10 --mine`.

`prepare` makes the batches that the models read. `epoch_indices` divides the batches of each epoch over three ranks of
two workers, and the run trains on the batches in these six shares: a batch that is lost or repeated changes the losses.
The learner's tokenizer and packed rows make the report on the text.
"""

from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor

from rankzero.learn.models.image_trainer import ImageTrainer

USES = ("prepare", "epoch_indices", "pack_documents", "train_bpe")  # functions whose exercises must pass first
# Of the starter, for both runs: the loaders and the losses, without slow reads.
OPTIONS = ("--device", "cpu", "--workers", "1", "--read-ms", "0", "--epochs", "2", "--merges", "0")
PROGRESS = ("device ", "loader ", "this process loads", "+ ", "your ")  # beginnings of lines to show
ROUNDING = 1e-3  # a number rounded otherwise in its last digit; hundreds of updates amplify the difference
RANKS, WORKERS = 3, 2
CHARACTERS, MERGES, ROW = 20_000, 64, 256  # of the text to learn merges from; merges; tokens per row
EOS = 256 + MERGES


def replacements(starter: Any, learner: Any) -> dict[str, Any]:
    """Returns what takes the place of the starter's functions, by name."""
    prepare, epoch_indices = learner.prepare, learner.epoch_indices
    train_bpe, encode = learner.train_bpe, learner.encode
    pack_documents, document_mask = learner.pack_documents, learner.document_mask

    class LearnersTrainer(ImageTrainer):
        def logits(self, name: str, images: Tensor) -> Tensor:
            batch = prepare(images.permute(0, 2, 3, 1), self.mean.flatten(), self.std.flatten())
            scores: Tensor = self.models[name](batch)
            return scores

    class LearnersOrder(starter.EpochOrder):  # type: ignore[misc]
        def __iter__(self) -> Iterator[Any]:
            batches = list(super().__iter__())
            place = len(batches), self.seed, self.epoch
            shares = [epoch_indices(*place, i, RANKS, k, WORKERS) for i in range(RANKS) for k in range(WORKERS)]
            for number in torch.cat(shares).sort().values.tolist():
                yield batches[number]

    def learners_text_report(name: str, train: list[str], held_out: list[str], *, merges: int) -> str:
        pairs = train_bpe("\n\n".join(train)[:CHARACTERS], MERGES)
        documents = [encode(document, pairs) for document in held_out]
        bytes_per_token = sum(len(text.encode()) for text in held_out) / sum(map(len, documents))
        rows = pack_documents(documents, ROW, EOS)
        kept = sum(int(document_mask(row[None]).sum()) for row in rows.documents)
        share = kept / (len(rows.documents) * ROW * (ROW + 1) // 2)
        padding = (rows.documents < 0).float().mean().item()
        return (
            f"your tokenizer: {bytes_per_token:.2f} bytes per token with {len(pairs)} merges\n"
            f"your rows of {ROW}: {padding:.1%} padding; your mask keeps {share:.1%} of the causal pairs"
        )

    return {"ImageTrainer": LearnersTrainer, "EpochOrder": LearnersOrder, "text_report": learners_text_report}
