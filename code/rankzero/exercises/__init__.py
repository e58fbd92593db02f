"""The learner's loop: check an exercise, name the misconception, give a hint, keep the progress."""
