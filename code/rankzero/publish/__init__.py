"""Generated files: excerpts in pages, notebooks."""
