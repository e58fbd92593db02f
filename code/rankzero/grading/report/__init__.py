"""Reports: gradebook, feedback pages and the formats of course systems."""
