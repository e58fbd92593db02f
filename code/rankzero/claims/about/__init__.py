"""The claims themselves, one module for each chapter or lab."""
