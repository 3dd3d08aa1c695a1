"""All rules: importing this module registers them."""

from __future__ import annotations

from shardfix.semantics.rules import products, reductions, selection, shapes
from shardfix.semantics.rules.registry import RULES, Rule

__all__ = ["RULES", "Rule", "products", "reductions", "selection", "shapes"]
