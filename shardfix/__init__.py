"""Finds JAX sharding code that JAX rejects, or soon will, and rewrites it."""

__all__ = ["__version__"]

__version__ = "0.1.0"
