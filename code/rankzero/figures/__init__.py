"""Figures of the pages: drawn by code from formulas or from claims' measurements, committed as SVG in two themes."""
