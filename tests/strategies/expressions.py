"""Expressions of one line: what jax.numpy, lax and nn offer, written for arrays that are in scope."""

from __future__ import annotations

from collections.abc import Callable

from strategies.writer import Writer, fits

Expression = Callable[[Writer], str | None]

ELEMENTWISE = (
    "jnp.exp({})",
    "jnp.tanh({})",
    "jax.nn.relu({})",
    "jax.nn.gelu({})",
    "lax.rsqrt({})",
    "lax.sin({})",
    "-{}",
    "abs({})",
    "{}.astype(jnp.float32)",
    "jnp.clip({}, -1.0, 1.0)",
    "jnp.square({})",
    "jnp.nan_to_num({})",
    "jax.nn.sigmoid({})",
    "jnp.sign({})",
    "jnp.asarray({})",
    "lax.stop_gradient({})",
    "({} > 0).astype(jnp.float32)",
    "jnp.zeros_like({})",
    "jnp.where({} > 0, 1.0, 0.0)",
    "jax.nn.standardize({})",
)
BINARY = (
    "{} + {}",
    "{} - {}",
    "{} * {}",
    "jnp.maximum({}, {})",
    "jnp.minimum({}, {})",
    "jnp.add({}, {})",
    "jnp.where({0} > 0, {0}, {1})",
    "jnp.arctan2({}, {})",
    "jnp.hypot({}, {})",
    "{} / (1.0 + {} ** 2)",
    "lax.select_n(({1} > 0), {0}, {1})",
    "lax.add({}, {})",
    "({} > {}).astype(jnp.float32)",
    "jnp.power(jnp.abs({}), {})",
    "jnp.logaddexp({}, {})",
)
REDUCTIONS = (
    "sum",
    "mean",
    "max",
    "min",
    "prod",
    "var",
    "std",
    "median",
    "argmax",
    "any",
    "all",
    "count_nonzero",
    "ptp",
)
METHODS = ("sum", "mean", "max", "min", "prod", "var", "std", "argmin")
SEVERAL_AXES = ("sum", "mean", "max", "min", "prod", "var", "std", "any", "all")


def elementwise(w: Writer) -> str | None:
    a = w.array()
    return a and w.one_of(ELEMENTWISE).format(a)


def with_number(w: Writer) -> str | None:
    a = w.array()
    numbers = [name for name in w.own if isinstance(w.namespace.get(name), int | float)]
    number = (
        w.one_of(numbers)
        if numbers and w.chance(2)
        else w.one_of(("2.0", "3", "0.5", "np.pi", "SCALE", "np.float32(2)"))
    )
    return a and w.one_of(
        ("{} * {}", "{} + {}", "{1} - {0}", "{} / {}", "jnp.add({}, {})", "jnp.maximum({1}, {0})")
    ).format(a, number)


def binary(w: Writer) -> str | None:
    a = w.array()
    if a is None:
        return None
    b = w.array(lambda value: fits(value, w.namespace[a]))
    return w.one_of(BINARY).format(a, b)


def axis_text(w: Writer, rank: int, several: bool) -> str:
    if several and rank > 1 and w.chance(3):
        first = w.integer(0, rank - 1)
        second = (first + w.integer(1, rank - 1)) % rank
        return f"({first}, {second - rank if w.chance(2) else second})"
    return str(w.integer(-rank, rank - 1))


def reduction(w: Writer) -> str | None:
    a = w.array()
    if a is None:
        return None
    rank = w.rank(a)
    method = w.chance(3)
    name = w.one_of(METHODS if method else REDUCTIONS)
    options = []
    if rank and not w.chance(3):
        axis = axis_text(w, rank, name in SEVERAL_AXES)
        options.append(axis if w.chance(3) else f"axis={axis}")
    elif w.chance(6):
        options.append("axis=None")
    if w.chance(4):
        options.append(f"keepdims={w.one_of(('True', 'False', 'KEEP'))}")
    text = f"{a}.{name}({', '.join(options)})" if method else f"jnp.{name}({', '.join([a, *options])})"
    return text if name not in ("argmax", "argmin", "any", "all", "count_nonzero") else f"{text}.astype(jnp.float32)"


def special_reduction(w: Writer) -> str | None:
    a = w.array(lambda value: value.ndim >= 1)
    if a is None:
        return None
    axis = axis_text(w, w.rank(a), False)
    return w.one_of(
        (
            "jax.nn.logsumexp({a}, axis={axis})",
            "jax.nn.logsumexp({a})",
            "jax.scipy.special.logsumexp({a}, axis={axis}, keepdims=True)",
            "jnp.linalg.norm({a})",
            "jnp.linalg.norm({a}, axis={axis})",
            "jnp.linalg.norm({a}, axis={axis}, keepdims=True)",
            "jnp.average({a}, axis={axis})",
            "jnp.percentile({a}, 50)",
            "jnp.quantile({a}, 0.5, axis={axis})",
            "jnp.nansum({a}, axis={axis})",
            "jnp.cumsum({a}, axis={axis})",
            "jnp.cumsum({a})",
            "jax.nn.softmax({a}, axis={axis})",
            "jax.nn.log_softmax({a})",
            "jnp.sort({a}, axis={axis})",
            "jnp.argsort({a}).astype(jnp.float32)",
            "jnp.diff({a}, axis={axis})",
            "lax.cumsum({a}, axis=0)",
            "lax.reduce_max({a}, axes=(0,))",
            "jax.nn.one_hot(jnp.argmax({a}, axis={axis}), 3)",
            "lax.top_k({a}, 2)[0]",
        )
    ).format(a=a, axis=axis)


def reshaping(w: Writer) -> str | None:
    a = w.array()
    if a is None:
        return None
    value = w.namespace[a]
    rank = w.rank(a)
    position = w.integer(0, rank)
    shape = [*value.shape]
    shape.insert(position, 1)
    options = [
        f"{a}.reshape(-1)",
        f"jnp.reshape({a}, {tuple(shape)})",
        f"{a}.reshape({', '.join(map(str, shape))})",
        f"{a}.reshape({a}.shape)",
        f"{a}.reshape({a}.shape + (1,))",
        f"{a}.reshape((1, *{a}.shape))",
        f"jnp.ravel({a})",
        f"{a}.flatten()",
        f"jnp.squeeze({a})",
        f"jnp.expand_dims({a}, {w.integer(-rank - 1, rank)})",
        f"jnp.expand_dims({a}, axis=(0, {position + 1}))",
        f"lax.expand_dims({a}, (0,))",
        f"{a}.T",
        f"jnp.transpose({a})",
        f"jnp.atleast_1d({a})",
        f"jnp.atleast_2d({a})",
        f"jnp.array([{a}, {a}])",
        f"jnp.asarray([{a}])",
        f"jnp.broadcast_to({a}, (2, *{a}.shape))",
        f"jnp.broadcast_to({a}, {(2, *value.shape)})",
        f"lax.broadcast({a}, (2,))",
        f"jnp.stack([{a}, {a} * 2], axis={w.integer(-rank - 1, rank)})",
        f"jnp.tile({a}, 2)",
        f"jnp.tile({a}, (2, 1, 1))",
        f"jnp.repeat({a}, 2)",
        f"jnp.array({a})",
    ]
    if rank >= 1:
        axis = w.integer(-rank, rank - 1)
        options += [
            f"jnp.repeat({a}, 2, axis={axis})",
            f"jnp.concatenate([{a}, {a}], axis={axis})",
            f"jnp.concatenate([{a}, {a}], axis=None)",
            f"jnp.flip({a}, axis={axis})",
            f"jnp.roll({a}, 1, axis={axis})",
            f"jnp.roll({a}, 1)",
            f"jnp.pad({a}, 1)",
            f"jnp.split({a}, 2, axis={axis})[0]",
            f"jnp.take({a}, 0, axis={axis})",
            f"jnp.take({a}, jnp.array([0, 1]), axis={axis})",
            f"jnp.take({a}, 1)",
            f"jnp.vstack([{a}, {a}])",
            f"jnp.hstack([{a}, {a}])",
            f"jnp.dstack([{a}, {a}])",
            f"lax.dynamic_slice_in_dim({a}, 0, 1, axis={axis})",
            f"lax.dynamic_index_in_dim({a}, 0, axis={axis})",
            f"lax.dynamic_index_in_dim({a}, 0, axis={axis}, keepdims=False)",
            f"lax.slice_in_dim({a}, 0, 2, axis={axis})",
            f"lax.concatenate([{a}, {a}], 0)",
            f"lax.squeeze({a}[:1], (0,))",
            f"{a}.reshape({value.shape[0]}, -1)",
            f"jnp.reshape({a}, (-1, {value.shape[-1]}))",
            f"jnp.outer({a}, {a})",
            f"jnp.meshgrid({a}, {a})[0]",
            f"jnp.delete({a}, 0, axis={axis})",
            f"jnp.append({a}, {a}, axis={axis})",
            f"jnp.append({a}, {a})",
            f"jnp.insert({a}, 0, 1.0, axis={axis})",
        ]
    if rank >= 2:
        options += [
            f"jnp.swapaxes({a}, 0, -1)",
            f"{a}.swapaxes(0, 1)",
            f"jnp.moveaxis({a}, 0, -1)",
            f"{a}.transpose({', '.join(map(str, reversed(range(rank))))})",
            f"jnp.transpose({a}, {tuple(reversed(range(rank)))})",
            f"jnp.diagonal({a})",
            f"jnp.trace({a})",
            f"{a}.trace()",
            f"jnp.tril({a})",
            f"jnp.diag({a})",
            f"jnp.linalg.norm({a}, axis=(0, 1))",
            f"{a}.mT",
        ]
    if rank == 1:
        options += [f"jnp.diag({a})", f"jnp.vander({a}, 3)", f"jnp.convolve({a}, {a})"]
    return w.one_of(options)  # type: ignore[no-any-return]


def indexing(w: Writer) -> str | None:
    a = w.array(lambda value: value.ndim >= 1 or w.chance(4))
    if a is None:
        return None
    rank = w.rank(a)
    parts = []
    taken = 0
    while taken < rank and not (parts and w.chance(3)):
        part = w.one_of(
            (
                "0",
                "-1",
                ":",
                ":2",
                "1:",
                "::2",
                "None",
                "IDS",
                "ROW",
                "jnp.array([0, 1])",
                "jnp.array(1)",
                "np.array([0, 1])",
            )
        )
        parts.append(part)
        taken += part != "None"
    if w.chance(3):
        parts.insert(w.integer(0, len(parts)), "...")
    if not parts:
        parts = [w.one_of(("None", "...", "()", "..., None"))]
    index = ", ".join(parts)
    update = w.one_of(("", "", "", ".at.set(0.0)", ".at.add(1.0)", ".at.get()"))
    if update:
        return f"{a}.at[{index}]{update.removeprefix('.at')}"
    return f"{a}[{index}]"


def contraction(w: Writer) -> str | None:
    a = w.array(lambda value: value.ndim >= 1)
    if a is None:
        return None
    b = w.array(lambda value: value.ndim >= 1)
    rank_a, rank_b = w.rank(a), w.rank(b or a)
    letters_a = "ijkl"[:rank_a]
    letters_b = letters_a[-1] + "mnop"[: rank_b - 1]
    result = "".join(letter for letter in letters_a + letters_b if w.chance(2))
    result = "".join(dict.fromkeys(result))
    return w.one_of(  # type: ignore[no-any-return]
        (
            f"jnp.dot({a}, {b})",
            f"jnp.matmul({a}, {b})",
            f"{a} @ {b}",
            f"{a}.dot({b})",
            f"jnp.tensordot({a}, {b}, axes=1)",
            f"jnp.tensordot({a}, {b}, axes=0)",
            f"jnp.tensordot({a}, {b}, axes=((-1,), (0,)))",
            f"jnp.tensordot({a}, {b}, 1)",
            f"jnp.vdot({a}, {b})",
            f"jnp.vdot({a}, {a})",
            f"jnp.inner({a}, {b})",
            f"jnp.outer({a}, {b})",
            f"jnp.kron({a}, {b})",
            f"jnp.einsum('{letters_a},{letters_b}->{result}', {a}, {b})",
            f"jnp.einsum('{letters_a},{letters_b}', {a}, {b})",
            f"jnp.einsum('...{letters_a[-1]},{letters_a[-1]}...->...', {a}, {b})",
            f"lax.dot_general({a}, {b}, ((({rank_a - 1},), (0,)), ((), ())))",
            f"lax.dot({a}, {b})",
        )
    )


def creation(w: Writer) -> str | None:
    a = w.array()
    options = [
        "jnp.zeros((4,))",
        "jnp.ones((2, 4))",
        "jnp.zeros(4)",
        "jnp.zeros(())",
        "jnp.full((4, 4), 2.0)",
        "jnp.arange(4.0)",
        "jnp.linspace(0.0, 1.0, 4)",
        "jnp.eye(4)",
        "jnp.identity(4)",
        "jnp.array(3.0)",
        "jnp.array([1.0, 2.0])",
        "jnp.float32(2)",
        "np.ones((4, 4)) * jnp.float32(1)",
        "jnp.asarray(np.arange(4.0), jnp.float32)",
        "jax.random.normal(jax.random.key(0), (4,))",
        "jax.random.uniform(jax.random.key(1))",
        "jax.random.normal(KEY, shape=(2, 4))",
        "lax.iota(jnp.float32, 4)",
        "lax.broadcasted_iota(jnp.float32, (4, 4), 0)",
        "jnp.asarray(TABLE)",
        "jnp.asarray(NUMPY_TABLE)",
    ]
    if a is not None:
        options += [
            f"jnp.zeros({a}.shape)",
            f"jnp.ones({a}.shape[:1])",
            f"jnp.full({a}.shape, 2.0)",
            f"jnp.ones_like({a})",
            f"jnp.full_like({a}, 3.0)",
            f"jnp.zeros({a}.shape, {a}.dtype)",
            f"jax.random.normal(KEY, {a}.shape)",
            f"jnp.zeros((*{a}.shape, 2))",
            f"jnp.empty_like({a})",
            f"jnp.array({a}.ndim * 1.0)",
        ]
    return w.one_of(options)  # type: ignore[no-any-return]


def axes_text(w: Writer) -> str | None:
    """Some of the manual axes as they are given to collectives."""
    if not w.manual:
        return None
    names = [repr(axis) for axis in w.manual]
    options = [*names, "AXIS_" + w.one_of(w.manual).upper()]
    if len(names) > 1:
        options += [f"({', '.join(names)})", f"({', '.join(names[:2])})"]
    return w.one_of(options)  # type: ignore[no-any-return]


def collective(w: Writer) -> str | None:
    a, axes = w.array(), axes_text(w)
    if a is None or axes is None:
        return None
    one = repr(w.one_of(w.manual))
    rank = w.rank(a)
    options = [
        f"lax.psum({a}, {axes})",
        f"jax.lax.pmean({a}, {axes})",
        f"lax.pmax({a}, axis_name={axes})",
        f"lax.pmin({a}, {axes})",
        f"lax.all_gather({a}, {one})",
        f"lax.all_gather({a}, {axes}, axis={w.integer(0, rank)})",
        f"lax.axis_index({one}) * {a}",
        f"lax.axis_index({one}).astype(jnp.float32)",
        f"{a} / lax.axis_size({one})",
        f"{a} / lax.psum(1, {axes})",
        f"lax.ppermute({a}, {one}, [(0, 1), (1, 0)])",
        f"lax.pshuffle({a}, {one}, (1, 0))",
        f"lax.pcast({a}, {axes}, to='varying')",
        f"lax.pmean({a}.sum(), {axes})",
    ]
    if rank >= 1:
        axis = w.integer(0, rank - 1)
        options += [
            f"lax.all_gather({a}, {one}, axis={axis}, tiled=True)",
            f"lax.psum_scatter({a}, {one}, scatter_dimension={axis}, tiled=True)",
            f"lax.psum_scatter(jnp.stack([{a}] * lax.axis_size({one})), {one})",
            f"lax.all_to_all({a}, {one}, {axis}, {w.integer(0, rank - 1)}, tiled=True)",
            f"lax.all_to_all(jnp.stack([{a}] * lax.axis_size({one})), {one}, 0, {w.integer(0, rank - 1)})",
            f"lax.dynamic_index_in_dim({a}, lax.axis_index({one}), keepdims=False)",
            f"{a}[lax.axis_index({one})]",
            f"lax.dynamic_slice_in_dim({a}, lax.axis_index({one}), 1)",
        ]
    return w.one_of(options)  # type: ignore[no-any-return]


EXPRESSIONS: tuple[tuple[int, Expression], ...] = (
    (2, elementwise),
    (2, with_number),
    (3, binary),
    (4, reduction),
    (2, special_reduction),
    (4, reshaping),
    (3, indexing),
    (3, contraction),
    (1, creation),
    (4, collective),
)
WEIGHTED: tuple[Expression, ...] = tuple(kind for weight, kind in EXPRESSIONS for _ in range(weight))


def expression(w: Writer) -> str | None:
    """One expression over what is in scope."""
    return w.one_of(WEIGHTED)(w)  # type: ignore[no-any-return]
