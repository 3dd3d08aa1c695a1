"""The outputs of mapped functions, each with its spec, what is known of it, and where both are written."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from shardfix.semantics.interpreter.names import MAPS
from shardfix.semantics.interpreter.records import FieldName, leaf_names, record_fields
from shardfix.semantics.interpreter.trees import leaf_of
from shardfix.semantics.values import (
    UNKNOWN,
    Class,
    Constant,
    Dict,
    Function,
    Instance,
    MapSite,
    Sequence,
    Spec,
    Tree,
    Value,
    as_array,
    map_leaves,
)

if TYPE_CHECKING:
    from shardfix.semantics.calls import Call
    from shardfix.semantics.interpreter import MapRun
    from shardfix.semantics.module import Module

__all__ = [
    "Output",
    "Path",
    "function_references",
    "locate",
    "map_call",
    "match_specs",
    "outputs",
    "path_text",
    "specs_node",
    "varying_beyond_spec",
]

Path = tuple[str | int, ...]


@dataclass(frozen=True)
class Output:
    """One leaf of what one ``return`` of a mapped function gives."""

    run: MapRun = field(repr=False)
    path: Path
    spec: Spec
    spec_path: Path
    """Where in ``out_specs`` the spec stands: a prefix of ``path``."""
    value: Value
    node: ast.expr | None = field(repr=False)
    """The expression in the function that gives this leaf; None where it is not written out."""
    returned: ast.expr | None = field(repr=False)
    """The whole returned expression; None where the function is not one of the project."""
    stands_for_tree: bool = False
    """Whether this is, or may be, a pytree of unknown structure: then all its leaves are as ``value`` says."""

    @property
    def site(self) -> MapSite:
        return self.run.site

    @property
    def function(self) -> Function | None:
        """The function of the project whose return this is."""
        return self.run.run.function if self.run.run is not None else None


def outputs(run: MapRun) -> Iterator[Output]:
    """Every leaf of every return of a run whose spec is known; leaves that are not arrays are left out."""
    if run.run is None:
        for path, spec, spec_path, value in match_specs(run.site.out_specs, run.result):
            yield Output(run, path, spec, spec_path, leaf_of(value), None, None, isinstance(value, Tree))
        return
    module = run.run.function.module
    for fact in run.run.returns:
        for path, spec, spec_path, value in match_specs(run.site.out_specs, fact.value):
            node = locate(module, fact.node, path) if fact.node is not None else None
            yield Output(run, path, spec, spec_path, leaf_of(value), node, fact.node, isinstance(value, Tree))


def match_specs(
    specs: Value, value: Value, path: Path = (), spec_path: Path | None = None
) -> Iterator[tuple[Path, Spec, Path, Value]]:
    """Pairs of a leaf and its spec; ``specs`` may be a prefix of the value's tree. A leaf may be a :class:`Tree`."""
    here = path if spec_path is None else spec_path
    if isinstance(value, Constant) and value.value is None:
        return
    match specs, value:
        case Spec(), Sequence(items=tuple() as items):
            for position, item in enumerate(items):
                yield from match_specs(specs, item, (*path, position), here)
        case Spec(), Dict():
            for key, item in value.items:
                if isinstance(key, str | int):
                    yield from match_specs(specs, item, (*path, key), here)
        case Spec(), Instance():
            for name in leaf_names(value.cls) or ():
                yield from match_specs(specs, value.get(name) or UNKNOWN, (*path, FieldName(name)), here)
        case Spec(), _:
            yield path, specs, here, value
        case Instance(), Instance() if specs.cls == value.cls:
            for name in leaf_names(value.cls) or ():
                of_field = specs.get(name) or UNKNOWN, value.get(name) or UNKNOWN
                yield from match_specs(*of_field, (*path, FieldName(name)))
        case Sequence(items=tuple() as inner), Sequence(items=tuple() as items) if len(inner) == len(items):
            for position, (spec, item) in enumerate(zip(inner, items, strict=True)):
                yield from match_specs(spec, item, (*path, position))
        case Dict(), Dict():
            for key, item in value.items:
                spec = specs.get(key)
                if spec is not None and isinstance(key, str | int):
                    yield from match_specs(spec, item, (*path, key))


def locate(module: Module, node: ast.expr | None, path: Path) -> ast.expr | None:
    """The expression that is written for the element at ``path`` of the tuple, list or dict that ``node`` gives.

    Follows names that are bound once, in the same scope, and not changed in place.
    """
    for key in path:
        node = _display(module, node)
        match node:
            case ast.Tuple(elts=elements) | ast.List(elts=elements) if isinstance(key, int):
                if any(isinstance(element, ast.Starred) for element in elements) or key >= len(elements):
                    return None
                node = elements[key]
            case ast.Dict(keys=keys, values=values):
                node = next(
                    (
                        v
                        for k, v in reversed(list(zip(keys, values, strict=True)))
                        if isinstance(k, ast.Constant) and k.value == key
                    ),
                    None,
                )
            case ast.Call(func=ast.Name(id="dict"), args=[], keywords=keywords):
                node = next((keyword.value for keyword in keywords if keyword.arg == key), None)
            case ast.Call() if isinstance(key, str):
                node = _record_argument(module, node, key)
            case _:
                return None
    return node


def _record_argument(module: Module, call: ast.Call, name: str) -> ast.expr | None:
    """The argument that sets the field ``name`` where a dataclass or NamedTuple of the project is made."""
    cls = module.value_of(call.func)
    if not isinstance(cls, Class) or any(isinstance(given, ast.Starred) for given in call.args):
        return None
    names = [field.name for field in record_fields(cls) or ()]
    if name in names[: len(call.args)]:
        return call.args[names.index(name)]
    return next((keyword.value for keyword in call.keywords if keyword.arg == name), None)


def _display(module: Module, node: ast.expr | None) -> ast.expr | None:
    """The display behind a name."""
    for _ in range(4):
        if not isinstance(node, ast.Name):
            return node
        known = module.scope_of(node).lookup(node.id)
        if known is None or len(known[1]) != 1 or node.id in module.mutated_names:
            return None
        binding = known[1][0]
        if binding.kind != "assignment" or binding.path or binding.value is None:
            return None
        node = binding.value
    return None


def varying_beyond_spec(output: Output) -> frozenset[str]:
    """The axes of its map that the output certainly varies over and that its spec leaves out."""
    named = output.spec.axes
    if named is None:
        return frozenset()
    manual = output.site.axis_names
    return (as_array(output.value).varying.at_least - named) & (
        manual if manual is not None else _own_axes(output.site)
    )


def _own_axes(site: MapSite) -> frozenset[str]:
    """Axes that certainly are this map's own, where its mesh is not known: of others, a map around it may be in charge."""
    found: set[str] = set()

    def collect(leaf: Value) -> Value:
        if isinstance(leaf, Spec) and leaf.axes is not None:
            found.update(leaf.axes)
        return leaf

    map_leaves(collect, site.in_specs)
    map_leaves(collect, site.out_specs)
    return frozenset(found)


def map_call(site: MapSite) -> Call | None:
    """The call of shard_map or smap as the module model sees it."""
    for call in site.module.calls_to(*MAPS, "jax._src.shard_map.shard_map"):
        if call.node is site.call:
            return call
    return None


def specs_node(site: MapSite, which: str) -> ast.expr | None:
    """The expression given as ``in_specs`` or ``out_specs`` (``in_axes``, ``out_axes`` for smap)."""
    call = map_call(site)
    if call is None:
        return None
    if site.api == "jax.smap":
        return call.value(which.replace("_specs", "_axes"))
    position = {"in_specs": 2, "out_specs": 3}[which] if "experimental" in site.api else None
    return call.value(which, position)


def function_references(function: Function) -> list[ast.expr]:
    """Every place of the function's own module that reads it: by name, or as an attribute for methods."""
    module, node = function.module, function.node
    if isinstance(node, ast.Lambda):
        statement = module.parent(node)
        if not (
            isinstance(statement, ast.Assign)
            and len(statement.targets) == 1
            and isinstance(statement.targets[0], ast.Name)
        ):
            return []
        name, home = statement.targets[0].id, module.scope_of(statement)
    else:
        name, home = node.name, module.scope_of(node)
    if home.is_class:
        return [attribute for attribute in module.nodes(ast.Attribute) if attribute.attr == name]
    found: list[ast.expr] = []
    for reference in module.nodes(ast.Name):
        if reference.id == name and isinstance(reference.ctx, ast.Load):
            known = module.scope_of(reference).lookup(name)
            if known is not None and known[0] is home and _may_mean(module, reference, node):
                found.append(reference)
    return found


def _may_mean(module: Module, reference: ast.Name, function: ast.AST) -> bool:
    """Whether a name still means the function there: not where ``f = jax.shard_map(f, ...)`` has bound it anew."""
    bindings = module.reaching(reference)
    return bindings is None or isinstance(function, ast.Lambda) or any(item.node is function for item in bindings)


def path_text(path: Path) -> str:
    """``[1]['loss'].mean`` as JAX writes key paths."""
    return "".join(f".{key}" if isinstance(key, FieldName) else f"[{key!r}]" for key in path)
