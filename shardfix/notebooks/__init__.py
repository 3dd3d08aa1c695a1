"""Jupyter notebooks: their code cells as one program, and what becomes of it put back into the JSON."""

from shardfix.notebooks.notebook import Cell, Notebook

__all__ = ["Cell", "Notebook"]
