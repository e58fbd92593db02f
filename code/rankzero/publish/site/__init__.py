"""The site: handbook, labs and annotated source in a browser, made from the files that GitHub shows."""
