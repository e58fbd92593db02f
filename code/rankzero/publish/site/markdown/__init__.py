"""What the site does with the markdown of pages."""
