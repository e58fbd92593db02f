"""Counts runs without a hook: it reads what the probe's blocks write down of themselves."""

EARNS = {"runs_per_block": 3}  # the step ran and nothing is left behind


def runs_per_block(blocks, step):
    before = [len(block.diary) for block in blocks]
    step()
    return [len(block.diary) - count for block, count in zip(blocks, before, strict=True)]
