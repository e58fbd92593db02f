"""Pages that show source files."""
