"""Study: a learner's files, progress and feedback in the terminal."""
