"""Claim of handbook/profiling-and-roofline.md: the answers of the chapter's problems."""

from collections.abc import Mapping

from rankzero.claims.claim import claim
from rankzero.ledger.hardware import HARDWARE
from rankzero.ledger.models import PRESETS, parameter_count

FORWARD_FLOPS = 291_648_307_200  # of GPT-2 at 1,024 tokens: claim gpt2-forward-flops


@claim(
    "profiling-problem-answers",
    "Parts of 30 % and 50 % that get 3 and 1.5 times as fast make the step {expected[A]:.2f} and {expected[B]:.2f} "
    "times as fast, together {expected[both]:.2f} times. Fusing 30 % of a step ninefold makes the step "
    "{expected[fused]:.2f} times as fast. GPT-2's update takes at least {expected[update, ms]:.2f} ms on an H100, "
    "{expected[share, %]:.1f} % of a "
    "step of 8 sequences at half of the peak, and 1 % at {expected[sequences]:.0f}. 50 % HFU with a whole second "
    "forward are {expected[MFU, %]:.1f} % MFU; {expected[HFU, %]:.1f} % HFU would be 40 % MFU.",
    expected={
        "A": 1.25, "B": 1.2, "both": 1.579, "fused": 1.364,
        "update, ms": 1.04, "one sequence, ms": 1.77, "share, %": 6.8, "sequences": 58, "MFU, %": 37.5, "HFU, %": 53.3,
    },
    tolerance=0.06,
    unit="as named",
)  # fmt: skip
def problem_answers() -> Mapping[str, float]:
    """Computes the answers from the data sheets and from GPT-2's sizes."""
    h100 = HARDWARE["h100"]
    update = 1e3 * 28 * parameter_count(PRESETS["gpt2"]) / h100.hbm
    sequence = 1e3 * 3 * FORWARD_FLOPS / (0.5 * h100.peaks[2])
    return {
        "A": 1 / (0.7 + 0.3 / 3),
        "B": 1 / (0.5 + 0.5 / 1.5),
        "both": 1 / (0.2 + 0.3 / 3 + 0.5 / 1.5),
        "fused": 1 / (0.7 + 0.3 / 9),
        "update, ms": update,
        "one sequence, ms": sequence,
        "share, %": 100 * update / (update + 8 * sequence),
        "sequences": round(0.99 * update / 0.01 / sequence),
        "MFU, %": 50 * 3 / 4,
        "HFU, %": 40 * 4 / 3,
    }
