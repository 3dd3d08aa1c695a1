"""`jax.device_put_replicated` and `jax.device_put_sharded`, which left with the old `pmap`.

What JAX says
    AttributeError: jax.device_put_replicated is deprecated; use jax.device_put instead.
    See https://docs.jax.dev/en/latest/migrate_pmap.html#drop-in-replacements for a drop-in replacement.
    ImportError: cannot import name 'device_put_sharded' from 'jax'

Why
    Both made an array with one row a device: the leading axis that a function under `pmap` takes. Plain `device_put` with a
    replicated sharding has no such axis, and is no replacement. The repair puts the drop-in of JAX's documentation into the
    module and calls that: values, shapes and the data on each device stay as they were.

Before
    import jax
    import jax.numpy as jnp

    replicated = jax.device_put_replicated({"w": jnp.ones(3)}, jax.devices())
    print(jax.pmap(lambda tree: tree["w"].sum())(replicated))

After
    import jax
    import jax.numpy as jnp


    def device_put_replicated(x, devices):
        \"""Put a copy of each array of the pytree ``x`` on each device, along a new leading axis.\"""
        mesh = jax.sharding.Mesh(devices, ("devices",))
        sharding = jax.sharding.NamedSharding(mesh, jax.sharding.PartitionSpec("devices"))
        return jax.tree.map(lambda leaf: jax.device_put(jnp.stack([leaf] * len(devices)), sharding), x)


    replicated = device_put_replicated({"w": jnp.ones(3)}, jax.devices())
    print(jax.pmap(lambda tree: tree["w"].sum())(replicated))

When it does not fix
    An import that the module does not use but others may import from it is reported.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import TYPE_CHECKING, ClassVar

from shardfix.codemod import Codemod, Finding, Fix, Range
from shardfix.edits import DropImport, InsertDefinition, named
from shardfix.edits.replacing import is_exported, replace_use, uses_of_import, written_uses

if TYPE_CHECKING:
    from shardfix.semantics.module import Module

_SHARDING = (
    f'    mesh = {named("jax.sharding.Mesh")}(devices, ("devices",))\n'
    f'    sharding = {named("jax.sharding.NamedSharding")}(mesh, {named("jax.sharding.PartitionSpec")}("devices"))\n'
)
_PUT = f"{named('jax.device_put')}({named('jax.numpy.stack')}"
DEFINITIONS = {
    "device_put_replicated": (
        "def {name}(x, devices):\n"
        '    """Put a copy of each array of the pytree ``x`` on each device, along a new leading axis."""\n'
        f"{_SHARDING}"
        f"    return {named('jax.tree.map')}(lambda leaf: {_PUT}([leaf] * len(devices)), sharding), x)\n"
    ),
    "device_put_sharded": (
        "def {name}(shards, devices):\n"
        '    """Put each of the pytrees ``shards`` on the device at its place, stacked along a new leading axis."""\n'
        f"{_SHARDING}"
        f"    return {named('jax.tree.map')}(lambda *leaves: {_PUT}(leaves), sharding), *shards)\n"
    ),
}


class DevicePutReplicated(Codemod):
    """Puts the documented drop-in into the module and calls it."""

    triggers: ClassVar[tuple[bytes, ...]] = (rb"device_put_(?:replicated|sharded)\b",)
    evidence: ClassVar[frozenset[str]] = frozenset({"deprecated-name", "removed-name"})
    deprecated = "0.8.1"
    removed = "0.10.0"
    replacement_since = "0.4.25"

    def findings(self, module: Module) -> Iterator[Finding]:
        for function, definition in DEFINITIONS.items():
            old = f"jax.{function}"
            message = f"{old} is gone since JAX {self.removed}"
            for use in written_uses(module, old):
                if module.is_compatibility_code(use):
                    continue
                definition = definition.replace("    ", _indentation(module))
                name = _free_name(module, function, definition)
                insert = InsertDefinition(Range.of(use), name, definition.format(name=name))
                edits = (insert, *replace_use(module, use, name))
                fix = Fix(edits, title="call the drop-in of JAX's documentation", needs_jax=self.replacement_since)
                yield self.finding(use, f"{message}: plain device_put has no leading device axis", fix=fix)
            for imported in module.imports_of(old):
                if module.is_compatibility_code(imported.statement) or uses_of_import(module, imported):
                    continue
                if is_exported(module, imported.bound):
                    reason = (
                        "other modules may import it from here; define the drop-in of JAX's documentation in its place"
                    )
                    yield self.finding(imported.alias, message, reason=reason)
                else:
                    edits = (DropImport(Range.of(imported.statement), imported.bound),)
                    yield self.finding(
                        imported.alias, message, fix=Fix(edits, title="drop the import, which nothing uses")
                    )


def _indentation(module: Module) -> str:
    """What the file indents a function or class by; four blanks where it has none."""
    definitions: tuple[list[ast.FunctionDef], list[ast.ClassDef]] = (
        module.nodes(ast.FunctionDef),
        module.nodes(ast.ClassDef),
    )
    for kind in definitions:
        for node in kind:
            first = node.body[0]
            if node.col_offset == 0 and first.lineno > node.lineno and first.col_offset:
                end = module.offset(first.lineno, first.col_offset)
                return module.source[end - first.col_offset : end]
    return "    "


def _free_name(module: Module, function: str, definition: str) -> str:
    """A name for the drop-in: the one it has in this file already, else one that the file uses for nothing else."""
    source = module.source.replace("\r\n", "\n")
    taken = {name for scope in module.scopes.values() for name in scope.bindings}
    name = function
    while name in taken and definition.format(name=name).partition('."""')[0] not in source:
        name = f"_{name}"
    return name
