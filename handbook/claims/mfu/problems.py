"""Claim of handbook/mfu.md: the answers of the chapter's problems."""

from collections.abc import Mapping
from dataclasses import replace

from rankzero.claims.claim import claim
from rankzero.ledger.hardware import HARDWARE
from rankzero.ledger.models import PRESETS, parameter_count
from rankzero.ledger.plan.step_time import model_flops

FORWARD_FLOPS = 291_648_307_200  # of GPT-2 at 1,024 tokens: claim gpt2-forward-flops


@claim(
    "mfu-problem-answers",
    "Fusing 30 % of a step ninefold makes the step {expected[fused]:.2f} times as fast. GPT-2's update takes at least "
    "{expected[update, ms]:.2f} ms on an H100, {expected[share, %]:.1f} % of a step of 8 sequences at half of the "
    "peak, and 1 % at {expected[sequences]:.0f}. 50 % HFU with a whole second forward are {expected[MFU, %]:.1f} % "
    "MFU; {expected[HFU, %]:.1f} % HFU would be 40 % MFU. A step of 62.6 ms would have "
    "{expected[at the peak, %]:.1f} % MFU with its products at the peak, and {expected[no point-wise, %]:.1f} % "
    "without its point-wise operations. Attention's FLOPs exceed those of the weights above {expected[blocks]:,} "
    "tokens in GPT-2's blocks, and above {expected[whole model]:,} with the output layer; at 1,024 tokens they are "
    "{expected[attention, %]:.0f} %.",
    expected={
        "fused": 1.364, "update, ms": 1.04, "one sequence, ms": 1.77, "share, %": 6.8, "sequences": 58,
        "MFU, %": 37.5, "HFU, %": 53.3, "at the peak, %": 56.83, "no point-wise, %": 60.47,
        "blocks": 4608, "whole model": 6705, "attention, %": 13.25,
    },
    tolerance=0.06,
    unit="as named",
)  # fmt: skip
def problem_answers() -> Mapping[str, float]:
    """Computes the answers from the data sheets, from GPT-2's sizes, and from the milliseconds of the problem."""
    h100 = HARDWARE["h100"]
    update = 1e3 * 28 * parameter_count(PRESETS["gpt2"]) / h100.hbm
    sequence = 1e3 * 3 * FORWARD_FLOPS / (0.5 * h100.peaks[2])
    config = replace(PRESETS["gpt2"], vocab_size=50_304)
    flops = model_flops(config, tokens=1, seq_len=config.block_size)
    width = config.n_layer * config.hidden_dim
    attention = 12 * width * config.block_size
    return {
        "fused": 1 / (0.7 + 0.3 / 9),
        "update, ms": update,
        "one sequence, ms": sequence,
        "share, %": 100 * update / (update + 8 * sequence),
        "sequences": round(0.99 * update / 0.01 / sequence),
        "MFU, %": 50 * 3 / 4,
        "HFU, %": 40 * 4 / 3,
        "at the peak, %": 100 * 28.3 / (62.6 - 41.1 + 28.3),
        "no point-wise, %": 100 * 28.3 / (62.6 - 15.8),
        "blocks": 6 * config.hidden_dim,
        "whole model": round((flops - attention) / 6 / (2 * width)),
        "attention, %": 100 * attention / flops,
    }
