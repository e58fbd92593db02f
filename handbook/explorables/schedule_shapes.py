"""Explorable: schedules of the learning rate, by warm-up and by the length of WSD's decay."""

from rankzero.figures.content.learning_rate_and_schedules import COLORS, STEPS, rate_share

FORMULAS = (rate_share,)
DATA = {"shapes": COLORS, "updates": STEPS}
