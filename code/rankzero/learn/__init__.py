"""What starters and notebooks import: everything that is not the lesson."""
