"""A codemod for tests of the house: what it does with a name is decided by the name alone."""

from __future__ import annotations

import ast
import os
import time
from collections.abc import Iterator
from typing import TYPE_CHECKING

from shardfix.codemod import Codemod, Finding, Fix, Range, Safety
from shardfix.edits import Replace

if TYPE_CHECKING:
    from shardfix.semantics.module import Module

SAFE = {
    "old": "new",
    "step2": "step1",
    "step1": "step0",
    "broken": "a b",
    "swing": "swung",
    "swung": "swing",
    "accent": "é",
}
UNSAFE = {"risky": "bold"}
YOUNG = {"young": "grown"}
MANUAL = {"puzzle"}


class SampleCodemod(Codemod):
    """Replaces names of no meaning."""

    triggers = (rb"\b(?:old|step[12]|broken|sw[iu]ng|risky|young|puzzle|crash|die|hang|nap|accent)\b",)
    deprecated = "0.7"
    removed = "0.9"

    def findings(self, module: Module) -> Iterator[Finding]:
        for node in module.nodes(ast.Name):
            place = Range.of(node)
            message = f"{node.id} is out of date"
            if node.id in SAFE:
                yield self.finding(
                    node, message, fix=Fix((Replace(place, SAFE[node.id]),), title=f"use {SAFE[node.id]}")
                )
            elif node.id in UNSAFE:
                yield self.finding(node, message, fix=Fix((Replace(place, UNSAFE[node.id]),), Safety.UNSAFE))
            elif node.id in YOUNG:
                yield self.finding(node, message, fix=Fix((Replace(place, YOUNG[node.id]),), needs_jax="0.11"))
            elif node.id in MANUAL:
                choices = (Fix((), title="solve it"), Fix((), title="leave it"))
                yield self.finding(node, message, reason="there are two ways", choices=choices)
            elif node.id == "crash":
                raise LookupError("this is a test")
            elif node.id == "die":
                os._exit(9)
            elif node.id == "hang":
                time.sleep(600)
            elif node.id == "nap":
                time.sleep(0.15)
