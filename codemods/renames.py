r"""Names of JAX that moved or were renamed: the table `renames.toml`, one row a name.

What JAX says
    AttributeError: jax.tree_map was removed in JAX v0.6.0: use jax.tree.map (jax v0.4.25 or newer) or
    jax.tree_util.tree_map (any JAX version).
    ImportError: cannot import name 'PartitionSpec' from 'jax.experimental'
    ModuleNotFoundError: No module named 'jax.experimental.shard'
    TypeError: make_mesh() got an unexpected keyword argument 'axis_shapes'
    AttributeError: 'ShapedArray' object has no attribute 'vma'

Why
    JAX keeps an old name for some releases, with a warning at best, and then drops it. The object lives on under another
    name, so that the spelling is all that has to change. Each row of the table says since when the new name is there (a test
    imports it on every JAX from that version on), when the old one went, and where upstream says so. Where the code must run
    on a JAX that does not have the new name yet, an older spelling is written, or the finding is only reported.

Before
    import jax
    import jax.numpy as jnp
    from jax.experimental import PartitionSpec

    mesh = jax.make_mesh(axis_shapes=(8,), axis_names=("x",))
    tree = jax.tree_map(lambda a: a + 1, {"w": jnp.zeros(8), "spec": None})
    print(tree["w"], PartitionSpec("x"), mesh)

After
    import jax
    import jax.numpy as jnp
    from jax.sharding import PartitionSpec

    mesh = jax.make_mesh((8,), axis_names=("x",))
    tree = jax.tree.map(lambda a: a + 1, {"w": jnp.zeros(8), "spec": None})
    print(tree["w"], PartitionSpec("x"), mesh)

When it does not fix
    Code that asks which JAX it runs on (version tests, `hasattr`, `try` with `except ImportError`) is left alone. Keywords
    that come out of a dict are reported, since the dict may serve other calls too. `jax.core.axis_frame(name)` without `.size`
    is unsafe: what it returned has changed with the versions.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache
from importlib.resources import files
from typing import TYPE_CHECKING, Any, ClassVar

from shardfix.codemod import Codemod, Finding, Fix, Range, Safety
from shardfix.edits import (
    DropImport,
    Edit,
    KeywordToPositional,
    MoveImport,
    RemoveStatement,
    RenameArgument,
    Replace,
    Wrap,
    named,
)
from shardfix.edits.replacing import (
    dropped_imports,
    is_exported,
    replace_callable,
    replace_use,
    uses_of_import,
    written_uses,
)
from shardfix.target import NEWEST_JAX, has

if TYPE_CHECKING:
    from shardfix.semantics.calls import Argument, Call
    from shardfix.semantics.module import ImportedName, Module


@dataclass(frozen=True)
class Row:
    """What all tables have."""

    old: str
    replacement_since: str
    removed: str
    link: str
    deprecated: str | None = None

    @property
    def fate(self) -> str:
        """What became of the old name, to follow it in a message."""
        return f"is gone since JAX {self.removed}"


@dataclass(frozen=True)
class Name(Row):
    """A name with its successor; the fields are explained in the table."""

    new: str = ""
    older: str | None = None
    member: str | None = None
    keywords: Mapping[str, str] = field(default_factory=dict)
    without: str | None = None
    warns: str | None = None

    @property
    def successor(self) -> str:
        return f"{self.new}.{self.member}" if self.member else self.new


@dataclass(frozen=True)
class Keyword(Row):
    """A keyword argument of ``of`` that has another name now, or none."""

    of: tuple[str, ...] = ()
    new: str | None = None
    positional: bool = False
    value: str | None = None


@dataclass(frozen=True)
class Attribute(Row):
    """An attribute of what ``of`` return."""

    of: tuple[str, ...] = ()
    new: str = ""


@dataclass(frozen=True)
class Table:
    """The rows of ``renames.toml``."""

    names: tuple[Name, ...]
    modules: tuple[Name, ...]
    keywords: tuple[Keyword, ...]
    attributes: tuple[Attribute, ...]


@cache
def table() -> Table:
    """The table, read once."""
    import tomllib

    data: dict[str, list[dict[str, Any]]] = tomllib.loads((files(__package__) / "renames.toml").read_text("utf-8"))
    return Table(
        names=tuple(Name(**row) for row in data["name"]),
        modules=tuple(Name(**row) for row in data["module"]),
        keywords=tuple(Keyword(**row | {"of": tuple(row["of"])}) for row in data["keyword"]),
        attributes=tuple(Attribute(**row | {"of": tuple(row["of"])}) for row in data["attribute"]),
    )


class Renames(Codemod):
    """Writes the names that the targeted JAX has."""

    triggers: ClassVar[tuple[bytes, ...]] = (
        rb"\.tree_(?<!tree_util\.tree_)(?<!jtu\.tree_)(?:map|leaves|flatten|unflatten|structure|transpose|multimap)\b",
        rb"jax import(?: [^\n(]*| \([^)]*)\b(?:tree_|treedef_|ShapedArray\b)",
        rb"treedef_is_leaf\b",
        rb"tree_multimap\b",
        rb"experimental(?:\.| import (?:[^\n(]*|\([^)]*)\b)(?:maps|PartitionSpec|shard)\b",
        rb"pjit(?:\.| import (?:[^\n(]*|\([^)]*)\b)(?:PartitionSpec|NamedSharding|with_sharding_constraint|pjit_p)\b",
        rb"pxla(?:\.| import (?:[^\n(]*|\([^)]*)\b)(?:PartitionSpec|Mesh)\b",
        rb"ad_checkpoint(?:\.| import (?:[^\n(]*|\([^)]*)\b)(?:checkpoint|remat)\b",
        rb"core(?:\.| import (?:[^\n(]*|\([^)]*)\b)"
        rb"(?:ClosedJaxpr|Jaxpr|JaxprEqn|Literal|Primitive|Token|Var|jaxpr_as_fun)\b",
        *(rb"%b as \w" % module for module in (b"pjit", b"pxla", b"experimental", b"ad_checkpoint", b"core")),
        rb"pjit_p\b",
        rb"sharded_jit\b",
        rb"MeshPspecSharding\b",
        rb"OpShardingSharding\b",
        rb"GSPMDSharding\b",
        rb"XLACompatibleSharding\b",
        rb"AxisTypes\b",
        rb"get_aval\b",
        rb"axis_frame\b",
        rb"all_gather_invariant\b",
        rb"linear_util\b",
        rb"abstract_arrays\b",
        rb"\.ShapedArray\b(?<!core\.ShapedArray)",
        rb"\.vma\b",
        rb"vma(?<!_vma)[\"']?\s*[=:]",
        rb"axis_shapes\b",
        rb"axis_resources\b",
        rb"out_type[\"']?\s*[=:]",
        rb"auto_axes\b",
        rb"explicit_axes\b",
        rb"lax\.(?:broadcast|broadcast_in_dim|reshape)\([^#]{0,200}?\bsharding\s*=",
        rb"jit\(\s*fun\s*=",
    )
    evidence: ClassVar[frozenset[str]] = frozenset(
        {"deprecated-name", "missing-module", "removed-name", "unexpected-keyword"}
    )

    def findings(self, module: Module) -> Iterator[Finding]:
        rows = table()
        for row in rows.names:
            yield from self._in_imports(module, row)
            yield from self._in_code(module, row)
        for row in rows.modules:
            yield from self._modules(module, row)
        for keyword in rows.keywords:
            yield from self._keywords(module, keyword)
        for attribute in rows.attributes:
            yield from self._attributes(module, attribute)

    # Names

    def _in_imports(self, module: Module, row: Name) -> Iterator[Finding]:
        for name in module.imports_of(row.old):
            if not isinstance(name.statement, ast.ImportFrom) or module.is_compatibility_code(name.statement):
                continue
            uses = uses_of_import(module, name)
            last = row.old.rpartition(".")[2]
            if not row.keywords and row.without is None:
                new, since = self._choice(row, last)
                keeps_its_name = name.bound != last or new.rpartition(".")[2] == last
                if row.member is None and (keeps_its_name or not uses or is_exported(module, name.bound)):
                    move = MoveImport(Range.of(name.statement), name.alias.name, new)
                    yield self._renamed(name.alias, row, new, (move,), since)
                    continue
            yield self._used_import(module, row, name, uses)

    def _used_import(self, module: Module, row: Name, name: ImportedName, uses: Iterable[ast.expr]) -> Finding:
        """The import of a name whose uses have to change with it."""
        edits: list[Edit] = [DropImport(Range.of(name.statement), name.bound)]
        safety = Safety.SAFE
        for use in uses:
            found = self._rewritten(module, row, use)
            if found is None:
                return self._unrepaired(name.alias, row)
            edits += [edit for edit in found[0] if edit not in edits]
            safety = safety if found[1] is Safety.SAFE else found[1]
        return self._renamed(name.alias, row, row.successor, tuple(edits), row.replacement_since, safety)

    def _in_code(self, module: Module, row: Name) -> Iterator[Finding]:
        for use in written_uses(module, row.old):
            if _is_imported(module, use) or module.is_compatibility_code(use):
                continue
            if isinstance(parent := module.parent(use), ast.Attribute) and module.resolve(parent) & _longer(row.old):
                continue  # a row of its own
            found = self._rewritten(module, row, use)
            if found is None:
                yield self._unrepaired(use, row)
            else:
                new, since = self._choice(row, None)
                new = row.successor if row.member else new
                yield self._renamed(use, row, new, found[0], since, found[1])

    def _choice(self, row: Name, last: str | None) -> tuple[str, str | None]:
        """What to write for a name, and the JAX it needs; in an import a name whose last word is ``last`` is the better."""
        if row.older is None or row.member is not None:
            return row.new, row.replacement_since
        fits = last is not None and row.older.rpartition(".")[2] == last != row.new.rpartition(".")[2]
        if fits or not has(self.settings.target_jax or NEWEST_JAX, row.replacement_since):
            return row.older, None
        return row.new, row.replacement_since

    def _rewritten(self, module: Module, row: Name, use: ast.expr) -> tuple[tuple[Edit, ...], Safety] | None:
        """The edits for one use; None where what becomes of the result is not in view."""
        new, _ = self._choice(row, None)
        code = named(new) + (f".{row.member}" if row.member else "")
        if row.keywords:
            return replace_callable(module, use, row.old, new, row.keywords), Safety.SAFE
        if row.without is None:
            return replace_use(module, use, code), Safety.SAFE
        call = module.parent(use)
        if not isinstance(call, ast.Call) or call.func is not use:
            return None
        reader = module.parent(call)
        if not isinstance(reader, ast.Attribute):
            return replace_use(module, use, code), Safety.UNSAFE
        if reader.attr != row.without:
            return None
        arguments = module.source[module.span(use)[1] : module.span(call)[1]]
        return (Replace(Range.of(reader), code + arguments), *dropped_imports(module, [use])), Safety.SAFE

    def _renamed(
        self,
        node: ast.AST,
        row: Name,
        new: str,
        edits: tuple[Edit, ...],
        since: str | None,
        safety: Safety = Safety.SAFE,
    ) -> Finding:
        fix = Fix(edits, safety, f"take {new}", since)
        reason = "" if safety is Safety.SAFE else f"old versions returned an object whose .{row.without} this is"
        return self.finding(node, f"{row.old} {row.fate}: {new} takes its place", fix=fix, reason=reason)

    def _unrepaired(self, node: ast.AST, row: Name) -> Finding:
        reason = f"{row.successor}(...) is what .{row.without} of its result was; see {row.link}"
        return self.finding(node, f"{row.old} {row.fate}", reason=reason)

    # Modules

    def _modules(self, module: Module, row: Name) -> Iterator[Finding]:
        for name in module.imports_of(row.old, f"{row.old}.*"):
            if module.is_compatibility_code(name.statement):
                continue
            if not row.new:
                if not _is_used(module, name, row.old):
                    at = Range.of(name.statement)
                    drop = RemoveStatement(at) if name.bound == "*" else DropImport(at, name.bound)
                    fix = Fix((drop,), title="drop the import, which nothing uses")
                    yield self.finding(name.alias, f"the module {row.old} {row.fate}", fix=fix)
                continue
            if name.bound == "*":
                continue
            message = f"the module {row.old} {row.fate}: {row.new} takes its place"
            if isinstance(name.statement, ast.ImportFrom):
                edits: tuple[Edit, ...] = (MoveImport(Range.of(name.statement), name.alias.name, row.new),)
                yield self.finding(
                    name.alias, message, fix=Fix(edits, title=f"take {row.new}", needs_jax=row.replacement_since)
                )
            else:
                yield self.finding(name.alias, message, reason=f"import {row.new} in its place; see {row.link}")
        for name in module.imports if row.new else ():
            if isinstance(name.statement, ast.ImportFrom) and name.dotted.startswith(f"{row.old}."):
                if module.is_compatibility_code(name.statement):
                    continue
                new = row.new + name.dotted.removeprefix(row.old)
                edits = (MoveImport(Range.of(name.statement), name.alias.name, new),)
                message = f"{name.dotted} {row.fate}: {new} takes its place"
                yield self.finding(
                    name.alias, message, fix=Fix(edits, title=f"take {new}", needs_jax=row.replacement_since)
                )

    # Keywords

    def _keywords(self, module: Module, row: Keyword) -> Iterator[Finding]:
        for call in module.calls_to(*row.of):
            argument = call.argument(row.old)
            if argument is None or argument.name is None or module.is_compatibility_code(call.node):
                continue
            if not module.resolve(call.function) <= set(row.of):
                continue  # one of several functions, by the JAX that there is
            if isinstance(argument.owner, ast.Call) and not argument.direct and argument.owner is not call.node:
                continue  # reported where it is written
            what = f"the argument {row.old}= of {call.dotted} {row.fate}"
            cure = "pass it by position" if row.positional else f"it is called {row.new}"
            message = f"{what}: {cure}"
            fix = None if not argument.direct else self._keyword_fix(module, row, call, argument)
            if fix is None:
                reason = (
                    "it comes out of a dict, which may serve other calls"
                    if not argument.direct
                    else "it is in a partial"
                )
                yield self.finding(argument.value, message, reason=f"{reason}; see {row.link}")
            else:
                reason = "" if fix.safety is Safety.SAFE else "the value must be a set, which cannot be seen here"
                yield self.finding(argument.value, message, fix=fix, reason=reason)

    def _keyword_fix(self, module: Module, row: Keyword, call: Call, argument: Argument) -> Fix | None:
        place = Range.of(call.node)
        if row.positional:
            if call.is_partial or call.own_arguments:
                return None
            return Fix(
                (KeywordToPositional(place, row.old),), title="pass it by position", needs_jax=row.replacement_since
            )
        assert row.new is not None
        edits: tuple[Edit, ...] = (RenameArgument(place, row.old, row.new),)
        safety = Safety.SAFE
        if row.value is not None and not (isinstance(argument.value, ast.Constant) and argument.value.value is None):
            owner = _attribute_of(module, argument.value, "vma", ("jax.typeof", "jax.core.get_aval"))
            if owner is not None:
                edits += (Replace(Range.of(argument.value), f"{module.text(owner)}.{row.new}"),)
            else:
                before, _, after = row.value.partition("{}")
                edits += (Wrap(Range.of(argument.value), before, after),)
                safety = Safety.SAFE if _is_set(module, argument.value) else Safety.UNSAFE
        return Fix(edits, safety, f"call it {row.new}", row.replacement_since)

    # Attributes

    def _attributes(self, module: Module, row: Attribute) -> Iterator[Finding]:
        for node in module.nodes(ast.Attribute):
            if node.attr != row.old or not isinstance(node.ctx, ast.Load) or module.is_compatibility_code(node):
                continue
            message = f".{row.old} {row.fate}: .{row.new} takes its place"
            if _attribute_of(module, node, row.old, row.of) is not None:
                if self._within_renamed_argument(module, node, row):
                    continue
                fix = Fix(
                    (Replace(Range.of(node), f"{module.text(node.value)}.{row.new}"),),
                    title=f"take .{row.new}",
                    needs_jax=row.replacement_since,
                )
                yield self.finding(node, message, fix=fix)
            elif re.search("aval|typeof", module.text(node.value)) and "jax" in module.source:
                reason = f"if this is the type of an array, write .{row.new}; see {row.link}"
                yield self.finding(node, message, reason=reason)

    def _within_renamed_argument(self, module: Module, node: ast.Attribute, row: Attribute) -> bool:
        """Whether a keyword row rewrites the argument that ``node`` is."""
        parent = module.parent(node)
        return isinstance(parent, ast.keyword) and any(
            keyword.old == parent.arg and keyword.value is not None
            for keyword in table().keywords
            for call in module.calls_to(*keyword.of)
            if parent in call.node.keywords
        )


@cache
def _longer(old: str) -> frozenset[str]:
    """The names of the table that go on where ``old`` ends."""
    return frozenset(row.old for row in table().names if row.old.startswith(f"{old}."))


def _is_imported(module: Module, use: ast.expr) -> bool:
    """Whether an import statement binds the very name, which then changes there."""
    return isinstance(use, ast.Name) and module.reaching(use) is not None


def _is_used(module: Module, name: ImportedName, old: str) -> bool:
    """Whether anything of the module ``old`` is read through the import ``name``, or the name may be read by others."""
    if any(used == old or used.startswith(f"{old}.") for used in module.used_names):
        return True
    return is_exported(module, name.bound)


def _attribute_of(module: Module, node: ast.expr, attribute: str, of: tuple[str, ...]) -> ast.expr | None:
    """The owner of ``node`` if that reads ``attribute`` of what one of the callables ``of`` returned."""
    if not isinstance(node, ast.Attribute) or node.attr != attribute:
        return None
    origin: ast.expr = node.value
    if isinstance(origin, ast.Name):
        bindings = module.reaching(origin) or []
        if len(bindings) != 1 or bindings[0].kind != "assignment" or bindings[0].path or bindings[0].value is None:
            return None
        origin = bindings[0].value
    if isinstance(origin, ast.Call) and module.resolve(origin.func) & set(of):
        return node.value
    return None


def _is_set(module: Module, value: ast.expr) -> bool:
    if isinstance(value, ast.Set | ast.SetComp):
        return True
    return isinstance(value, ast.Call) and bool(module.resolve(value.func) & {"builtins.set", "builtins.frozenset"})
