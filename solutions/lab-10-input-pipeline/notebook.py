# %% [markdown]
# # Lab 10: input pipeline
#
# **How much of a step is waiting for data, and which change shortens the waiting?**
#
# In each experiment you *predict* a number, *run* the cell, and *explain* the difference. Write a number before you run
# the cell, even if it is a guess. Read the [lab page](../../labs/lab-10-input-pipeline.md) beside this notebook. All
# cells together take under a minute on two CPU cores.

# %%
# %matplotlib inline
import time

import matplotlib.pyplot as plt
import torch
from torch.utils.data import DataLoader, IterableDataset, get_worker_info

from rankzero.curriculum import find_lab
from rankzero.learn.data.augment import channel_statistics
from rankzero.learn.data.byte_pairs import BytePairTokenizer, learn_merges
from rankzero.learn.data.documents import load_documents
from rankzero.learn.data.image_sets import load_images
from rankzero.learn.data.slow_store import SlowStore, decoded
from rankzero.learn.data.text_report import attending_share, padding_share
from rankzero.learn.models.image_trainer import ImageTrainer
from rankzero.learn.profiling.loader_record import seconds_of
from rankzero.learn.runs.predictions import answered, compare

starter = find_lab("10").import_starter()  # the functions of feed_the_gpu.py, not copies of them
digits = load_images("digits")
print(digits.summary())


# %% [markdown]
# The digits are PNG files in memory, and each read waits as a disk over a network does: 0.5 ms, but 128 ms for one
# picture in 256, so 1 ms on average. A timer of 20 ms per step stands for the device, because a GPU computes without
# the cores of the host.


# %%
def new_pictures(read_ms=1.0):
    return starter.Pictures(SlowStore(digits.train_images, read_ms), digits.train_labels, 16, 0)


def timer(images, labels):
    time.sleep(0.02)
    return torch.zeros(1)


def percent_waiting(pictures, epochs=1, batches=24, **settings):
    """Share of the time in which the loop waits, over a few steps."""
    order = starter.EpochOrder(batches * 32, 32, 0, 0, 1)
    record = starter.measure(starter.make_loader(pictures, order, settings), order, range(epochs), timer)
    whole, training = seconds_of(record.moments)
    return 100 * (1 - training / whole)


# %% [markdown]
# ## 1. One process
#
# A batch has 32 pictures with reads of 1 ms on average; a step takes 20 ms. The same process loads and trains.
# **Predict** the share of the time in which training waits, in percent.

# %%
waits_alone = 65.0  # predict: percent of the time

compare(waits_alone, percent_waiting(new_pictures(), num_workers=0), "percent of the time")

# %% [markdown]
# **Explain**: 32 reads of 1 ms are 32 ms. Which other work is in a batch?

# %% [markdown] tags=["answer"]
# Decoding, resizing and shifting 32 pictures: some milliseconds on a core. Waiting is t_load / (t_load + t_step).

# %% [markdown]
# ## 2. Workers
#
# **Predict** the share with two workers, and with four.

# %%
waits_two = 25.0  # predict: percent of the time
waits_four = 10.0  # predict: percent of the time

compare(waits_two, percent_waiting(new_pictures(), num_workers=2), "percent of the time", of="two workers")
compare(waits_four, percent_waiting(new_pictures(), num_workers=4), "percent of the time", of="four workers")

# %% [markdown]
# **Explain**: four workers load a batch every 10 ms, twice as fast as the device trains. Why is the share not 0?

# %% [markdown] tags=["answer"]
# The workers have to start, and the first batch has to be loaded before the first step. In 24 steps this counts; in an
# epoch of thousands it does not. A slow read also stops the loop once no loaded batch is left.

# %% [markdown]
# ## 3. Decoding once
#
# All pictures are read and decoded before training. The shift stays in the loop. **Predict** the share without workers.

# %%
waits_decoded = 10.0  # predict: percent of the time

pictures = new_pictures(0.0)
pictures.decoded = torch.stack([pictures.picture(number) for number in range(len(pictures.store))])
compare(waits_decoded, percent_waiting(pictures, num_workers=0), "percent of the time")

# %% [markdown]
# **Explain**: two workers would take the shifts off the loop. Do they help here? Try `num_workers=2` in the cell.

# %% [markdown] tags=["answer"]
# Hardly: receiving a batch from a worker takes about as long as shifting 32 small pictures.

# %% [markdown]
# ## 4. An epoch that the workers do not get
#
# This data set has an attribute `epoch`, on which the shifts depend, and the loop sets it before each epoch. The loader
# has two persistent workers. **Predict** in how many different placements a picture is seen in 4 epochs.


# %% tags=["nbval-check-output"]
placements = 1.0  # predict: placements per picture


class EpochInDataSet(starter.Pictures):
    epoch = 0

    def __getitem__(self, keys):
        return super().__getitem__([(self.epoch, number) for _, number in keys])


def placements_seen(kind):
    shown = kind(SlowStore(digits.train_images[:256], 0.0), digits.train_labels, 16, 0)
    order, seen = starter.EpochOrder(256, 32, 0, 0, 1), set()
    loader = starter.make_loader(shown, order, {"num_workers": 2, "persistent_workers": True})
    for epoch in range(4):
        order.epoch = shown.epoch = epoch
        for batch in loader:
            for number, image in zip(batch.numbers, batch.images, strict=True):
                seen.add((number, image.numpy().tobytes()))
    return len(seen) / 256


compare(placements, placements_seen(EpochInDataSet), "placements per picture")
if answered(placements):
    print(f"with the epoch sent along: {placements_seen(starter.Pictures):.2f}")

# %% [markdown]
# **Explain**: why is it 1, and why does the same code work without `persistent_workers`?

# %% [markdown] tags=["answer"]
# A worker has a copy of the data set from the moment at which it started. The loop changes the original. Without
# persistent workers, each epoch starts new workers from a new copy.

# %% [markdown]
# One picture, as four epochs show it:

# %%
if answered(placements):
    figure, axes = plt.subplots(1, 4, figsize=(7, 2))
    for epoch, place in enumerate(axes):
        place.imshow(new_pictures(0.0)[[(epoch, 3)]].images[0, 0], cmap="gray_r")
        place.set(title=f"epoch {epoch}", xticks=[], yticks=[])
    plt.show()

# %% [markdown]
# ## 5. Two ranks with two workers each
#
# A stream of 12 samples is read by two ranks with two workers each. Its `__iter__` yields all samples. **Predict** how
# often each sample comes in an epoch, and how often if each worker takes every second sample.


# %% tags=["nbval-check-output"]
undivided = 4  # predict: times per sample
by_worker = 2  # predict: times per sample


class Stream(IterableDataset):
    def __init__(self, divide):
        self.divide = divide

    def __iter__(self):
        info = get_worker_info()
        yield from range(info.id, 12, info.num_workers) if self.divide else range(12)


def times_per_sample(divide):
    ranks = [DataLoader(Stream(divide), batch_size=None, num_workers=2) for rank in range(2)]
    return sum(1 for loader in ranks for sample in loader) / 12


compare(undivided, times_per_sample(False), "times per sample", of="not divided")
compare(by_worker, times_per_sample(True), "times per sample", of="divided by worker")

# %% [markdown]
# **Explain**: what is missing?

# %% [markdown] tags=["answer"]
# The rank. Both ranks have a worker 0, and the two yield the same samples. The share must depend on rank and worker.

# %% [markdown]
# ## 6. Bytes per token
#
# Byte-pair merges are learned on nine of ten paragraphs of the embedded text. **Predict** the bytes per token of the
# other paragraphs with 256 merges, and with 1,024.

# %%
bytes_256 = 2.2  # predict: bytes per token
bytes_1024 = 3.2  # predict: bytes per token

train, held_out = load_documents("embedded")
merges = learn_merges("\n\n".join(train), 1024)
size = sum(len(document.encode()) for document in held_out)


def bytes_per_token(count):
    tokenizer = BytePairTokenizer(merges[:count])
    return size / sum(len(tokenizer.encode(document)) for document in held_out)


compare(bytes_256, bytes_per_token(256), "bytes per token", of="256 merges")
compare(bytes_1024, bytes_per_token(1024), "bytes per token", of="1,024 merges")

# %% [markdown]
# **Explain**: four times as many merges do not make tokens four times as long. Which merges come first?

# %% [markdown] tags=["answer"]
# The most frequent pairs. Each later pair is rarer, so it shortens the text by less.

# %%
if answered(bytes_256, bytes_1024):
    tokenizer = BytePairTokenizer(merges)
    pieces = [tokenizer.encode(word) for word in (" the", " function", " assignment", " zebra")]
    print("tokens of ' the', ' function', ' assignment', ' zebra':", *(len(piece) for piece in pieces))

# %% [markdown]
# ## 7. Padding
#
# The held-out paragraphs become rows of 256 tokens, one paragraph per row. **Predict** the share of padding in percent,
# and the share of a causal row's pairs that the mask keeps if the paragraphs are packed.

# %%
padding_percent = 77.0  # predict: percent of the tokens
pairs_percent = 33.0  # predict: percent of the pairs

lengths = [len(BytePairTokenizer(merges).encode(document)) + 1 for document in held_out]
compare(padding_percent, 100 * padding_share(lengths, 256, packed=False), "percent of the tokens")
compare(pairs_percent, 100 * attending_share(lengths, 256), "percent of the pairs")
if answered(padding_percent, pairs_percent):
    print(f"packed: {100 * padding_share(lengths, 256, packed=True):.1f} percent padding")

# %% [markdown]
# **Explain**: a kernel that skips masked pairs saves their FLOPs. What does it save here?

# %% [markdown] tags=["answer"]
# About two thirds of attention's FLOPs, since a third of the pairs is left. A kernel that only masks saves nothing.

# %% [markdown]
# ## 8. A CNN beside an MLP
#
# Both have about 30,000 parameters and train on the same batches for 6 epochs. **Predict** the share of held-out
# digits that each puts into the right class, in percent.

# %%
cnn_percent = 97.0  # predict: percent of 360 pictures
mlp_percent = 90.0  # predict: percent of 360 pictures

trainer = ImageTrainer(channel_statistics(digits.train_images), 16, 10, 1e-3, 0, mlp=True)
order = starter.EpochOrder(1437, 32, 0, 0, 1)
starter.measure(starter.make_loader(pictures, order, {"num_workers": 0}), order, range(6), trainer.step)
images = torch.stack([decoded(file, 16) for file in SlowStore(digits.val_images, 0.0).files])
right = trainer.shares_right(images, digits.val_labels)
compare(cnn_percent, 100 * right["CNN"], "percent of 360 pictures", of="CNN")
compare(mlp_percent, 100 * right["MLP"], "percent of 360 pictures", of="MLP")

# %% [markdown]
# **Explain**: why do random shifts cost the MLP more than the CNN? Why are held-out pictures not shifted?

# %% [markdown] tags=["answer"]
# An MLP has a weight per pixel, and must learn a stroke for each of its placements. A convolution applies the same
# weights everywhere. Held-out pictures stand for the task: shifting them measures another one.
