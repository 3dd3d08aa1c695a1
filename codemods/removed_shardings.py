"""Sharding APIs that JAX removed and that have no successor of the same shape: xmap, PmapSharding, internals of pxla.

What JAX says
    ModuleNotFoundError: No module named 'jax.experimental.maps'
    AttributeError: module 'jax.sharding' has no attribute 'PmapSharding'
    AttributeError: jax.interpreters.pxla.ShardingSpec was removed in JAX v0.10.0.

Why
    What these did is done in other words today: with a mesh and specs under `jit`, or by `shard_map`. Which, and over which axes,
    follows from the program, not from the call.

Before
    import jax
    import jax.numpy as jnp
    from jax.sharding import PmapSharding

    rows = PmapSharding.default((8, 2), sharded_dim=0, devices=jax.devices())
    print(jax.device_put(jnp.ones((8, 2)), rows).sharding)

After
    import jax
    import jax.numpy as jnp
    from jax.sharding import Mesh, NamedSharding, PartitionSpec

    rows = NamedSharding(Mesh(jax.devices(), ("x",)), PartitionSpec("x"))
    print(jax.device_put(jnp.ones((8, 2)), rows).sharding)

When it does not fix
    Always: each finding says what takes the place of the name, and where upstream explains it. Names that only moved are the
    business of `renames`.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import TYPE_CHECKING, ClassVar

from shardfix.codemod import Codemod, Finding, Fix, Range
from shardfix.edits import RemoveArgument
from shardfix.edits.replacing import written_uses

if TYPE_CHECKING:
    from shardfix.semantics.module import Module

GUIDES = {
    "shard_map": "https://docs.jax.dev/en/latest/notebooks/shard_map.html",
    "pmap": "https://docs.jax.dev/en/latest/migrate_pmap.html",
    "arrays": "https://docs.jax.dev/en/latest/jax_array_migration.html",
    "parallel": "https://docs.jax.dev/en/latest/parallel.html",
}


@dataclass(frozen=True)
class Removed:
    """Names that are gone; ``name`` ends in ``.*`` where it stands for all that a module held, but ``kept``.

    ``removed`` is empty where the names went at different times.
    """

    name: str
    removed: str
    instead: str
    guide: str
    kept: frozenset[str] = frozenset()
    deprecated_only: bool = False

    def covers(self, dotted: str) -> bool:
        if not self.name.endswith(".*"):
            return dotted == self.name
        base = self.name[:-1]
        return dotted.startswith(base) and dotted.removeprefix(base).partition(".")[0] not in self.kept


REMOVED = (
    Removed(
        "jax.experimental.maps.xmap",
        "0.4.31",
        "map with jax.shard_map, or with jax.vmap(axis_name=...) under a jax.jit that has shardings",
        "shard_map",
    ),
    Removed(
        "jax.experimental.maps.FrozenDict",
        "0.4.31",
        "it was an internal of xmap: take a dict in its place",
        "shard_map",
    ),
    Removed("jax.experimental.maps.*", "0.4.31", "map with jax.shard_map over a jax.sharding.Mesh", "shard_map"),
    Removed("jax.xmap", "0.4.31", "map with jax.shard_map", "shard_map"),
    Removed("jax.soft_pmap", "0.3.18", "map with jax.shard_map and jax.vmap", "shard_map"),
    Removed("jax.experimental.sharded_jit.*", "0.4.0", "jax.jit with in_shardings and out_shardings", "parallel"),
    Removed("jax.interpreters.sharded_jit.*", "0.4.0", "jax.jit with in_shardings and out_shardings", "parallel"),
    Removed("jax.sharding.PmapSharding", "0.10.0", 'NamedSharding(Mesh(devices, ("x",)), PartitionSpec("x"))', "pmap"),
    Removed("jax.experimental.global_device_array.*", "0.4.7", "jax.Array, which may span processes", "arrays"),
    Removed(
        "jax.experimental.gda_serialization.*",
        "0.4.11",
        "jax.experimental.array_serialization, which takes jax.Array",
        "arrays",
    ),
    Removed("jax.experimental.shard_alike.*", "0.11.2", "jax.lax.with_sharding_constraint on both arrays", "parallel"),
    Removed(
        "jax.abstract_arrays.*",
        "0.4.17",
        "jax.core has ShapedArray; the rest was internal",
        "arrays",
        kept=frozenset({"ShapedArray"}),
    ),
    *(
        Removed(f"jax.lib.{name}", version, "NamedSharding and jax.Array say the same in public", "arrays")
        for version, names in (
            (
                "0.8.0",
                "xla_client.HloSharding xla_client.OpSharding xla_extension.PjitFunction xla_extension.PmapFunction",
            ),
            ("0.7.0", "xla_extension.OpSharding xla_extension.PjitFunctionCache xla_extension.pmap_lib"),
        )
        for name in names.split()
    ),
    Removed("jax.lax.pdot", "0.4.31", "jnp.einsum and jax.lax.psum inside jax.shard_map", "shard_map"),
    Removed("jax.lax.xeinsum", "0.4.31", "jnp.einsum and jax.lax.psum inside jax.shard_map", "shard_map"),
    Removed("jax.lax.all_gather_reduced", "0.8.2", 'jax.lax.all_gather(..., to="reduced")', "shard_map"),
    Removed("jax.lax.unreduced_psum", "0.8.2", "jax.lax.psum", "parallel"),
    Removed("jax.lax.unreduced_psum_scatter", "0.8.2", "jax.lax.psum_scatter", "parallel"),
    Removed("jax.lax.preduced", "0.8.2", 'jax.lax.pcast(..., to="reduced")', "parallel"),
    Removed("jax.lax.all_gather_start", "0.10.0", "jax.lax.all_gather", "shard_map"),
    Removed("jax.lax.all_gather_done", "0.10.0", "jax.lax.all_gather", "shard_map"),
    Removed("jax.lax.psend", "0.12.0", "jax.lax.ppermute", "shard_map", deprecated_only=True),
    Removed("jax.lax.precv", "0.12.0", "jax.lax.ppermute", "shard_map", deprecated_only=True),
    Removed(
        "jax.experimental.layout.DeviceLocalLayout",
        "0.7.0",
        "it is called Layout now, and what was Layout is called Format: rename both at once",
        "parallel",
    ),
    Removed(
        "jax.extend.core.primitives.xla_pmap_p", "0.10.0", "pmap is jit of shard_map now, and has no primitive", "pmap"
    ),
    Removed("jax.experimental.pjit.AUTO", "0.10.1", "None, for what jit decides", "parallel"),
    Removed(
        "jax.experimental.pjit.*",
        "",
        "shardings of jax.jit are objects: NamedSharding, or None for what jit decides",
        "parallel",
        kept=frozenset({"pjit"}),
    ),
    *(
        Removed(
            f"jax.interpreters.pxla.{name}",
            version,
            "NamedSharding and jax.Array say the same in public",
            "pmap",
            deprecated_only=kept,
        )
        for version, kept, names in (
            ("0.8.2", True, "MeshComputation global_avals_to_results_handler"),
            (
                "0.10.0",
                False,
                "Chunked MapTracer NoSharding PmapExecutable Replicated ShardedAxis ShardingSpec Unstacked parallel_callable "
                "shard_args spec_to_indices xla_pmap_p",
            ),
            (
                "0.11.0",
                False,
                "ArrayMapping Index MeshAxisName MeshExecutable _UNSPECIFIED are_hlo_shardings_equal "
                "array_mapping_to_axis_resources global_aval_to_result_handler global_result_handlers "
                "is_hlo_sharding_replicated op_sharding_to_indices",
            ),
        )
        for name in names.split()
    ),
    Removed(
        "jax.interpreters.pxla.*",
        "",
        "it was an internal of pmap and pjit; NamedSharding and jax.Array say the same in public",
        "pmap",
        kept=frozenset({"thread_resources", "create_compile_options"}),
    ),
)
"""The first that covers a name counts."""

OPTIONS = {
    "jax_pmap_shmap_merge": "0.10.0",
    "jax_pmap_no_rank_reduction": "0.9.0",
    "jax_sharding_in_types": "0.5.1",
    "jax_parallel_functions_output_gda": "0.4.26",
    "jax_array": "0.4.7",
    "jax_jit_pjit_api_merge": "0.4.7",
    "experimental_xmap_spmd_lowering": "0.4.31",
    "experimental_xmap_spmd_lowering_manual": "0.4.31",
    "experimental_xmap_ensure_fixed_sharding": "0.4.31",
}
"""Options of ``jax.config`` that are gone, with the JAX that lacks them."""


class RemovedShardings(Codemod):
    """Reports what is gone, with the guide."""

    triggers: ClassVar[tuple[bytes, ...]] = (
        rb"xmap",
        rb"soft_pmap\b",
        rb"sharded_jit\b",
        rb"PmapSharding\b",
        rb"global_device_array\b",
        rb"gda_serialization\b",
        rb"shard_alike\b",
        rb"abstract_arrays\b",
        rb"(?:Op|Hlo)Sharding\b",
        rb"(?:Pjit|Pmap)Function",
        rb"pmap_lib\b",
        rb"experimental(?:\.maps\b| import (?:[^\n(]*|\([^)]*)\bmaps\b)",
        rb"pjit(?:\.| import (?:[^\n(]*|\([^)]*)\b)(?:(?!pjit\b)[A-Z_]\w*|get_array_mapping\b)",
        rb"pxla\b",
        rb"lax\.(?:pdot|xeinsum|all_gather_(?:reduced|start|done)|unreduced_psum|preduced|psend|precv)",
        rb"lax import (?:[^\n(]*|\([^)]*)\b(?:pdot|xeinsum|all_gather_|unreduced_psum|preduced|psend|precv)",
        rb"DeviceLocalLayout\b",
        rb"device_local_layout\b",
        rb"Layout\([^()\n]*\bsharding\s*=",
        rb"xla_pmap_p\b",
        rb"global_arg_shapes\b",
        rb"jax_(?:pmap_\w+|sharding_in_types|parallel_functions_output_gda|array|jit_pjit_api_merge)\b",
    )
    evidence: ClassVar[frozenset[str]] = frozenset({"deprecated-name", "missing-module", "removed-name"})
    deprecated = "0.4.26"
    removed = "0.4.31"

    def findings(self, module: Module) -> Iterator[Finding]:
        for name in module.imports:
            if isinstance(name.statement, ast.ImportFrom):
                entry = _entry(name.dotted)
                if entry is not None and not module.is_compatibility_code(name.statement):
                    yield self._gone(name.alias, name.dotted, entry)
        gone = {dotted: entry for dotted in sorted(module.used_names) if (entry := _entry(dotted)) is not None}
        yield from self._modules(module, gone)
        for dotted, entry in gone.items():
            for use in written_uses(module, dotted):
                owner = use.value if isinstance(use, ast.Attribute) else None
                if owner is None or any(map(_entry, module.resolve(owner))) or module.is_compatibility_code(use):
                    continue  # imported by name and reported there, or a part of what is reported already
                yield self._gone(use, dotted, entry)
        yield from self._layouts(module)
        yield from self._options(module)
        yield from self._global_arg_shapes(module)

    def _modules(self, module: Module, gone: Mapping[str, Removed]) -> Iterator[Finding]:
        """Imports of modules that are gone, where something keeps them from being dropped."""
        for name in module.imports:
            entry = next((entry for entry in REMOVED if entry.name == f"{name.dotted}.*" and not entry.kept), None)
            if entry is None or module.is_compatibility_code(name.statement):
                continue
            if any(dotted.startswith(f"{name.dotted}.") for dotted in gone):
                yield self._gone(name.alias, name.dotted, entry)

    def _gone(self, node: ast.AST, dotted: str, entry: Removed) -> Finding:
        fate = "is deprecated" if entry.deprecated_only else "is gone"
        since = f" since JAX {entry.removed}" if entry.removed else ""
        return self.finding(node, f"{dotted} {fate}{since}", reason=f"{entry.instead}; see {GUIDES[entry.guide]}")

    def _layouts(self, module: Module) -> Iterator[Finding]:
        """Layouts made with a sharding, which was the pair of both until JAX 0.7."""
        for call in module.calls_to("jax.experimental.layout.Layout"):
            if call.argument("sharding") is None and call.argument("device_local_layout") is None:
                continue
            if module.resolve(call.function) != {call.dotted} or call.is_partial:
                continue
            if not module.is_compatibility_code(call.node):
                message = "a layout with a sharding is called Format since JAX 0.7.0, and Layout the layout alone"
                yield self.finding(call.node, message, reason="rename both at once; Format is there since JAX 0.6.2")

    def _options(self, module: Module) -> Iterator[Finding]:
        for call in module.calls_to("jax.config.update"):
            option = call.value("name", 0)
            if (
                isinstance(option, ast.Constant)
                and option.value in OPTIONS
                and not module.is_compatibility_code(call.node)
            ):
                message = f"the option {option.value} is gone since JAX {OPTIONS[option.value]}"
                reason = "remove the call if it sets what JAX does now; what it switched off cannot be had any more"
                yield self.finding(call.node, message, reason=reason)

    def _global_arg_shapes(self, module: Module) -> Iterator[Finding]:
        for call in module.calls_to("jax.pmap"):
            argument = call.argument("global_arg_shapes")
            if argument is None or argument.owner is not call.node or module.is_compatibility_code(call.node):
                continue
            message = "the argument global_arg_shapes= of jax.pmap is gone since JAX 0.9.1"
            if isinstance(argument.value, ast.Constant) and argument.value.value is None:
                edits = (RemoveArgument(Range.of(call.node), "global_arg_shapes"),)
                yield self.finding(argument.value, message, fix=Fix(edits, title="remove it, for it says nothing"))
            else:
                yield self.finding(
                    argument.value, message, reason=f"it only worked with sharded_jit; see {GUIDES['pmap']}"
                )


@cache
def _entry(dotted: str) -> Removed | None:
    """The entry for a name; None where it is there still, or moved and of ``renames``' concern."""
    parts = dotted.split(".")
    if parts[0] != "jax" or any(".".join(parts[:count]) in _moved() for count in range(2, len(parts) + 1)):
        return None
    return next((entry for entry in REMOVED if entry.covers(dotted)), None)


@cache
def _moved() -> frozenset[str]:
    """The names that ``renames.toml`` repairs, and all that hangs on them."""
    import tomllib

    data = tomllib.loads((files(__package__) / "renames.toml").read_text("utf-8"))
    return frozenset(row["old"] for row in data["name"])
