"""Writes ``shardfix/semantics/jax_api.toml`` from installed JAX versions.

    python scripts/generate_jax_api.py /opt/venvs/*/bin/python

Each interpreter given is run on this file with ``--probe`` and reports, for the JAX it has, which public callables take
a sharding, a spec, a mesh or a device and where, and how the functions that shardfix binds arguments for name their
parameters. The newest JAX among them decides positions; ``since`` is the oldest one that has the parameter. What a
callable does with a NamedSharding outside any mesh context is measured by calling it, on the newest JAX.

``--probe`` runs on every Python that a JAX supports, so this file keeps to the standard library.
"""

from __future__ import annotations

import importlib
import inspect
import json
import os
import pathlib
import subprocess
import sys
import warnings

TABLE = pathlib.Path(__file__).parents[1] / "shardfix" / "semantics" / "jax_api.toml"

MODULES = """
jax jax.numpy jax.numpy.fft jax.numpy.linalg jax.lax jax.lax.linalg jax.nn jax.nn.initializers jax.random jax.ops
jax.scipy.special jax.scipy.linalg jax.scipy.signal jax.scipy.stats jax.sharding jax.debug jax.dlpack jax.experimental
jax.experimental.layout jax.experimental.pjit jax.experimental.shard jax.experimental.shard_map jax.experimental.sparse
""".split()

# Modules that export their insides; the one name that is an API.
ONLY = {"jax.experimental.shard_map": ["shard_map"], "jax.experimental.pjit": ["pjit"]}

# What each parameter takes; "-tree": a pytree of them, or one for all.
TAKES = {
    "out_sharding": "sharding",
    "in_sharding": "sharding-tree",
    "sharding": "sharding",
    "shardings": "sharding-tree",
    "in_shardings": "sharding-tree",
    "out_shardings": "sharding-tree",
    "device": "device",
    "in_specs": "spec-tree",
    "out_specs": "spec-tree",
    "mesh": "mesh",
    "spec": "spec",
}
TAKES_IN = {
    ("jax.sharding.auto_axes", "out_sharding"): "sharding-tree",
    ("jax.experimental.shard.auto_axes", "out_sharding"): "sharding-tree",
    ("jax.device_put", "device"): "device-tree",
}

# C++ classes do not say their parameters; tests call them in each of these ways.
KNOWN_SIGNATURES = {
    "jax.sharding.NamedSharding": ("mesh spec *", "memory_kind"),
    "jax.NamedSharding": ("mesh spec *", "memory_kind"),
    "jax.sharding.PartitionSpec": ("*partitions *", "unreduced reduced"),
    "jax.P": ("*partitions *", "unreduced reduced"),
}

BOUND = """
jax.shard_map jax.experimental.shard_map.shard_map jax.smap jax.jit jax.experimental.pjit.pjit jax.pmap
jax.make_mesh jax.sharding.Mesh jax.sharding.AbstractMesh jax.sharding.NamedSharding jax.NamedSharding
jax.sharding.PartitionSpec jax.P jax.ShapeDtypeStruct
jax.set_mesh jax.sharding.set_mesh jax.sharding.use_mesh jax.sharding.use_abstract_mesh jax.use_abstract_mesh
jax.device_put jax.lax.with_sharding_constraint jax.reshard jax.sharding.reshard jax.experimental.shard.reshard
jax.sharding.auto_axes jax.sharding.explicit_axes jax.experimental.shard.auto_axes
jax.experimental.shard.explicit_axes jax.make_array_from_callback jax.experimental.mesh_utils.create_device_mesh
jax.lax.pcast jax.lax.pvary jax.lax.psum jax.lax.pmean jax.lax.pmax jax.lax.pmin jax.lax.all_gather
jax.lax.all_gather_invariant jax.lax.all_to_all jax.lax.psum_scatter jax.lax.ppermute jax.lax.pshuffle
jax.lax.pswapaxes jax.lax.pbroadcast jax.lax.axis_index jax.lax.axis_size jax.lax.ragged_all_to_all
jax.lax.scan jax.lax.cond jax.lax.switch jax.lax.while_loop jax.lax.fori_loop jax.lax.map jax.lax.associative_scan
jax.vmap jax.grad jax.value_and_grad jax.jacfwd jax.jacrev jax.jacobian jax.hessian jax.jvp jax.vjp jax.linearize
jax.checkpoint jax.remat jax.ad_checkpoint.checkpoint jax.custom_jvp jax.custom_vjp jax.named_call jax.eval_shape
jax.tree.map jax.tree_util.tree_map jax.tree_map functools.partial
""".split()


# ---------------------------------------------------------------------------------------------------------- the probe


def find(dotted):
    """The object of that name; AttributeError or ImportError where this JAX has none."""
    module, _, name = dotted.rpartition(".")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            return getattr(importlib.import_module(module), name)
        except ModuleNotFoundError:
            return getattr(find(module), name)


def signature(dotted, value):
    """``[(name, kind)]`` of the public parameters, or None where Python cannot tell."""
    if dotted in KNOWN_SIGNATURES:
        positional, keywords = KNOWN_SIGNATURES[dotted]
        names = [(name, "positional") for name in positional.split() if not name.startswith("*")]
        names += [(name[1:], "variadic") for name in positional.split() if name.startswith("*") and name != "*"]
        return names + [(name, "keyword") for name in keywords.split()]
    try:
        parameters = inspect.signature(value).parameters.values()
    except (TypeError, ValueError):
        return None
    kinds = {
        inspect.Parameter.VAR_POSITIONAL: "variadic",
        inspect.Parameter.VAR_KEYWORD: "keywords",
        inspect.Parameter.KEYWORD_ONLY: "keyword",
    }
    return [(p.name, kinds.get(p.kind, "positional")) for p in parameters if not p.name.startswith("_")]


def public_callables():
    """``(dotted name, object, whether it is a method)`` of all that is looked at."""
    import jax

    for module_name in MODULES:
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                module = importlib.import_module(module_name)
        except ImportError:
            continue
        for name in ONLY.get(module_name) or sorted(set(dir(module)) | set(getattr(module, "_deprecations", ()))):
            if name.startswith("_") or name in ("Array", "ndarray"):
                continue
            try:
                value = find(f"{module_name}.{name}")
            except (AttributeError, ImportError):
                continue
            if callable(value):
                yield f"{module_name}.{name}", value, False
    array = type(jax.numpy.zeros(2))
    for name in sorted(dir(array)):
        if not name.startswith("_") and callable(getattr(array, name)):
            yield f"jax.Array.{name}", getattr(array, name), True
    update = type(jax.numpy.zeros(2).at[0])
    for name in sorted(dir(update)):
        if not name.startswith("_") and callable(getattr(update, name)):
            yield f"jax.Array.at[...].{name}", getattr(update, name), True


def initializer_factories():
    import jax

    module = jax.nn.initializers
    for name in sorted(dir(module)):
        factory = getattr(module, name)
        if name.startswith("_") or not callable(factory):
            continue
        try:
            needed = [p for p in inspect.signature(factory).parameters.values() if p.default is p.empty]
        except (TypeError, ValueError):
            continue
        arguments = {"value": 1.0, "scale": 1.0, "mode": "fan_in", "distribution": "normal"}
        if all(p.name in arguments for p in needed):
            yield f"jax.nn.initializers.{name}()", factory(**{p.name: arguments[p.name] for p in needed})


def sharding_parameters():
    found = {}
    everything = list(public_callables()) + [(name, value, False) for name, value in initializer_factories()]
    for dotted, value, method in everything:
        names = signature(dotted, value)
        if names is None:
            continue
        if method:
            names = names[1:]
        rows = {}
        for index, (name, kind) in enumerate(names):
            if name in TAKES and (name != "spec" or dotted.endswith("NamedSharding")):
                rows[name] = {"position": index if kind == "positional" else None}
        if rows:
            found[dotted] = rows
    return found


def examples():
    """A valid call of each callable that takes a sharding, without it: ``(dotted) -> (function, args, kwargs)``."""
    import jax
    import jax.numpy as jnp
    import numpy as np

    key = jax.random.PRNGKey(0)
    x = jnp.arange(8.0)
    m = jnp.ones((8, 8))
    ids = jnp.arange(8)
    ragged = jax.lax.RaggedDotDimensionNumbers((((1,), (1,)), ((), ())), (0,), (0,))
    one_by_one = (((1,), (0,)), ((), ()))
    calls = {
        "jax.lax.broadcast": (x, (8,)),
        "jax.lax.broadcast_in_dim": (x, (8, 8), (0,)),
        "jax.lax.broadcasted_iota": (jnp.float32, (8, 8), 0),
        "jax.lax.conv_general_dilated": (jnp.ones((8, 1, 8)), jnp.ones((1, 1, 1)), (1,), "VALID"),
        "jax.lax.dot": (m, m),
        "jax.lax.dot_general": (m, m, one_by_one),
        "jax.lax.empty": ((8, 8), jnp.float32),
        "jax.lax.ragged_dot": (m, jnp.ones((1, 8, 8)), jnp.array([8])),
        "jax.lax.ragged_dot_general": (m, jnp.ones((1, 8, 8)), jnp.array([8]), ragged),
        "jax.lax.reduce": (m, 0.0, jax.lax.add, (1,)),
        "jax.lax.reduce_max": (m, (1,)),
        "jax.lax.reduce_min": (m, (1,)),
        "jax.lax.reduce_sum": (m, (1,)),
        "jax.lax.reshape": (m, (8, 8)),
        "jax.lax.rng_bit_generator": (jnp.zeros(4, jnp.uint32), (8, 8)),
        "jax.lax.full": ((8, 8), 1.0),
        "jax.lax.full_like": (m, 1.0),
        "jax.lax.with_sharding_constraint": (m,),
        "jax.nn.initializers.ones": (key, (8, 8)),
        "jax.nn.initializers.zeros": (key, (8, 8)),
        "jax.nn.one_hot": (ids, 8),
        "jax.numpy.arange": (8,),
        "jax.numpy.array": (m,),
        "jax.numpy.asarray": (m,),
        "jax.numpy.astype": (m, jnp.int32),
        "jax.numpy.bincount": (ids,),
        "jax.numpy.broadcast_to": (x, (8, 8)),
        "jax.numpy.dot": (m, m),
        "jax.numpy.einsum": ("ij,jk->ik", m, m),
        "jax.numpy.empty": ((8, 8),),
        "jax.numpy.empty_like": (m,),
        "jax.numpy.eye": (8,),
        "jax.numpy.full": ((8, 8), 1.0),
        "jax.numpy.full_like": (m, 1.0),
        "jax.numpy.histogram": (x, 7),
        "jax.numpy.linalg.tensordot": (m, m),
        "jax.numpy.linspace": (0.0, 1.0, 8),
        "jax.numpy.matmul": (m, m),
        "jax.numpy.ones": ((8, 8),),
        "jax.numpy.ones_like": (m,),
        "jax.numpy.percentile": (m, 50.0, 0),
        "jax.numpy.ravel": (m,),
        "jax.numpy.repeat": (x, 8),
        "jax.numpy.reshape": (m, (8, 8)),
        "jax.numpy.tensordot": (m, m, 1),
        "jax.numpy.zeros": ((8, 8),),
        "jax.numpy.zeros_like": (m,),
        "jax.numpy.fft.fftfreq": (8,),
        "jax.numpy.fft.rfftfreq": (14,),
        "jax.random.ball": (key, 8, 2.0, (8,)),
        "jax.random.permutation": (key, m),
        "jax.random.multivariate_normal": (key, x, jnp.eye(8)),
        "jax.random.categorical": (key, m),
        "jax.random.dirichlet": (key, x + 1, (8,)),
        "jax.random.orthogonal": (key, 8),
        "jax.Array.astype": (m, jnp.int32),
        "jax.Array.flatten": (m,),
        "jax.Array.ravel": (m,),
        "jax.Array.repeat": (x, 8),
        "jax.Array.reshape": (m, (8, 8)),
        "jax.Array.to_device": (m,),
        "jax.Array.at[...].get": (m.at[ids],),
        "jax.ShapeDtypeStruct": ((8, 8), jnp.float32),
        "jax.device_put": (m,),
        "jax.reshard": (m,),
        "jax.sharding.reshard": (m,),
        "jax.jit": (lambda v: v,),
        "jax.experimental.pjit.pjit": (lambda v: v,),
        "jax.sharding.auto_axes": (lambda v: v,),
        "jax.make_array_from_callback": ((8, 8),),
    }
    by_parameter = {
        "key": key, "shape": (8, 8), "a": 2.0, "b": 2.0, "lam": 2.0, "p": 0.5, "df": 2.0, "dfnum": 2.0, "dfden": 2.0,
        "minval": 0, "maxval": 4, "lower": -1.0, "upper": 1.0, "left": 0.0, "mode": 0.5, "right": 1.0, "mean": 1.0,
        "loc": 0.0, "scale": 1.0, "data": x, "segment_ids": ids, "num_segments": 8, "operand": m, "concentration": 1.0,
    }  # fmt: skip

    def example(dotted):
        if dotted.endswith("()"):
            shape = (8, 8, 8) if "delta" in dotted else (8, 8)
            return dict(initializer_factories())[dotted], (key, shape), {}
        if dotted.startswith("jax.Array.at[...]."):
            name = dotted.rpartition(".")[2]
            return getattr(type(x.at[0]), name), (m.at[ids],) if name == "get" else (m.at[ids], 1.0), {}
        value = getattr(type(x), dotted[10:]) if dotted.startswith("jax.Array.") else find(dotted)
        if dotted in calls:
            return value, calls[dotted], {}
        if not dotted.startswith(("jax.random.", "jax.ops.")):
            return None
        names = [name for name, _ in signature(dotted, value)]
        if dotted == "jax.random.poisson":
            by_parameter["key"] = jax.random.key(0, impl="threefry2x32")
        fixed = {name: by_parameter[name] for name in names if name in by_parameter and name != "mode"}
        if dotted == "jax.random.triangular":
            fixed["mode"] = 0.5
        return value, (), fixed

    devices = np.array(jax.devices())
    kinds = jax.sharding.AxisType
    meshes = {
        "unmeshed": jax.sharding.Mesh(devices, ("x",), axis_types=(kinds.Explicit,)),
        "unmeshed_auto": jax.sharding.Mesh(devices, ("x",), axis_types=(kinds.Auto,)),
    }
    return example, {
        name: jax.sharding.NamedSharding(mesh, jax.sharding.PartitionSpec("x")) for name, mesh in meshes.items()
    }


NEEDS_SHARDING = (
    "jax.make_array_from_callback jax.lax.with_sharding_constraint jax.Array.to_device jax.reshard jax.sharding.reshard"
    " jax.sharding.auto_axes"
).split()


def outside_mesh_context(found):
    """Adds, to each parameter that takes a sharding, what the callable does with one outside any mesh context."""
    import jax

    example, shardings = examples()
    for dotted, rows in found.items():
        for name, row in rows.items():
            if name in ("mesh", "in_specs", "out_specs", "spec", "in_sharding"):
                continue
            call = example(dotted)
            if call is None:
                continue
            function, args, kwargs = call
            if dotted not in NEEDS_SHARDING:
                function(*args, **kwargs)  # an example that fails by itself would say nothing
            for column, sharding in shardings.items():
                try:
                    if dotted == "jax.make_array_from_callback":
                        result = function((8, 8), sharding, lambda index: jax.numpy.ones((8, 8))[index])
                    else:
                        result = function(*args, **kwargs, **{name: sharding})
                    if dotted.endswith(("jit", "auto_axes")):
                        result = result(jax.numpy.ones((8, 8)))
                except Exception:
                    row[column] = "raises"
                    continue
                result = jax.tree_util.tree_leaves(result)[-1]
                row[column] = "used" if len(result.sharding.device_set) == 8 else "ignored"


def probe(newest):
    os.environ.setdefault("JAX_PLATFORMS", "cpu")
    os.environ["XLA_FLAGS"] = "--xla_force_host_platform_device_count=8"
    warnings.simplefilter("ignore")
    import jax

    found = sharding_parameters()
    if newest:
        outside_mesh_context(found)
    signatures = {}
    for dotted in BOUND:
        try:
            value = find(dotted)
        except (AttributeError, ImportError):
            continue
        signatures[dotted] = signature(dotted, value)
    signatures = {dotted: names for dotted, names in signatures.items() if names is not None}
    return {"version": jax.__version__, "sharding": found, "signatures": signatures}


# ------------------------------------------------------------------------------------------------------ the merge


def version_key(version):
    return tuple(int(part) for part in version.split(".")[:3])


def merged_signature(reports):
    """One line for all versions: newest names in order; ``new|old`` where a position was renamed; ``*`` before keywords.

    A parameter that an older JAX took by position stays before the ``*``: the order is what binds arguments.
    """
    newest = reports[-1]
    positional = [name for name, kind in newest if kind == "positional"]
    variadic = [name for name, kind in newest if kind == "variadic"]
    others = [name for name, kind in newest if kind == "keyword"]
    aliases = {}
    for older in reversed(reports[:-1]):
        for index, (name, kind) in enumerate(older):
            if kind in ("variadic", "keywords"):
                continue
            if name in positional or any(name in names for names in aliases.values()):
                continue
            if kind == "keyword":
                if name not in others:
                    others.append(name)
            elif index < len(positional) and positional[index] not in [n for n, _ in older]:
                aliases.setdefault(positional[index], []).append(name)
            elif index == len(positional) and not variadic:
                positional.append(name)
                others = [other for other in others if other != name]
            elif name not in others:
                others.append(name)
    words = ["|".join([name, *aliases.get(name, [])]) for name in positional]
    words += [f"*{name}" for name in variadic]
    if others:
        words += ["*", *others]
    return " ".join(words)


def merge(reports):
    reports = sorted(reports, key=lambda report: version_key(report["version"]))
    newest = reports[-1]["version"]
    rows = {}
    for report in reports:
        for dotted, found in report["sharding"].items():
            for name, row in found.items():
                entry = rows.setdefault(name, {}).setdefault(dotted, {"since": report["version"]})
                entry.update(row, last=report["version"])
    for name, entries in rows.items():
        for dotted, entry in entries.items():
            # An array, from no array: whatever has neither an operand nor a reference array.
            entry["creates"] = name == "out_sharding" and creates(dotted)
            device = rows.get("device", {}).get(dotted)
            entry["device"] = name == "out_sharding" and device is not None
    signatures = {}
    for dotted in BOUND:
        known = [report["signatures"][dotted] for report in reports if dotted in report["signatures"]]
        if known:
            signatures[dotted] = merged_signature(known)
    return [report["version"] for report in reports], newest, rows, signatures


CREATORS = {
    "jax.numpy": {"zeros", "ones", "full", "empty", "arange", "eye", "array", "asarray", "linspace"},
    "jax.lax": {"empty", "broadcasted_iota", "full", "rng_bit_generator"},
}


def creates(dotted):
    module, _, name = dotted.rpartition(".")
    if module == "jax.random":
        return name not in ("permutation", "categorical", "multivariate_normal")
    return module == "jax.nn.initializers" or name in CREATORS.get(module, ())


def write(versions, newest, rows, signatures):
    lines = [
        "# Written by scripts/generate_jax_api.py from JAX " + ", ".join(versions) + ". Do not edit.",
        "#",
        "# One table a parameter, one line a callable. position: index in the call as the user writes it (methods without",
        "# self); none: keyword-only. since: oldest of these versions that has it; until: the last, where it is gone.",
        "# takes: where it differs from [takes]. creates: makes an array from no array. device: has device= with the same",
        "# meaning. unmeshed / unmeshed_auto: what becomes of a NamedSharding outside any mesh context, its mesh with",
        "# Explicit / Auto axes: used, ignored or raises (newest version).",
        "",
        "[takes]",
    ]
    lines += [f'{name} = "{kind}"' for name, kind in TAKES.items()]
    for name in TAKES:
        lines += ["", f"[parameter.{name}]"]
        for dotted, entry in sorted(rows.get(name, {}).items()):
            fields = []
            if entry["position"] is not None:
                fields.append(f"position = {entry['position']}")
            fields.append(f'since = "{entry["since"]}"')
            if entry["last"] != newest:
                fields.append(f'until = "{entry["last"]}"')
            if (dotted, name) in TAKES_IN:
                fields.append(f'takes = "{TAKES_IN[dotted, name]}"')
            fields += [f"{flag} = true" for flag in ("creates", "device") if entry[flag]]
            fields += [f'{key} = "{entry[key]}"' for key in ("unmeshed", "unmeshed_auto") if key in entry]
            lines.append(f'"{dotted}" = {{ {", ".join(fields)} }}')
    lines += [
        "",
        "# Parameters in order. new|old: renamed; *name: takes any number of positional ones; after * only by keyword.",
        "[signatures]",
    ]
    lines += [f'"{dotted}" = "{text}"' for dotted, text in signatures.items()]
    TABLE.write_text("\n".join(lines) + "\n", encoding="utf-8")


def main(arguments):
    if arguments[:1] == ["--probe"]:
        print(json.dumps(probe(newest="--newest" in arguments)))
        return
    if not arguments:
        sys.exit(__doc__)

    def run(python, *flags):
        command = [python, __file__, "--probe", *flags]
        return json.loads(
            subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout.splitlines()[-1]
        )

    reports = {python: run(python) for python in arguments}
    newest = max(reports, key=lambda python: version_key(reports[python]["version"]))
    reports[newest] = run(newest, "--newest")
    unique = {report["version"]: report for report in reports.values()}
    write(*merge(list(unique.values())))
    print(f"{TABLE}: {TABLE.stat().st_size} bytes")


if __name__ == "__main__":
    main(sys.argv[1:])
