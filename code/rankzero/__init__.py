"""What the labs, their learners and their instructors share."""
