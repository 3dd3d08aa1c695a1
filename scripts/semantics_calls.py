"""The calls by which ``generate_semantics.py`` and its test find out what JAX's functions do with ranks.

An argument is written as JSON: ``{"A": rank}`` an array (``"t"``: its type), ``{"K": rank}`` a random key, ``{"T": []}``
a tuple, ``{"L": []}`` a list, ``{"F": name}`` an object of JAX, and numbers, strings and None as themselves.
"""

from __future__ import annotations

import itertools
import random


def A(rank, t=None):
    return {"A": rank} if t is None else {"A": rank, "t": t}


def T(*items):
    return {"T": list(items)}


def L(*items):
    return {"L": list(items)}


def each(names, pool):
    """The same pool for several parameters."""
    return dict.fromkeys(names.split(), pool)


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
    **each("axis dim", AXES),
    **each("axis1 axis2 axisa axisb axisc dimension split_axis spatial_axis reduction_dimension", [0, 1, -1]),
    "axes": [T(0), T(0, 1), T(1, 0), 0, 1, 2, None, T(0, 2, 1), L(1, 0), T()],
    "dimensions": [T(0), T(0, 1), T(1), T(), L(0)],
    "permutation": [T(), T(0), T(1, 0), T(0, 2, 1), T(3, 2, 1, 0)],
    "broadcast_dimensions": [T(), T(0), T(1), T(0, 1)],
    "dimension_numbers": PAIRS,
    **each("shape new_sizes new_shape shapes", SHAPES),
    "sizes": [T(), T(2), T(1, 1), T(2, 3)],
    "keepdims": [True, False],
    **each("compute_uv full_matrices permute_l pivoting return_sign return_index return_inverse return_counts retstep"
        " returned sparse eigvals_only full cov independent replace density include_initial is_stable reverse"
        " sorted assume_unique return_indices rowvar invert disp calc_q return_residual hermitian increasing"
        " compute_schur_vectors compute_left_eigenvectors compute_right_eigenvectors copy transpose_kernel"
        " antialias antialias endpoint trim_leading_zeros strip_zeros is_causal left_side left transpose tiled", [True, False],
    ),
    "mode": """reduced r complete raw full same valid economic constant edge wrap clip fill drop high low largest smallest""".split(),
    "output": ["real", "complex"],
    "indexing": ["ij", "xy"],
    "ord": [2, 1, "fro", "nuc"],
    "ndmin": [0, 1, 3],
    "reps": [2, T(2), T(1, 2), T(1, 1, 2)],
    "repeats": [2, A(1, "i")],
    "total_repeat_length": [4],
    **each("k M N d deg start_dimension num_classes num_segments size length decimals minlength kth", [1, 2, 0, A(1, "i")]),
    **each("shift offset ddof stop_dimension nperseg permutation_size", [1, 0, 2, A(1, "i")]),
    "base": [2.0, A(1)],
    "stride": [1, 2],
    "range": [T(0.0, 1.0)],
    "variance": ARRAYS,
    "n": [2, 3, 1, A(0), A(1), A(2)],
    "m": [*ARRAYS, 2],
    "num": [3, T(2, 3), T(2)],
    "rank": [2, 3, 4],
    "ndim": [1, 2, 3],
    **each("bins", [3, A(1)]),
    "indices_or_sections": [2, 1, L(1), T(1), A(1, "i")],
    "obj": [0, L(0), A(1, "i")],
    "pad_width": [1, T(1, 1), T(T(1, 1), T(0, 0))],
    "padding_config": [L(T(0, 0, 0)), L(T(0, 0, 0), T(1, 1, 0)), L()],
    **each("source destination", [0, 1, -1, T(0, 1), T(1, 0)]),
    **each("start stop step", [0, 3, 4.0, A(0), A(1), A(2)]),
    **each("start_index limit_index index", [0, 1, A(0, "i"), A(1, "i")]),
    "slice_size": [1, 2],
    **each("start_indices limit_indices slice_sizes", [T(), T(1), T(1, 1), L(1, 1, 1), T(0), T(0, 0)]),
    **each("window_strides strides", [T(1), T(1, 1)]),
    **each("window_dimensions window_shape filter_shape", [T(1), T(1, 1)]),
    "padding": ["SAME", "VALID"],
    **each("dtype new_dtype index_dtype", [{"F": "jax.numpy.float32"}, {"F": "jax.numpy.int8"}, {"F": "jax.numpy.int32"}]),
    **each("exponent_bits mantissa_bits", [5]),
    **each("arrays operands tup arrs choicelist choices condlist keys_ arys_", SEQUENCES),
    **each("indices ind idxs segment_ids group_sizes test_elements multi_index", INTS),
    "key": [{"K": 1}, {"K": 0}],
    "seed": [0, A(0, "i")],
    "where": [A(1, "b"), A(2, "b"), True],
    **each("initial fill_value mean prepend append padding_value", [0.0, A(0), A(1), A(2)]),
    **each("weights p x y b aweights fweights min max loc scale sigma minval maxval period dx", ARRAYS),
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
PYTREES = "jax.lax.stop_gradient jax.lax.optimization_barrier jax.block_until_ready"
# For these the calls below are all that make sense.
ENOUGH = {"jax.lax.collapse", "jax.numpy.block", "jax.numpy.lexsort", "jax.numpy.bincount", *PYTREES.split()}
SPECIAL = {
    "jax.numpy.block": [([L(A(r), A(r))], {}) for r in range(4)]
    + [([L(L(A(r), A(r)), L(A(r), A(r)))], {}) for r in range(4)] + [([A(2)], {}), ([L(L(A(1)), L(A(2)))], {})],
    "jax.numpy.lexsort": [([T(A(r), A(r))], {}) for r in (1, 2, 3)] + [([A(2)], {}), ([A(3)], {})],
    "jax.numpy.bincount": [([A(1, "i")], {"length": 4}), ([A(1, "i")], {"length": 4, "weights": A(1)}),
        ([A(1, "i")], {"length": 4, "minlength": 2})],
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
    ] + [([A(4), A(4), T(1, 1), "SAME"], {"dimension_numbers": T("NHWC", "HWIO", "NHWC")}),
         ([A(3), A(3), T(1), "SAME"], {"dimension_numbers": T("NHC", "HIO", "NHC"), "rhs_dilation": T(1)})],
    "jax.lax.conv": [([A(r), A(r), T(*[1] * (r - 2)), "SAME"], {}) for r in (3, 4)],
    "jax.lax.conv_transpose": [([A(r), A(r), T(*[1] * (r - 2)), "SAME"], {}) for r in (3, 4)]
    + [([A(4), A(4), T(1, 1), "SAME"], {"dimension_numbers": T("NHWC", "HWIO", "NHWC")}),
       ([A(3), A(3), T(1), "SAME"], {"transpose_kernel": True})],
    "jax.lax.conv_with_general_padding": [
        ([A(r), A(r), T(*[1] * (r - 2)), "VALID", None, None], {}) for r in (3, 4)
    ],
    "jax.lax.ragged_dot": [([A(2), A(3), A(1, "i")], {})],
    "jax.lax.reduce_window": [
        ([A(r), 0.0, {"F": "jax.lax.add"}, T(*[1] * r), T(*[1] * r), "VALID"], {}) for r in (1, 2, 3)
    ],
    "jax.lax.dynamic_slice": [([A(r), T(*[0] * r), T(*[1] * r)], {}) for r in range(5)],
    "jax.lax.slice": [([A(r), T(*[0] * r), T(*[1] * r)], {}) for r in range(5)]
    + [([A(r), T(*[0] * r), T(*[1] * r)], {"strides": T(*[1] * r)}) for r in range(5)],
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
        ([{"K": 1}, A(a), A(b)], kwargs) for a, b in [(1, 2), (2, 2), (1, 3), (2, 3), (3, 2)]
        for kwargs in ({}, {"shape": T(2)}, {"shape": T(2, 2)})
    ],
    "jax.random.permutation": [([{"K": 1}, x], {}) for x in (A(1), A(2), 3, A(3))],
    "jax.random.choice": [
        ([{"K": 1}, a], kwargs) for a in (A(1), A(2), 3, A(3))
        for kwargs in ({}, {"shape": T(2)}, {"shape": T(2, 2)}, {"p": A(1)}, {"shape": T(2), "replace": False})
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
        args = [value for (_, kind), value in zip(required, values, strict=True) if kind == "positional"]
        return args, {name: value for (name, kind), value in zip(required, values, strict=True) if kind == "keyword"}

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
