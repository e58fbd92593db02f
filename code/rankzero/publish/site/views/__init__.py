"""Pages that the site adds, and how a reader gets to them."""
