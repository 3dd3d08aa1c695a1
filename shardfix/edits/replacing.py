"""Where a name is written out, how to replace it there, and how to drop the import that is left without a use."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

from shardfix.codemod import Range
from shardfix.edits import DropImport, Edit, Replace, SetArgument, named

if TYPE_CHECKING:
    from shardfix.semantics.module import ImportedName, Module

__all__ = ["dropped_imports", "is_exported", "replace_callable", "replace_use", "uses_of_import", "written_uses"]


def written_uses(module: Module, *dotted: str) -> list[ast.expr]:
    """The uses of these objects where their names are written out, in source order.

    That is in attribute chains and by imported names; not by a variable that holds the object, nor by what another module
    of the project exports. A name that the module itself puts into JAX, with ``jax.tree_map = ...``, is not JAX's any more.
    """
    own = frozenset(dotted) - _put_into_jax(module, dotted)
    return [use for use in module.uses_of(*own) if _is_written_out(module, use, own)]


def _put_into_jax(module: Module, dotted: Iterable[str]) -> set[str]:
    last = {name.rpartition(".")[2] for name in dotted}
    return {
        f"{owner}.{node.attr}"
        for node in module.nodes(ast.Attribute)
        if node.attr in last and isinstance(node.ctx, ast.Store)
        for owner in module.resolve(node.value)
    }


def _is_written_out(module: Module, use: ast.expr, dotted: frozenset[str]) -> bool:
    if not module.resolve(use) <= dotted:
        return False
    if isinstance(use, ast.Attribute):
        return any(f"{owner}.{use.attr}" in dotted for owner in module.resolve(use.value))
    if not isinstance(use, ast.Name):
        return False
    bindings = module.reaching(use)
    if bindings is None:  # by ``from jax.x import *``
        return True
    return all(binding.kind == "import" and binding.dotted in dotted for binding in bindings)


def uses_of_import(module: Module, name: ImportedName) -> list[ast.Name]:
    """The names that mean what the import ``name`` binds."""
    return [
        use
        for use in module.nodes(ast.Name)
        if use.id == name.bound
        and isinstance(use.ctx, ast.Load)
        and any(binding.node is name.alias for binding in module.reaching(use) or [])
    ]


def is_exported(module: Module, bound: str) -> bool:
    """Whether others may import ``bound`` from ``module``: it is listed in ``__all__``, or a sibling names it so."""
    file = module.path.rpartition("/")[2]
    if file == "__init__.py":
        return True
    for node in module.nodes(ast.Assign):
        if any(isinstance(target, ast.Name) and target.id == "__all__" for target in node.targets):
            if any(isinstance(item, ast.Constant) and item.value == bound for item in ast.walk(node.value)):
                return True
    stem = re.escape(file.removesuffix(".py"))
    mention = re.compile(rf"\b{stem} import[^\n]*\b{re.escape(bound)}\b|\b{stem}\.{re.escape(bound)}\b")
    return any(
        mention.search(module.project.source(path) or "") for path in module.project.files if path != module.path
    )


def replace_use(module: Module, node: ast.expr, code: str) -> tuple[Edit, ...]:
    """The edits that put ``code`` in the place of the name or attribute chain ``node``."""
    return (Replace(Range.of(node), code), *dropped_imports(module, [node]))


def replace_callable(
    module: Module, node: ast.expr, old: str, new: str, keywords: Mapping[str, str]
) -> tuple[Edit, ...]:
    """The edits that make ``node``, which means the callable ``old``, mean ``new`` with ``keywords`` (code) given.

    Where ``node`` is called the call gets the keywords; where it is passed around a ``functools.partial`` takes its place.
    """
    call = next((call for call in module.calls_to(old) if call.function is node), None)
    if call is not None:
        arguments = [SetArgument(Range.of(call.node), name, value) for name, value in keywords.items()]
        return (*replace_use(module, node, named(new)), *arguments)
    given = "".join(f", {name}={value}" for name, value in keywords.items())
    return replace_use(module, node, f"{named('functools.partial')}({named(new)}{given})")


def dropped_imports(module: Module, nodes: Iterable[ast.expr]) -> tuple[DropImport, ...]:
    """Requests to drop the imports that bind the names ``nodes`` start with, should nothing else use them."""
    drops: dict[DropImport, None] = {}
    for node in nodes:
        root = node
        while isinstance(root, ast.Attribute):
            root = root.value
        if not isinstance(root, ast.Name):
            continue
        for binding in module.reaching(root) or []:
            if binding.kind == "import" and not module.is_compatibility_code(binding.statement):
                drops[DropImport(Range.of(binding.statement), root.id)] = None
    return tuple(drops)
