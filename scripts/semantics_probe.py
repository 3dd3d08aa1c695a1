"""Runs JAX's functions on abstract arrays and says what comes out; the half of ``generate_semantics.py`` that needs JAX."""

from __future__ import annotations

import functools
import importlib
import inspect
import json
import os
import random
import warnings

from semantics_calls import PYTREES, SPECIAL, A, calls_of

MODULES = """
jax.numpy jax.numpy.linalg jax.numpy.fft jax.lax jax.lax.linalg jax.nn jax.nn.initializers jax.random jax.ops jax.image
jax.scipy.special jax.scipy.linalg jax.scipy.signal jax.scipy.stats
""".split()
# Functions of functions, of files, of types: the interpreter or nobody knows them.
SKIPPED = set(
    """
    jax.lax.scan jax.lax.cond jax.lax.switch jax.lax.while_loop jax.lax.fori_loop jax.lax.map jax.lax.associative_scan
    jax.lax.custom_root jax.lax.custom_linear_solve jax.lax.composite jax.lax.platform_dependent jax.lax.after_all
    jax.lax.create_token jax.lax.with_sharding_constraint jax.numpy.load jax.numpy.save jax.numpy.savez
    jax.numpy.fromfile jax.numpy.fromiter jax.numpy.frombuffer jax.numpy.fromstring jax.numpy.from_dlpack
    jax.numpy.vectorize jax.numpy.frompyfunc jax.numpy.ufunc jax.numpy.apply_along_axis jax.numpy.apply_over_axes
    jax.numpy.fromfunction jax.numpy.piecewise jax.numpy.printoptions jax.numpy.set_printoptions
    jax.numpy.get_printoptions jax.numpy.array_repr jax.numpy.array_str jax.numpy.array2string jax.numpy.dtype
    jax.numpy.finfo jax.numpy.iinfo jax.numpy.einsum_path jax.numpy.isdtype jax.numpy.issubdtype jax.numpy.can_cast
    jax.lax.index_take jax.lax.dtype jax.lax.scaled_dot jax.random.Key jax.random.key_impl jax.lax.DotDimensionNumbers
    jax.numpy.result_type jax.numpy.promote_types jax.numpy.ndarray jax.numpy.object_ jax.numpy.ComplexWarning
    """.split()
)


def public_callables():
    import jax

    names = {}
    for module_name in MODULES:
        module = importlib.import_module(module_name)
        members = [f"{module_name}.{name}" for name in sorted(dir(module))]
        if module_name == "jax.scipy.stats":
            for name in sorted(dir(module)):
                if inspect.ismodule(getattr(module, name)) and not name.startswith("_"):
                    members += [f"{module_name}.{name}.{inner}" for inner in sorted(dir(getattr(module, name)))]
        for dotted in members:
            name = dotted.rpartition(".")[2]
            if name.startswith("_") or name.endswith("_p"):
                continue
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                try:
                    value = functools.reduce(getattr, dotted.split(".")[1:], jax)
                except AttributeError:
                    continue
            if not callable(value):
                continue
            if module_name == "jax.nn.initializers" and name not in ("ones", "zeros"):
                arguments = {"value": 1.0, "scale": 1.0, "mode": "fan_in", "distribution": "normal"}
                try:
                    needed = [p for p in inspect.signature(value).parameters.values() if p.default is p.empty]
                    value = value(**{p.name: arguments[p.name] for p in needed})
                except (TypeError, ValueError, KeyError):
                    continue
                dotted += "()"
            names[dotted] = value
    array = type(jax.numpy.zeros(2))
    for name in sorted(dir(array)):
        if not name.startswith("_") and callable(getattr(array, name)):
            names[f"jax.Array.{name}"] = getattr(array, name)
    for dotted in PYTREES.split():
        names[dotted] = functools.reduce(getattr, dotted.split(".")[1:], jax)
    return names


def parameters_of(dotted, value):
    """``[(name, kind, default)]``: default is None for required ones, else its text in the table."""
    if type(value).__name__ == "ufunc" and hasattr(value, "nin"):
        inner = list(inspect.signature(value.__wrapped__).parameters) if hasattr(value, "__wrapped__") else None
        names = inner if inner and len(inner) >= value.nin else ["x", "y"]
        return [(name, "positional", None) for name in names[: value.nin]]
    try:
        signature = inspect.signature(value)
    except (TypeError, ValueError):
        return None
    found = []
    for p in signature.parameters.values():
        if p.name.startswith("_"):
            continue
        if p.kind is p.VAR_KEYWORD:
            continue
        kind = {p.VAR_POSITIONAL: "variadic", p.KEYWORD_ONLY: "keyword"}.get(p.kind, "positional")
        default = None if p.default is p.empty else literal(p.default)
        found.append((p.name, kind, default))
    return found


def literal(default):
    """A default as it stands in the table: a plain literal without blanks, else nothing."""
    if default is None or isinstance(default, (bool, int, float, str)):
        text = repr(default)
    elif isinstance(default, tuple) and all(isinstance(item, int) for item in default):
        text = repr(default).replace(" ", "")
    else:
        return ""
    return "" if " " in text or "nan" in text or "inf" in text or default is None else text


class Builder:
    """Makes real arguments from the JSON form; arrays are numbered, to be filled in later."""

    def __init__(self, size, kind):
        self.size = size
        self.kind = kind
        self.specs = []

    def build(self, form):
        import jax
        import jax.numpy as jnp

        if not isinstance(form, dict):
            return form
        if "T" in form:
            return tuple(map(self.build, form["T"]))
        if "L" in form:
            return list(map(self.build, form["L"]))
        if "F" in form:
            return functools.reduce(getattr, form["F"].split(".")[1:], jax)
        if "K" in form:
            spec = jax.eval_shape(lambda: jax.random.PRNGKey(0) if form["K"] else jax.random.key(0))
        else:
            kind = form.get("t", self.kind)
            types = {
                "f": jnp.float32,
                "i": jnp.int32,
                "b": jnp.bool_,
                "c": jnp.complex64,
                "k": jnp.uint32,
                "3": jnp.float32,
            }
            size = 3 if kind == "3" else 2 if kind == "k" else self.size
            spec = jax.ShapeDtypeStruct((size,) * form["A"], types[kind])
        self.specs.append(spec)
        return Slot(len(self.specs) - 1)


class Slot:
    def __init__(self, number):
        self.number = number


def fill(value, arrays):
    if isinstance(value, Slot):
        return arrays[value.number]
    if isinstance(value, (tuple, list)):
        return type(value)(fill(item, arrays) for item in value)
    return value


def slots(value):
    if isinstance(value, Slot):
        return [value.number]
    if isinstance(value, (tuple, list)):
        return [number for item in value for number in slots(item)]
    return []


def described(value):
    """A result in the JSON form; ``{"N": 0}`` is a Python number, ``{"U": type}`` anything else."""
    import jax
    import numpy as np

    if isinstance(value, (jax.Array, np.ndarray, np.generic)):
        return A(value.ndim)
    if isinstance(value, (bool, int, float, complex)):
        return {"N": 0}
    if value is None:
        return None
    if isinstance(value, tuple):
        return {"T": [described(item) for item in value]}
    if isinstance(value, list):
        return {"L": [described(item) for item in value]}
    return {"U": type(value).__name__}


def run(function, args, kwargs, size, kind):
    """The result of one abstract call in the JSON form; an exception where JAX rejects it."""
    import jax

    builder = Builder(size, kind)
    real_args = [builder.build(form) for form in args]
    real_kwargs = {name: builder.build(form) for name, form in kwargs.items()}
    results = []

    def traced(arrays):
        result = function(*[fill(v, arrays) for v in real_args], **{k: fill(v, arrays) for k, v in real_kwargs.items()})
        results.append(described(result))
        return 0

    jax.eval_shape(traced, builder.specs)
    return results[0]


def run_numpy(function, args, kwargs, kind):
    import numpy as np

    builder = Builder(2, kind)
    real_args = [builder.build(form) for form in args]
    real_kwargs = {name: builder.build(form) for name, form in kwargs.items()}
    arrays = [np.ones(spec.shape, spec.dtype) for spec in builder.specs]
    return described(
        function(*[fill(v, arrays) for v in real_args], **{k: fill(v, arrays) for k, v in real_kwargs.items()})
    )


class Seen(Exception):
    pass


def carried(function, parameters, args, kwargs, size, kind):
    """Which parameters hand on the mesh axis that they vary over: ``{parameter: "all" | "some" | "none"}``."""
    import jax
    from jax.sharding import PartitionSpec as P

    builder = Builder(size, kind)
    real_args = [builder.build(form) for form in args]
    real_kwargs = {name: builder.build(form) for name, form in kwargs.items()}
    if not builder.specs:
        return {}
    positional = [name for name, k, _ in parameters if k == "positional"]
    variadic = [name for name, k, _ in parameters if k == "variadic"]
    named = {}
    for number, value in enumerate(real_args):
        name = positional[number] if number < len(positional) else (variadic or ["?"])[0]
        named.setdefault(name, []).append(slots(value))
    for name, value in real_kwargs.items():
        named.setdefault(name, []).append(slots(value))
    mesh = jax.sharding.AbstractMesh((8,), ("i",), axis_types=(jax.sharding.AxisType.Auto,))
    found = {}
    for name, groups in named.items():
        outcomes = []
        for numbers in groups:
            if not numbers:
                continue
            seen = []

            def body(arrays, numbers=numbers, seen=seen):
                arrays = [
                    jax.lax.pcast(a, "i", to="varying") if number in numbers else a for number, a in enumerate(arrays)
                ]
                result = function(
                    *[fill(v, arrays) for v in real_args], **{k: fill(v, arrays) for k, v in real_kwargs.items()}
                )
                leaves = [leaf for leaf in jax.tree_util.tree_leaves(result) if isinstance(leaf, jax.Array)]
                seen.extend("i" in jax.typeof(leaf).manual_axis_type.varying for leaf in leaves)
                raise Seen

            mapped = jax.shard_map(body, mesh=mesh, in_specs=P(), out_specs=P())
            try:
                jax.eval_shape(mapped, builder.specs)
            except Seen:
                if seen:
                    outcomes.append("all" if all(seen) else "some" if any(seen) else "none")
            except Exception:  # JAX rejects the mixture
                continue
        if outcomes:
            found[name] = outcomes[0] if len(set(outcomes)) == 1 else "some"
    return found


def probe():
    os.environ.setdefault("JAX_PLATFORMS", "cpu")
    os.environ["XLA_FLAGS"] = "--xla_force_host_platform_device_count=8"
    warnings.simplefilter("ignore")
    import jax
    import numpy as np

    report = {}
    only = os.environ.get("ONLY", "").split()
    for dotted, function in public_callables().items():
        if (
            dotted in SKIPPED
            or (only and dotted not in only)
            or (inspect.isclass(function) and not hasattr(function, "dtype"))
        ):
            continue
        parameters = [("x", "positional", None)] if inspect.isclass(function) else parameters_of(dotted, function)
        if type(function).__name__ == "_ScalarMeta":
            parameters = [("x", "positional", None)]
        if parameters is None:
            report[dotted] = {"parameters": [], "calls": [], "carried": {}}
            continue
        calls = list({json.dumps(c): c for c in map(list, calls_of(dotted, parameters, dotted))}.values())
        kept = []
        for kind in ("f", "i", "b", "c", "3"):
            for number, (args, kwargs) in enumerate(calls):
                for size in (
                    (2, 1) if "squeeze" in dotted else (2, 3) if number % 5 == 0 and dotted not in SPECIAL else (2,)
                ):
                    try:
                        kept.append({"args": args, "kwargs": kwargs, "kind": kind, "size": size,
                                     "result": run(function, args, kwargs, size, kind)})  # fmt: skip
                    except Exception:
                        continue
            if kept:
                break
        hands_on = {}
        with_arrays = [
            c for c in kept if '"A"' in json.dumps([c["args"], c["kwargs"]]) or '"K"' in json.dumps(c["args"])
        ]
        chosen = (
            sorted(with_arrays, key=lambda c: -json.dumps([c["args"], c["kwargs"]]).count('"A"'))[:2] + with_arrays[-2:]
        )
        chosen += random.Random(dotted).sample(with_arrays, min(6, len(with_arrays)))
        for call in chosen:
            if '"A"' not in json.dumps(call["result"]):
                continue
            for name, outcome in carried(
                function, parameters, call["args"], call["kwargs"], call["size"], call["kind"]
            ).items():
                hands_on[name] = outcome if hands_on.get(name, outcome) == outcome else "some"
        entry = {"parameters": parameters, "calls": kept, "carried": hands_on}
        twin = getattr(np, dotted.removeprefix("jax.numpy."), None) if dotted.startswith("jax.numpy.") else None
        if dotted.count(".") == 3 and dotted.startswith(("jax.numpy.linalg.", "jax.numpy.fft.")):
            twin = getattr(getattr(np, dotted.split(".")[2]), dotted.split(".")[3], None)
        if callable(twin):
            entry["numpy"] = []
            for call in kept[:60]:
                try:
                    result = run_numpy(twin, call["args"], call["kwargs"], call["kind"])
                except Exception:
                    continue
                entry["numpy"].append({**call, "result": result})
        report[dotted] = entry
    return {"version": jax.__version__, "callables": report}


if __name__ == "__main__":
    print(json.dumps(probe()))
