"""Writes ``shardfix/semantics/jax_semantics.toml`` from installed JAX versions.

    python scripts/generate_semantics.py /opt/venvs/py311/bin/python /opt/venvs/py313/bin/python

Each interpreter given is run on this file with ``--probe``: it calls every public callable of the modules below on
abstract arrays of ranks 0 to 4 and on the argument forms that matter (``jax.eval_shape``), and under ``jax.shard_map``
to see whether its result varies over what its arguments vary over. Then each callable gets the first rule of
:mod:`shardfix.semantics.rules.library` that agrees with all that was seen in all versions. What no rule fits is listed
as unknown.

An argument is written as JSON: ``{"A": rank}`` an array (``"t"``: its type), ``{"K": rank}`` a random key, ``{"T": []}``
a tuple, ``{"L": []}`` a list, ``{"F": name}`` an object of JAX, and numbers, strings and None as themselves.
"""

from __future__ import annotations

import functools
import importlib
import inspect
import itertools
import json
import os
import pathlib
import random
import subprocess
import sys
import warnings

ROOT = pathlib.Path(__file__).parents[1]
TABLE = ROOT / "shardfix" / "semantics" / "jax_semantics.toml"

MODULES = """
jax.numpy jax.numpy.linalg jax.numpy.fft jax.lax jax.lax.linalg jax.nn jax.nn.initializers jax.random jax.ops jax.image
jax.scipy.special jax.scipy.linalg jax.scipy.signal jax.scipy.stats
""".split()
PYTREES = "jax.lax.stop_gradient jax.lax.optimization_barrier jax.block_until_ready"
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


# ------------------------------------------------------------------------------------------------ argument pools


def A(rank, t=None):
    return {"A": rank} if t is None else {"A": rank, "t": t}


def T(*items):
    return {"T": list(items)}


def L(*items):
    return {"L": list(items)}


ARRAYS = [A(1), A(2), A(0), A(3), A(4), 2.0]
INTS = [A(1, "i"), A(2, "i"), A(0, "i"), A(3, "i"), 1]
SEQUENCES = [L(A(r), A(r)) for r in range(5)] + [T(A(1), A(1), A(1)), L(A(2)), L(1.0, 2.0), L(A(0), 1.0), A(2), A(3)]
SHAPES = [T(), T(2), T(2, 2), T(2, 2, 2), T(2, 2, 2, 2), 4, -1, T(-1), T(2, -1), T(1, -1), L(2, 2), T(4), None]
AXES = [0, -1, 1, None, T(0), T(0, 1), T(), T(-1, -2)]
PAIRS = [
    T(T(T(1), T(0)), T(T(), T())), T(T(T(0), T(0)), T(T(), T())), T(T(T(), T()), T(T(), T())),
    T(T(T(2), T(1)), T(T(0), T(0))), T(T(L(0, 1), L(0, 1)), T(L(), L())), T(T(T(), T()), T(T(0), T(0))),
]  # fmt: skip

POOLS = {
    **dict.fromkeys("axis dim".split(), AXES),
    **dict.fromkeys("axis1 axis2 axisa axisb axisc dimension split_axis spatial_axis reduction_dimension".split(), [0, 1, -1]),
    "axes": [T(0), T(0, 1), T(1, 0), 0, 1, 2, None, T(0, 2, 1), L(1, 0), T()],
    "dimensions": [T(0), T(0, 1), T(1), T(), L(0)],
    "permutation": [T(), T(0), T(1, 0), T(0, 2, 1), T(3, 2, 1, 0)],
    "broadcast_dimensions": [T(), T(0), T(1), T(0, 1)],
    "dimension_numbers": PAIRS,
    **dict.fromkeys("shape new_sizes new_shape shapes".split(), SHAPES),
    "sizes": [T(), T(2), T(1, 1), T(2, 3)],
    "keepdims": [True, False],
    **dict.fromkeys(
        "compute_uv full_matrices permute_l pivoting return_sign return_index return_inverse return_counts retstep"
        " returned sparse eigvals_only full cov independent replace density include_initial is_stable reverse"
        " sorted assume_unique return_indices rowvar invert disp calc_q return_residual hermitian increasing"
        " compute_schur_vectors compute_left_eigenvectors compute_right_eigenvectors copy transpose_kernel"
        " endpoint trim_leading_zeros strip_zeros is_causal left_side left transpose tiled".split(),
        [True, False],
    ),
    "mode": ["reduced", "r", "complete", "raw", "full", "same", "valid", "economic", "constant", "edge", "wrap", "clip"],
    "output": ["real", "complex"],
    "indexing": ["ij", "xy"],
    "ord": [2, 1, "fro", "nuc"],
    "ndmin": [0, 1, 3],
    "reps": [2, T(2), T(1, 2), T(1, 1, 2)],
    "repeats": [2, A(1, "i")],
    "total_repeat_length": [4],
    **dict.fromkeys("k M N d deg start_dimension num_classes num_segments size length decimals minlength kth".split(), [1, 2, 0, A(1, "i")]),
    **dict.fromkeys("shift offset ddof stop_dimension nperseg permutation_size".split(), [1, 0, 2, A(1, "i")]),
    "base": [2.0, A(1)],
    "n": [2, 3, 1, A(0), A(1), A(2)],
    "m": [*ARRAYS, 2],
    "num": [3, T(2, 3), T(2)],
    "rank": [2, 3, 4],
    "ndim": [1, 2, 3],
    **dict.fromkeys("bins".split(), [3, A(1)]),
    "indices_or_sections": [2, 1, L(1), T(1), A(1, "i")],
    "obj": [0, L(0), A(1, "i")],
    "pad_width": [1, T(1, 1), T(T(1, 1), T(0, 0))],
    "padding_config": [L(T(0, 0, 0)), L(T(0, 0, 0), T(1, 1, 0)), L()],
    **dict.fromkeys("source destination".split(), [0, 1, -1, T(0, 1), T(1, 0)]),
    **dict.fromkeys("start stop".split(), [0, 3, 4.0, A(0), A(1), A(2)]),
    **dict.fromkeys("start_index limit_index index".split(), [0, 1, A(0, "i"), A(1, "i")]),
    "slice_size": [1, 2],
    **dict.fromkeys("start_indices limit_indices slice_sizes".split(), [T(), T(1), T(1, 1), L(1, 1, 1), T(0), T(0, 0)]),
    **dict.fromkeys("window_strides strides".split(), [T(1), T(1, 1)]),
    **dict.fromkeys("window_dimensions window_shape filter_shape".split(), [T(1), T(1, 1)]),
    "padding": ["SAME", "VALID"],
    **dict.fromkeys("dtype new_dtype index_dtype".split(), [{"F": "jax.numpy.float32"}, {"F": "jax.numpy.int8"}, {"F": "jax.numpy.int32"}]),
    **dict.fromkeys("exponent_bits mantissa_bits".split(), [5]),
    **dict.fromkeys("arrays operands tup arrs choicelist choices condlist keys_ arys_".split(), SEQUENCES),
    **dict.fromkeys("indices ind idxs segment_ids group_sizes test_elements multi_index".split(), INTS),
    "key": [{"K": 1}, {"K": 0}],
    "seed": [0, A(0, "i")],
    "where": [A(1, "b"), A(2, "b"), True],
    **dict.fromkeys("initial fill_value mean prepend append padding_value".split(), [0.0, A(0), A(1), A(2)]),
    **dict.fromkeys("weights p x y b aweights fweights min max loc scale sigma minval maxval period dx".split(), ARRAYS),
    "func": [{"F": "jax.numpy.sin"}],
    "side": ["left", "right"],
    "s": [T(2), T(2, 2)],
    "method": ["nearest", "linear", "auto", "sort"],
    "algorithm": [None],
    "computation": [{"F": "jax.lax.add"}],
    "init_value": [0.0],
    "UPLO": ["L"],
    "fft_type": ["fft"],
    "fft_lengths": [T(2)],
}  # fmt: skip

# Optional parameters that are known not to change a rank; others that are never seen to work make the result unknown.
HARMLESS = set(
    """
    dtype out precision preferred_element_type out_sharding device sharding order copy where initial indices_are_sorted
    unique_indices promote_integers kind stable descending accuracy algorithm implementation check_finite overwrite_a
    overwrite_b overwrite_c overwrite_input overwrite_data lower upper casting fill_value assume_unique out_dtype norm
    bitorder rcond rtol atol tol symmetrize_input debug trans unit_diagonal assume_a optimize nan_policy side sorter
    method sharding hermitian unroll alpha approximate negative_slope epsilon num_keys is_stable max_iterations eps
    num_segments bucket_size axis_size lapack_driver lwork discont period left right n_iter bias scale impl
    wrap_negative_indices allow_negative_indices mode rounding_method lhs_dilation rhs_dilation feature_group_count
    batch_group_count base_dilation window_dilation equal_nan ulps unique invert decimals kernel nan posinf neginf
    recall_target reduction_input_size_override aggregate_to_topk batch_size use_consistent_padding copy_
    """.split()
) - {"mode"}

# Parameters that these calls need under tracing, and that no rank depends on.
NUMBERS = set(
    "k M N d deg n num kth shift offset start stop step start_index limit_index index permutation_size".split()
)
STRUCTURES = set(
    """
    key func computation init_value init_values padding_config start_indices limit_indices shape_ filter_shape
    window_dimensions base_dilation window_dilation dtype fft_type fft_lengths configs donate indices_or_sections
    precision sections s
    """.split()
)
NEUTRAL = {"size", "length", "num_segments", "total_repeat_length", "mode"}
# What became a tuple in JAX 0.11 and was a list before.
LISTS_ONCE = {"broadcast_each", "atleast_each", "grid"}

# For these the calls below are all that make sense.
ENOUGH = {"jax.lax.collapse", "jax.numpy.block", "jax.numpy.lexsort", "jax.numpy.bincount"}

SPECIAL = {
    "jax.numpy.block": [([L(A(r), A(r))], {}) for r in range(4)]
    + [([L(L(A(r), A(r)), L(A(r), A(r)))], {}) for r in range(4)] + [([A(2)], {}), ([L(L(A(1)), L(A(2)))], {})],
    "jax.numpy.lexsort": [([T(A(r), A(r))], {}) for r in (1, 2, 3)] + [([A(2)], {}), ([A(3)], {})],
    "jax.numpy.bincount": [([A(1, "i")], {"length": 4}), ([A(1, "i")], {"length": 4, "weights": A(1)})],
    "jax.numpy.einsum": [
        ([subscripts, *map(A, ranks)], {})
        for subscripts, ranks in [
            ("ij,jk->ik", (2, 2)), ("ij,jk", (2, 2)), ("ii", (2,)), ("ii->i", (2,)), ("i,i->", (1, 1)), ("i,i", (1, 1)),
            ("...ij,...jk->...ik", (3, 3)), ("...ij,jk->...ik", (4, 2)), ("b h q d, b h k d -> b h q k", (4, 4)),
            ("...i,i", (3, 1)), ("...", (2,)), ("i...->...", (3,)), ("ijk->", (3,)), ("i,j->ij", (1, 1)), ("->", (0,)),
        ]
    ],
    **{
        name: [([A(1)], {}), ([T(A(1), A(2))], {}), ([L(A(0), T(A(3)))], {}), ([A(0)], {}), ([A(2)], {})]
        for name in PYTREES.split()
    },
    "jax.numpy.clip": [([A(a), A(b)], {}) for a in range(3) for b in range(3)]
    + [([A(a), A(b), A(c)], {}) for a in range(3) for b in range(3) for c in range(3)]
    + [([A(a)], {"max": b}) for a in range(3) for b in (A(0), A(1), A(2), 1.0)],
    "jax.lax.collapse": [([A(4), a, b], {}) for a in range(4) for b in range(a + 1, 5)] + [([A(4), a], {}) for a in range(4)],
    **{
        f"jax.ops.segment_{name}": [([A(a), A(b, "i")], {"num_segments": 3}) for a in range(5) for b in range(1, 4)]
        for name in ("sum", "max", "min", "prod")
    },
    "jax.lax.reduce": [
        ([operand, initial, {"F": "jax.lax.add"}, dimensions], {})
        for operand, initial in [(A(1), 0.0), (A(2), 0.0), (A(3), A(0))]
        for dimensions in [T(0), T(), T(0, 1), T(-1)]
    ],
    "jax.lax.conv_general_dilated": [
        ([A(r), A(r), T(*[1] * (r - 2)), padding], {}) for r in (2, 3, 4) for padding in ("SAME", "VALID")
    ],
    "jax.lax.conv": [([A(r), A(r), T(*[1] * (r - 2)), "SAME"], {}) for r in (3, 4)],
    "jax.lax.conv_transpose": [([A(r), A(r), T(*[1] * (r - 2)), "SAME"], {}) for r in (3, 4)],
    "jax.lax.conv_with_general_padding": [
        ([A(r), A(r), T(*[1] * (r - 2)), "VALID", None, None], {}) for r in (3, 4)
    ],
    "jax.lax.ragged_dot": [([A(2), A(3), A(1, "i")], {})],
    "jax.lax.reduce_window": [
        ([A(r), 0.0, {"F": "jax.lax.add"}, T(*[1] * r), T(*[1] * r), "VALID"], {}) for r in (1, 2, 3)
    ],
    "jax.lax.dynamic_slice": [([A(r), T(*[0] * r), T(*[1] * r)], {}) for r in range(5)],
    "jax.lax.slice": [([A(r), T(*[0] * r), T(*[1] * r)], {}) for r in range(5)],
    "jax.lax.dynamic_update_slice": [([A(r), A(r), T(*[0] * r)], {}) for r in range(5)],
    "jax.lax.pad": [([A(r), 0.0, L(*[T(1, 1, 0)] * r)], {}) for r in range(4)],
    "jax.lax.sort": [([A(2)], {}), ([A(1)], {}), ([T(A(1), A(1))], {}), ([T(A(2), A(2), A(2))], {})],
    "jax.lax.select_n": [([A(r, "b"), A(r), A(r)], {}) for r in range(4)] + [([A(0, "b"), A(2), A(2)], {})],
    "jax.lax.select": [([A(r, "b"), A(r), A(r)], {}) for r in range(4)] + [([A(0, "b"), A(2), A(2)], {})],
    "jax.lax.transpose": [([A(r), T(*range(r))], {}) for r in range(5)],
    "jax.lax.expand_dims": [([A(r), d], {}) for r in range(4) for d in (T(0), T(0, 1), T())],
    "jax.nn.dot_product_attention": [
        ([A(r), A(r), A(r)], kwargs)
        for r in (3, 4)
        for kwargs in ({}, {"is_causal": True}, {"scale": 1.0}, {"mask": A(4, "b")}, {"bias": A(4)}, {"bias": A(3)})
    ],
    "jax.numpy.select": [
        ([L(*[A(r, "b")] * n), L(*[A(s)] * n)], {}) for n in (1, 2) for r in range(3) for s in range(3)
    ] + [([L(A(1, "b")), L(A(0))], {"default": A(2)})],
    "jax.numpy.permute_dims": [([A(r), T(*range(r))], {}) for r in range(5)],
    "jax.numpy.transpose": [([A(r)], {}) for r in range(5)] + [([A(r), T(*range(r))], {}) for r in range(5)],
    "jax.image.resize": [([A(r), T(*[3] * r), "nearest"], {}) for r in range(1, 5)],
    "jax.random.multivariate_normal": [
        ([{"K": 1}, A(a), A(b)], kwargs) for a, b in [(1, 2), (2, 2), (1, 3), (2, 3), (3, 2)] for kwargs in ({}, {"shape": T(2)}, {"shape": T(2, 2)})
    ],
    "jax.random.permutation": [([{"K": 1}, x], {}) for x in (A(1), A(2), 3, A(3))],
    "jax.random.choice": [
        ([{"K": 1}, a], kwargs) for a in (A(1), A(2), 3, A(3)) for kwargs in ({}, {"shape": T(2)}, {"shape": T(2, 2)}, {"p": A(1)}, {"shape": T(2), "replace": False})
    ],
    "jax.random.wrap_key_data": [([A(r, "k")], {}) for r in (1, 2, 3)],
    "jax.numpy.where": [([A(r, "b"), A(a), A(b)], {}) for r in range(3) for a in range(3) for b in range(3)]
    + [([A(r, "b")], {"size": 2}) for r in range(4)] + [([A(1, "b"), 0.0, A(2)], {}), ([A(1, "b")], {"x": A(0), "y": A(2)})],
    "jax.numpy.cross": [([A(a, "3"), A(b, "3")], {}) for a in (1, 2, 3) for b in (1, 2, 3)] + [([A(1), A(1)], {}), ([A(2), A(2)], {})],
    **{
        f"jax.numpy.{name}": [([A(r)], {"size": 2}) for r in range(5)]
        for name in ("nonzero", "argwhere", "flatnonzero", "unique_values", "unique_all", "unique_counts", "unique_inverse")
    },
    "jax.Array.nonzero": [([A(r)], {"size": 2}) for r in range(5)],
    "jax.numpy.unique": [
        ([A(r)], {"size": 2, **kwargs})
        for r in range(4)
        for kwargs in ({}, {"axis": 0}, {"return_index": True}, {"return_counts": True}, {"return_inverse": True})
    ],
    "jax.Array.reshape": [([A(r), *shape], {}) for r in range(4) for shape in ([-1], [T(-1)], [T(2, -1)], [2, -1], [1, 1, -1], [L(-1, 1)])],
    "jax.Array.transpose": [([A(r)], {}) for r in range(5)] + [([A(2), 1, 0], {}), ([A(2), T(1, 0)], {}), ([A(3), 0, 2, 1], {})],
    **{
        f"jax.lax.{name}": [([A(a, "i"), A(b, "i")], {}) for a in range(3) for b in range(3)]
        for name in ("shift_left", "shift_right_arithmetic", "shift_right_logical")
    },
}  # fmt: skip


# ------------------------------------------------------------------------------------------------------- the probe


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


def calls_of(dotted, parameters, seed):
    """Calls to try: ``(args, kwargs)`` in the JSON form."""
    chance = random.Random(seed)
    if dotted in SPECIAL:
        yield from SPECIAL[dotted]
    if dotted in ENOUGH:
        return
    short = dotted.rpartition(".")[2]

    def pool(name):
        if dotted.startswith("jax.Array.") and name == "self":
            return ARRAYS[:-1]
        if dotted.startswith("jax.random.") and name in ("a", "b", "p", "mean", "n", "mode"):
            return [0.5, A(0), A(1), A(2)] if name != "n" else [2, A(1)]
        if dotted.startswith("jax.scipy.") and name in ("k", "n", "d"):
            return [*ARRAYS, 1, 2]
        if short == "one_hot" and name == "axis":
            return [0, 1, -1]
        if short == "matrix_rank" and name == "M":
            return ARRAYS
        if name == "axes" and "tensordot" in short:
            return [0, 1, 2, T(T(0), T(0)), T(L(0, 1), L(1, 0)), T(0, 0), L(L(1), L(0))]
        if name == "axes" and short.startswith("reduce_"):
            return [T(), T(0), T(0, 1), T(1), L(0)]
        return POOLS.get(name, ARRAYS)

    required = [(name, kind) for name, kind, default in parameters if default is None and kind != "variadic"]
    variadic = [name for name, kind, _ in parameters if kind == "variadic"]
    optional = [name for name, kind, default in parameters if default is not None]
    pools = [pool(name) for name, _ in required]
    combinations = list(itertools.islice(itertools.product(*pools), 40_000))
    if len(combinations) > 130:
        combinations = chance.sample(combinations, 130)
    rests = [[]]
    if variadic:
        rests = [[A(0)], [A(1)], [A(2)], [A(1), A(1)], [A(2), A(1)], [A(0), A(2), A(1)], [A(3), 1.0]]
        if variadic[0] == "shapes":
            rests = [[T(2), T(2, 2)], [T(), T(2)]]

    def split(values):
        args = [value for (_, kind), value in zip(required, values) if kind == "positional"]
        return args, {name: value for (name, kind), value in zip(required, values) if kind == "keyword"}

    for values in combinations:
        for rest in rests:
            args, kwargs = split(values)
            yield args + rest, kwargs
    few = chance.sample(combinations, min(len(combinations), 14))
    for name in optional:
        if name not in POOLS:
            continue
        for value in pool(name):
            for values in few[:9]:
                args, kwargs = split(values)
                yield args + chance.choice(rests), {**kwargs, name: value}
    if "where" in optional and "initial" in optional:
        for _ in range(30):
            args, kwargs = split(chance.choice(combinations))
            more = {"where": chance.choice(POOLS["where"]), "initial": 0.0}
            if chance.random() < 0.6:
                more["axis"] = chance.choice(AXES)
            yield args, {**kwargs, **more, "keepdims": chance.random() < 0.3}
    pairs = [(a, b) for a in ("axis", "axes", "shape") for b in optional if a in optional and b in POOLS and a != b]
    if "axis" in [name for name, _ in required]:
        pairs += [("keepdims", "keepdims")] * ("keepdims" in optional)
    for a, b in pairs:
        for _ in range(14 if b == "keepdims" else 4):
            args, kwargs = split(chance.choice(combinations))
            yield args + chance.choice(rests), {**kwargs, a: chance.choice(pool(a)), b: chance.choice(pool(b))}


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


# ----------------------------------------------------------------------------------------------- choosing a rule


def abstract(form):
    """The abstract value of an argument."""
    from shardfix.semantics.values import Array, Constant, JaxObject, Rank, Sequence, Text, Varying

    if isinstance(form, str):
        return Text(form)
    if not isinstance(form, dict):
        return Constant(form)
    if "T" in form or "L" in form:
        kind = "tuple" if "T" in form else "list"
        return Sequence(tuple(map(abstract, form.get("T", form.get("L")))), kind)
    if "F" in form:
        return JaxObject(form["F"])
    return Array(Rank.exactly(form.get("A", form.get("K"))), Varying.over({"i"}))


def covers(value, result, kinds=True):
    """Whether a rule's value holds of a real result: None if not; 0 where it says nothing, 1 something, 2 all."""
    from shardfix.semantics.values import UNKNOWN, Array, Constant, Number, Sequence

    if value == UNKNOWN:
        return 0
    if result is None:
        return 2 if value == Constant(None) else None
    if "A" in result:
        if not isinstance(value, Array):
            return None
        rank = result["A"]
        if rank < value.rank.low or (value.rank.high is not None and rank > value.rank.high):
            return None
        return 1 if value.rank.exact is None else 2
    if "N" in result:
        return 2 if isinstance(value, Number | Constant) else None
    if "T" in result or "L" in result:
        items = result.get("T", result.get("L"))
        if not isinstance(value, Sequence) or (kinds and value.kind != ("tuple" if "T" in result else "list")):
            return None
        if value.items is not None and len(value.items) != len(items):
            return None
        values = [value.rest] * len(items) if value.items is None else value.items
        parts = [covers(item, real, kinds) for item, real in zip(values, items)]
        return None if None in parts else min([*parts, 2 if value.items is not None else 1])
    return None


def signature_text(parameters, marks={}):
    words = []
    keyword = False
    for name, kind, default in parameters:
        if kind == "variadic":
            words.append(f"*{name}")
            keyword = True
            continue
        if kind == "keyword" and not keyword:
            words.append("*")
            keyword = True
        mark = marks.get(name, "")
        words.append(mark + name + ("" if default is None else f"={default}"))
    return " ".join(words)


def candidates(dotted, parameters, calls):
    """Rules to try, likeliest and most telling first."""
    names = [name for name, _, _ in parameters]
    variadic = [name for name, kind, _ in parameters if kind == "variadic"]
    required = [name for name, kind, default in parameters if default is None and kind != "variadic"]
    data = [name for name in names if is_data(name, parameters, calls)]
    needed = [name for name in data if name in required or name in variadic]
    axis = [name for name in ("axis", "axes", "dimension", "dimensions") if name in names]
    keep = [name for name in ("keepdims",) if name in names]
    shape = [
        n
        for n in ("shape", "new_sizes", "new_shape", "dimensions", "sizes", "args", "num", "reps", "lengths")
        if n in names
    ]

    if dotted in PYTREES.split():
        yield f"same_pytree({names[0]})"
    if dotted in ("jax.lax.sort", "jax.lax.reduce_window"):
        yield "one_or_many(operand)"
    if dotted.endswith("squeeze"):
        yield f"squeeze({names[0]}, {names[1]})"
    if dotted.endswith("random.choice"):
        yield "choice(a, shape)"
    if dotted.endswith(".block"):
        yield "block(arrays)"
    if dotted.endswith("stack"):
        yield f"items_plus({names[0]}, 1)"
    by_names = [
        "at_least_parameter(object, ndmin)", "collapse(operand, start_dimension, stop_dimension)",
        "dot_general(lhs, rhs, dimension_numbers)", "einsum(subscripts, operands)", "split(ary, indices_or_sections)",
        "split_sizes(operand, sizes)", "where(condition, x, y)", "svd(a, compute_uv)", "svd(x, compute_uv)", "qr(a, mode)",
        "multivariate_normal(mean, cov, shape)", "categorical(logits, shape)",
        "reduce_many(operands, dimensions)", "select(condlist, choicelist, default)", "at_least_parameter(x, rank)", "choose(a, choices)", "choose(self, choices)", "shaped_broadcast(shape, left, mode, right)", "polynomial(p, x)", "polynomial(coeffs, x)",
        "concatenate(operands, dimension)", "quantile(a, q, axis, keepdims)", "index_in(operand, keepdims)",
    ]  # fmt: skip
    for text in by_names:
        roles = [role.strip() for role in text[text.index("(") + 1 : -1].split(",")]
        if all(role in names for role in roles):
            yield text
    if dotted.endswith(".ndim"):
        yield f"rank_number({names[0]})"
    if dotted.endswith(".shape"):
        yield f"shape_tuple({names[0]})"
    yield "number()"
    results = [json.dumps(call["result"]) for call in calls]
    ranks = {call["result"]["A"] for call in calls if isinstance(call["result"], dict) and "A" in call["result"]}
    if len(set(results)) == 1 and len(ranks) == 1 and (varied(calls) or not needed):
        yield f"fixed({ranks.pop()})"
    if len(set(results)) == 1 and '"T"' in results[0]:
        inner = [item.get("A") for item in calls[0]["result"]["T"] if isinstance(item, dict)]
        if inner and None not in inner and (varied(calls) or not needed):
            yield f"fixed_tuple({', '.join(map(str, inner))})"
    sets = []
    for chosen in (needed, data, *[list(c) for n in (1, 2, 3) for c in itertools.combinations(data[:5], n)]):
        if chosen and chosen not in sets:
            sets.append(chosen)
    for chosen in sets:
        yield f"elementwise({', '.join(chosen)})"
        for count in (2, 3):
            yield f"elementwise_tuple({count}, {', '.join(chosen)})"
        yield f"broadcast_plus(1, {', '.join(chosen)})"
    for name in shape:
        yield f"shaped({name})"
        if name in ("args",):
            yield f"shape_arguments({name})"
        for chosen in sets:
            yield f"shaped({name}, {', '.join(chosen)})"
            yield f"shaped_broadcast({name}, {', '.join(chosen)})"
        for count in (1, 2):
            yield f"shaped_plus({count}, {name})"
            for chosen in sets[:4]:
                yield f"shaped_plus({count}, {name}, {', '.join(chosen)})"
    for name in data[:3]:
        for a in axis:
            for k in keep:
                yield f"reduction({name}, {a}, {k})"
                if "where" in names:
                    yield f"reduction({name}, {a}, {k}, where)"
                yield f"median({name}, {a}, {k})"
                yield f"reduction_tuple(2, {name}, {a}, {k})"
            yield f"flat_if_no_axis({name}, {a})"
            yield f"reduction({name}, {a})"
            yield f"concatenate({name}, {a})"
            if "expand_dims" in dotted:
                yield f"plus_length({name}, {a})"
        for k in keep:
            yield f"reduction_of_trailing({name}, 2, {k})"
            yield f"index_in({name}, {k})"
        for s in shape:
            yield f"plus_length({name}, {s})"
            yield f"longest({name}, {s})"
    for name in data[:3]:
        for lowest in (1, 2, 3):
            yield f"at_least({name}, {lowest})"
        for count in (1, -1, 2, -2, -3):
            yield f"plus({name}, {count})"
        for count in (2, 3):
            for offsets in itertools.product((0, -1, -2, 1), repeat=count):
                yield f"plus_tuple({name}, {', '.join(map(str, offsets))})"
                yield f"plus_list({name}, {', '.join(map(str, offsets))})"
        yield f"items_plus({name}, 0)"
        yield f"items_plus({name}, 1)"
        for lowest in (1, 2, 3):
            yield f"items_at_least({name}, {lowest})"
        if "unstack" in dotted:
            yield f"unstack({name})"
        if "nonzero" in dotted:
            yield f"nonzero({name})"
        yield f"diagonal_either_way({name})"
    for name in variadic:
        yield f"broadcast_each({name})"
        yield f"grid({name})"
        for lowest in (1, 2, 3):
            yield f"atleast_each({lowest}, {name})"
    for left, right in itertools.permutations(data[:3], 2):
        for simple in ("matmul", "dot", "vecdot", "matvec", "segments", "each_operand"):
            yield f"{simple}({left}, {right})"
        for count in (0, -1, -2, 1):
            yield f"sum_of_ranks({left}, {right}, {count})"
        for a in axis:
            yield f"take({left}, {right}, {a})"
            yield f"tensordot({left}, {right}, {a})"
            for k in keep:
                yield f"quantile({left}, {right}, {a}, {k})"


def is_data(name, parameters, calls):
    from shardfix.semantics.rules.arguments import STATIC

    if name in STATIC or name in ("func", "computation"):
        return False
    others = {n for n, _, _ in parameters} - {"num", "data", "impl"}
    if name in ("key", "keys") and others != {name}:
        return False
    with_axes = ('"A": 1', '"A": 2', '"A": 3', '"K"', '"L"')
    return any(
        any(mark in json.dumps(value) for mark in with_axes)
        for call in calls
        for value in arguments(call, parameters).get(name, [])
    )


def arguments(call, parameters):
    """The forms given to each parameter."""
    positional = [name for name, kind, _ in parameters if kind == "positional"]
    variadic = [name for name, kind, _ in parameters if kind == "variadic"]
    found = {}
    for number, value in enumerate(call["args"]):
        name = positional[number] if number < len(positional) else (variadic or ["?"])[0]
        found.setdefault(name, []).append(value)
    for name, value in call["kwargs"].items():
        found.setdefault(name, []).append(value)
    return found


def varied(calls):
    """Whether arrays of several ranks were accepted."""
    return len({json.dumps(call["args"]) for call in calls}) > 1


def choose(dotted, parameters, calls):
    """``(rule text, opaque parameters)`` of the first rule that agrees with all calls; None where none does."""
    from shardfix.semantics import rank_rules
    from shardfix.semantics.rules.arguments import STATIC

    prepared = [
        (call, [abstract(form) for form in call["args"]], {n: abstract(form) for n, form in call["kwargs"].items()})
        for call in calls
    ]
    optional = {name for name, _, default in parameters if default is not None}
    text = signature_text(parameters)
    tried = {name for call in calls for name in call["kwargs"]}
    best = None
    for rule in dict.fromkeys(candidates(dotted, parameters, calls)):
        row = rank_rules.parse_row(rule, text)
        free = optional - set(row.roles)
        bad, outcomes = set(), []
        limit = len(optional) + 1 if best is None else len(best[1])
        for call, args, kwargs in prepared:
            outcome = covers(rank_rules.apply(row, args, kwargs), call["result"], row.rule not in LISTS_ONCE)
            given = (free & set(call["kwargs"])) - NEUTRAL
            if not given:
                outcomes.append(outcome)
                if outcome is None:
                    break
            elif not outcome and not given & bad:
                # Of several parameters the one to blame is not known; the first that is not known to be harmless.
                bad.add(min(given, key=lambda name: (name in HARMLESS, name)))
                if len(bad) >= limit:
                    break
        inexact = row.rule in ("unstack", "squeeze", "collapse", "split", "tensordot")
        if None in outcomes or not outcomes or len(bad) >= limit:
            continue
        if outcomes.count(2) < len(outcomes) * 0.9 and not (inexact and 0 not in outcomes):
            continue
        best = rule, bad
        if not bad:
            break
    if best is None:
        return None
    row = rank_rules.parse_row(best[0], text)
    opaque = best[1] | {name for name in optional - tried - set(row.roles) if name not in HARMLESS}
    marks = dict.fromkeys(opaque, "!")
    with_arrays = {
        name
        for call in calls
        for name, values in arguments(call, parameters).items()
        if any(f'"A": {rank}' in json.dumps(value) for value in values for rank in (1, 2, 3))
    }
    refused = attempted(dotted, parameters) - with_arrays
    for name, _, default in parameters:
        if name in marks or name in row.roles or name in with_arrays | STATIC | STRUCTURES:
            continue
        if (default is None and name in refused) or name in NUMBERS & refused:
            continue  # JAX takes no array there
        marks[name] = "~"
    return best[0], marks


@functools.cache
def _attempted(dotted, parameters):
    calls = [{"args": args, "kwargs": kwargs} for args, kwargs in calls_of(dotted, parameters, dotted)]
    return frozenset(
        name
        for call in calls
        for name, values in arguments(call, parameters).items()
        if any(f'"A": {rank}' in json.dumps(value) for value in values for rank in (1, 2))
    )


def attempted(dotted, parameters):
    """The parameters for which arrays were tried."""
    return _attempted(dotted, tuple(map(tuple, parameters)))


def with_carried(rule, carried_by):
    """The rule with the parameters that hand on what they vary over, where these are not just its roles."""
    from shardfix.semantics.rules.arguments import STATIC

    roles = [role.strip() for role in rule.partition("(")[2][:-1].split(",") if role.strip()]
    certain = [parameter for parameter, state in carried_by.items() if state == "all"]
    if {role for role in roles if role not in STATIC and not role.lstrip("-").isdigit()} == set(certain):
        return rule
    kept = [role for role in roles if role in certain] + [parameter for parameter in certain if parameter not in roles]
    return f"{rule} carries {', '.join(kept) or 'none'}"


def merge(reports):
    versions = sorted(reports, key=lambda report: [int(part) for part in report["version"].split(".")[:3]])
    rules, unknown, alike = {}, [], []
    for dotted in sorted({name for report in versions for name in report["callables"]}):
        entries = [report["callables"][dotted] for report in versions if dotted in report["callables"]]
        parameters = merged_parameters([entry["parameters"] for entry in entries])
        calls = [call for entry in entries for call in entry["calls"]]
        chosen = choose(dotted, parameters, calls) if calls else None
        if chosen is None:
            unknown.append(dotted)
            continue
        states = {}
        for entry in entries:
            for name, state in entry["carried"].items():
                states[name] = state if states.get(name, state) == state else "some"
        rule = with_carried(chosen[0], states)
        rules.setdefault(rule, {}).setdefault(signature_text(parameters, chosen[1]), []).append(dotted)
        same = [call for entry in entries for call in entry.get("numpy", [])]
        if same and agrees(chosen[0], parameters, chosen[1], same):
            alike.append(dotted.removeprefix("jax.numpy."))
    return [report["version"] for report in versions], rules, unknown, alike


def merged_parameters(versions):
    """The newest parameters; those that only an older JAX had come after, and what it took by position stays so."""
    merged = list(map(tuple, versions[-1]))
    names = [name for name, _, _ in merged]
    for older in versions[:-1]:
        merged += [(name, "keyword", default or "") for name, _, default in older if name not in names]
        names = [name for name, _, _ in merged]
    return merged


def agrees(rule, parameters, marks, calls):
    from shardfix.semantics import rank_rules

    row = rank_rules.parse_row(rule, signature_text(parameters, marks))
    for call in calls:
        kwargs = {name: abstract(form) for name, form in call["kwargs"].items()}
        result = rank_rules.apply(row, [abstract(form) for form in call["args"]], kwargs)
        if covers(result, call["result"], row.rule not in LISTS_ONCE) is None:
            return False
    return True


def write(versions, rules, unknown, alike):
    lines = [
        f"# Written by scripts/generate_semantics.py from JAX {', '.join(versions)}. Do not edit.",
        "#",
        "# One table a rule of shardfix.semantics.rules.library, with the parameters that play its roles. carries: the ones",
        "# from which the result has the mesh axes that it certainly varies over, where these are not just the roles.",
        "# One entry a list of parameters: ! marks one that, if given, leaves the result unknown; ~ one that does so if it",
        "# is more than a number, a string or None. Then module: names.",
        "",
    ]
    for rule in sorted(rules):
        lines.append(f'[rules."{rule}"]')
        for signature, names in sorted(rules[rule].items()):
            modules = {}
            for dotted in names:
                module, _, name = dotted.rpartition(".")
                modules.setdefault(module, []).append(name)
            text = "\n".join(f"{module}: {' '.join(members)}" for module, members in modules.items())
            quoted = f"'''{text}'''" if "\n" in text else f"'{text}'"
            lines.append(f'"{signature}" = {quoted}'.replace('"' + signature + '"', json.dumps(signature)))
        lines.append("")
    lines += ["[numpy]", "# Functions of numpy that follow the rule of the jax.numpy function of the same name."]
    lines += [f"alike = '''{' '.join(alike)}'''", "", "[unknown]", "# No rule fits these."]
    lines += [f"names = '''\n{chr(10).join(unknown)}'''"]
    TABLE.write_text("\n".join(lines) + "\n", encoding="utf-8")
    total = sum(len(names) for groups in rules.values() for names in groups.values())
    print(f"{TABLE}: {TABLE.stat().st_size} bytes, {total} known, {len(unknown)} unknown, {len(alike)} alike in numpy")


def main(arguments):
    if arguments[:1] == ["--probe"]:
        print(json.dumps(probe()))
        return
    if not arguments:
        sys.exit(__doc__)
    sys.path.insert(0, str(ROOT))
    reports = []
    for name in arguments:
        if name.endswith(".json"):  # an earlier probe
            reports.append(json.loads(pathlib.Path(name).read_text().splitlines()[-1]))
            continue
        command = [name, __file__, "--probe"]
        output = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout
        reports.append(json.loads(output.splitlines()[-1]))
    write(*merge(reports))


if __name__ == "__main__":
    main(sys.argv[1:])
