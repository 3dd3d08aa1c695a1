"""An account, for people, of what is known of the mapped functions at a line."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import TYPE_CHECKING

from shardfix.semantics.outputs import Output, outputs, path_text
from shardfix.semantics.values import Array, Mesh, Spec, Tree, Value, Varying, as_array, is_number
from shardfix.semantics.wording import axes_text, origin_text, spec_text

if TYPE_CHECKING:
    from shardfix.semantics.interpreter import MapRun
    from shardfix.semantics.module import Module

__all__ = ["account"]


def account(module: Module, line: int) -> Iterator[str]:
    """Lines of text on every map that stands at ``line`` or whose function holds it; none where there is no such map."""
    runs = (tuple(_run_lines(run, module)) for run in module.trace.maps if _concerns(run, module, line))
    for lines in dict.fromkeys(runs):  # what a loop runs again says the same again
        yield from lines


def _concerns(run: MapRun, module: Module, line: int) -> bool:
    nodes: list[ast.AST] = [run.site.call] if run.site.module is module else []
    if run.run is not None and run.run.function.module is module:
        nodes.append(run.run.function.node)
    if run.call is not None and run.site.module is module:
        nodes.append(run.call)
    return any(node.lineno <= line <= node.end_lineno for node in nodes)  # type: ignore[attr-defined]


def _run_lines(run: MapRun, module: Module) -> Iterator[str]:
    site = run.site
    name = run.run.function.name if run.run is not None else "a function that is not in view"
    how = f"as called at line {run.call.lineno}" if run.call is not None else "for any arguments"
    yield f"{site.api.rpartition('.')[2]} of {name} at line {site.call.lineno}, {how}:"
    if isinstance(site.mesh, Mesh) and site.mesh.axes is not None:
        yield f"  mesh axes {axes_text(site.mesh.axes)}"
    if site.axis_names is not None:
        yield f"  manual axes {axes_text(site.axis_names)}"
    checked = {True: "checked", False: "not checked", None: "perhaps checked"}[site.checked]
    yield f"  replication {checked}"
    yield f"  in_specs {_specs_text(site.in_specs)}"
    found = list(outputs(run))
    if not found:
        yield "  outputs: nothing is known"
    for output in found:
        which = f"output {path_text(output.path)}" if output.path else "output"
        yield f"  {'every leaf of ' if output.stands_for_tree else ''}{which}: {_output_text(output, module)}"


def _output_text(output: Output, module: Module) -> str:
    value = output.value
    if is_number(value):
        return f"a Python number; spec {spec_text(output.spec)}"
    if not isinstance(value, Array | Tree):
        return f"nothing is known; spec {spec_text(output.spec)}"
    array = as_array(value)
    return f"{array.rank}, {_varying_text(array.varying)}; spec {spec_text(output.spec)}{origin_text(array, module)}"


def _varying_text(varying: Varying) -> str:
    if varying.exact is not None:
        return f"varies over {axes_text(varying.exact)}" if varying.exact else "the same on all devices"
    if varying.at_most is None:
        return (
            f"varies over {axes_text(varying.at_least)} and perhaps others" if varying.at_least else "varying unknown"
        )
    return f"varies over {axes_text(varying.at_most)} at most"


def _specs_text(value: Value) -> str:
    match value:
        case Spec():
            return spec_text(value)
    items = getattr(value, "items", None)
    if isinstance(items, tuple) and all(isinstance(item, Value) for item in items):
        return f"({', '.join(map(_specs_text, items))})"
    return "unknown"
