"""Hypothesis strategies that write JAX programs, and the judge that asks JAX what they give."""
