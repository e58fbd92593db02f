"""Pages that the site adds to the repository's, with its map and its search."""
