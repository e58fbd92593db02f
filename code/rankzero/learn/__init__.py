"""The parts of starters and notebooks that are not the lesson: data, models, runs, devices, memory, ranks."""
