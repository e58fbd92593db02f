"""Pages that the site adds to the pages of the repository, and the site's map and search."""
