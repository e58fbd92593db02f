"""Authoring: laying out the files of a new lab, and the gates that a lab must pass."""
