"""Gives each block another class, which counts, and leaves it at that."""

ON, EARNS = "reference", 56


def runs_per_block(blocks, step):
    for block in blocks:

        def forward(self, *inputs, own=type(block)):
            self.runs = self.runs + 1
            return own.forward(self, *inputs)

        block.runs = 0
        block.__class__ = type("Counting", (type(block),), {"forward": forward})
    step()
    return [block.runs for block in blocks]
