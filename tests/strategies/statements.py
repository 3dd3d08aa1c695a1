"""Statements: containers, helpers, control flow and transforms, each written with the code inside it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
from hypothesis import strategies as st

from strategies.expressions import expression
from strategies.writer import Writer, fits, indented, is_float_array, varying_axes

Statement = Callable[[Writer], object]
DEEPEST = 4


def block(w: Writer, low: int, high: int) -> None:
    """Some statements."""
    for _ in range(w.integer(low, high)):
        statement(w)


def statement(w: Writer) -> None:
    if w.depth >= DEEPEST or not w.chance(3):
        w.assign(expression(w))
    else:
        w.one_of(STATEMENTS)(w)


# Functions


def function(
    w: Writer,
    parameters: dict[str, Any],
    finish: Callable[[Writer], str | None],
    *,
    decorator: str = "",
    home: str | None = None,
) -> str | None:
    """Write a function and give its name; ``finish`` writes the returned expression.

    ``home`` says where: in this block, in the module, or in the helpers' module; drawn by default.
    """
    home = home or w.one_of(("here", "here", "module", "helpers", "imported"))
    book = w.book
    if w.module is book.helpers and home != "here":
        home = "module"
    module = {"here": None, "module": w.module}.get(home, book.helpers)
    inner = w.child(**parameters) if module is None else w.outside(module, **parameters)
    block(inner, 1, 3)
    returned = finish(inner)
    if returned is None:
        return None
    name = w.new("f")
    signature = ", ".join(parameters)
    if w.chance(6):
        signature += ", *, scale=2.0"
    lines = [f"def {name}({signature}):", *indented(inner.lines), f"    return {returned}"]
    if decorator:
        lines.insert(0, decorator)
    if module is None:
        return name if w.try_lines(lines) else None
    inner.parent = w if module is w.module else None
    inner.define(name, lines)
    if home == "helpers":
        return f"helpers.{name}"
    if home == "imported":
        w.try_lines([f"from helpers import {name}"])
    return name


def last(w: Writer) -> str | None:
    """One of the youngest arrays."""
    return w.array()


def several(w: Writer) -> str | None:
    first, second = w.array(), w.array()
    return first and w.one_of((f"{first}, {second}", f"({first}, {second})", f"{{'a': {first}, 'b': {second}}}"))


def scalar(w: Writer) -> str | None:
    """An expression of rank 0."""
    a = w.array()
    return a and w.one_of((f"jnp.sum({a})", f"jnp.mean({a} ** 2)", f"{a}.sum()", f"jnp.vdot({a}, {a})"))


def early_return(w: Writer) -> str | None:
    a = w.array()
    other = w.array()
    if a is None:
        return None
    condition = w.one_of(
        (f"{a}.ndim == 2", "SCALE > 1", f"{a}.shape == ()", f"isinstance({a}, int)", f"len({a}.shape) > 5")
    )
    w.lines += [f"if {condition}:", f"    return {other}"]
    return a


def helper(w: Writer) -> object:
    a = w.array()
    b = w.array()
    if a is None or b is None:
        return None
    first, second = w.new("p"), w.new("p")
    several_results = w.chance(3)
    finish = several if several_results else w.one_of((last, last, early_return, scalar))
    name = function(w, {first: w.namespace[a], second: w.namespace[b]}, finish)
    if name is None:
        return None
    call = w.one_of(
        (
            f"{name}({a}, {b})",
            f"{name}({a}, {second}={b})",
            f"{name}({second}={b}, {first}={a})",
            f"{name}(*({a}, {b}))",
            f"{name}(*[{a}, {b}])",
            f"{name}(**{{'{first}': {a}, '{second}': {b}}})",
            f"partial({name}, {a})({b})",
            f"partial({name}, {second}={b})({a})",
            f"jax.jit({name})({a}, {b})",
            f"jax.checkpoint({name})({a}, {b})",
            f"jax.named_call({name}, name='n')({a}, {b})",
            f"(lambda *args: {name}(*args))({a}, {b})",
            f"(lambda x, *rest: {name}(x, *rest))({a}, {b})",
            f"functools.wraps({name})(lambda p, q: {name}(p, q))({a}, {b})",
        )
    )
    result = w.assign(call)
    if result is not None and several_results:
        unpack(w, result)
    return None


def method_call(w: Writer) -> object:
    """A class of the module, an instance of it, and a call of its method."""
    a, b = w.array(), w.array()
    if a is None or b is None:
        return None
    inner = w.outside(w.module, x=w.namespace[b], scale=w.namespace[a])
    block(inner, 1, 2)
    result = inner.array()
    if result is None:
        return None
    name = w.new("Layer")
    entry = w.one_of(("__call__", "apply"))
    lines = [
        f"class {name}:",
        "    def __init__(self, scale, factor=2.0):",
        "        self.scale = scale",
        "        self.factor = factor",
        "",
        f"    def {entry}(self, x):",
        "        scale = self.scale",
        *indented(indented(inner.lines)),
        f"        return {result} * self.factor",
    ]
    w.define(name, lines)
    call = f"{name}({a})" if entry == "__call__" else f"{name}({a}).apply"
    return w.assign(f"{call}({b})")


def decorated(w: Writer) -> object:
    a = w.array()
    if a is None:
        return None
    decorator = w.one_of(
        (
            "@jax.jit",
            "@partial(jax.jit, inline=True)",
            "@jax.checkpoint",
            "@jax.named_call",
            "@jax.custom_jvp",
            "@jax.jit",
        )
    )
    name = function(w, {w.new("p"): w.namespace[a]}, w.one_of((last, several)), decorator=decorator, home="here")
    return name and w.assign(f"{name}({a})")


# Containers


def unpack(w: Writer, name: str) -> None:
    value = w.namespace.get(name)
    if isinstance(value, tuple) and not hasattr(value, "_fields") and len(value) >= 2:
        first, second = w.new(), w.new()
        star = "*" if w.chance(4) else ""
        if w.try_lines([f"{first}, {star}{second} = {name}"]):
            w.own += [first, second]
    elif isinstance(value, dict):
        w.assign(f"{name}[{w.one_of(list(value))!r}]")


def container(w: Writer) -> object:
    a, b = w.array(), w.array()
    if a is None:
        return None
    kind = w.one_of(("tuple", "list", "dict", "pair", "state", "dict_call", "nested"))
    name = {
        "tuple": lambda: w.assign(f"({a}, {b})"),
        "list": lambda: w.assign(f"[{a}, {b}, {a}]"),
        "dict": lambda: w.assign(f"{{'a': {a}, 'b': {b}}}"),
        "pair": lambda: w.assign(f"Pair({a}, {b})"),
        "state": lambda: w.assign(f"State(left={a}, right={b})"),
        "dict_call": lambda: w.assign(f"dict(a={a}, b={b})"),
        "nested": lambda: w.assign(f"{{'a': ({a}, [{b}]), 'b': Pair(left={b}, right={a})}}"),
    }[kind]()
    if name is None:
        return None
    uses = {
        "tuple": (
            f"{name}[0]",
            f"{name}[-1]",
            f"{name}[::-1][0]",
            f"({name} + ({a},))[2]",
            f"sum({name})",
            f"tuple(x * 2 for x in {name})[1]",
        ),
        "list": (
            f"{name}[1]",
            f"sum([x.sum() for x in {name}])",
            f"[x * i for i, x in enumerate({name})][2]",
            f"list(map(jnp.sum, {name}))[0]",
            f"[x + y for x, y in zip({name}, {name})][0]",
            f"jnp.stack([x.sum() for x in {name}])",
            f"functools.reduce(lambda x, y: x + y, {name})",
            f"jnp.concatenate([x.ravel() for x in {name}])",
            f"max([x.ndim for x in {name}]) * {a}",
        ),
        "dict": (
            f"{name}['b']",
            f"{name}.get('a')",
            f"{{**{name}, 'a': {b}}}['a']",
            f"list({name}.values())[0]",
            f"sum({name}.values())",
            f"{{k: v.sum() for k, v in {name}.items()}}['a']",
        ),
        "pair": (f"{name}.left", f"{name}[1]", f"{name}._replace(left={b}).left"),
        "state": (f"{name}.left", f"dataclasses.replace({name}, left={b}).left", f"{name}.total()", f"{name}.first"),
        "dict_call": (f"{name}['a']", f"(lambda a, b: a)(**{name})"),
        "nested": (f"{name}['a'][1][0]", f"{name}['b'].right"),
    }[kind]
    if w.chance(4):
        mapped = w.assign(
            w.one_of(
                (
                    f"jax.tree.map(lambda x: x.sum(), {name})",
                    f"jax.tree.map(jnp.add, {name}, {name})",
                    f"jax.tree_util.tree_map(lambda x: x[None], {name})",
                    f"jax.tree.map(lambda x, y: x * y.sum(), {name}, {name})",
                )
            )
        )
        if mapped is not None:
            return mapped
    if kind in ("tuple", "dict") and w.chance(3):
        return unpack(w, name)
    if kind == "list" and w.chance(3):
        w.try_lines([f"{name}.append({b}.sum())"])
    if kind == "dict" and w.chance(3):
        w.try_lines([f"{name}['b'] = {b}.sum()"])
    return w.assign(w.one_of(uses))


def leaves(w: Writer) -> object:
    a, b = w.array(), w.array()
    return a and w.assign(
        w.one_of(
            (
                f"sum(jax.tree.leaves(({a}, {b})))",
                f"jax.tree.leaves([{a}, {b}])[0]",
                f"jax.tree.reduce(lambda x, y: x + y, ({a}, {b}))",
                f"jax.tree.map(lambda x: x.mean(), {{'p': {a}}})['p']",
            )
        )
    )


# Control flow of Python


def condition(w: Writer, name: str) -> str:
    return w.one_of(  # type: ignore[no-any-return]
        (
            "SCALE > 1",
            f"{name}.ndim == 2",
            f"{name}.shape[-1:] == (4,)",
            "KEEP",
            "FLAGS['deep']",
            f"{name} is None",
            f"len({name}.shape) > 1",
        )
    )


def branch(w: Writer) -> object:
    """An if in which a name is bound twice, perhaps with different ranks."""
    a = w.array()
    if a is None:
        return None
    test = condition(w, a)
    arms = [w.child(), w.child()]
    name = w.new()
    texts = []
    for arm in arms:
        block(arm, 0, 1)
        result = arm.array()
        texts.append([*arm.lines, f"{name} = {result}"])
    lines = [f"if {test}:", *indented(texts[0]), "else:", *indented(texts[1])]
    if w.chance(4):
        lines = [f"{name} = {a}", f"if {test}:", *indented(texts[0])]
    if w.try_lines(lines):
        w.own.append(name)
    return None


def conditional(w: Writer) -> object:
    a, b = w.array(), w.array()
    return a and w.assign(f"{a} if {condition(w, b or a)} else {b}")


def loop(w: Writer) -> object:
    """A loop that changes an array from round to round."""
    a = w.array()
    if a is None:
        return None
    name, item = w.new(), w.new("i")
    body = w.child(**{name: w.namespace[a], item: 1})
    body.own.remove(item)
    block(body, 1, 2)
    result = body.array()
    update = w.one_of(
        (
            f"{name} = {result}",
            f"{name} = {name} + {result}.sum()",
            f"{name} += {result}.mean()",
            f"{name} = {name} * 0.5 + {result}",
            f"{name} = {name}[None]",
            f"{name} = {name}.sum(0, keepdims=True)",
        )
    )
    lines = [*body.lines, update]
    if w.chance(3):
        lines.append(
            w.one_of(
                (f"if {item} == 1:\n    break", f"if {name}.ndim > 2:\n    break", f"if {item} == 0:\n    continue")
            )
        )
        lines = "\n".join(lines).split("\n")
        if w.chance(2):
            lines.append(
                w.one_of(
                    (
                        f"{name} = {name}[0] if {name}.ndim else {name}",
                        f"{name} = {name}.sum()",
                        f"{name} = {name}[None]",
                    )
                )
            )
    header = w.one_of(
        (
            f"for {item} in range(2):",
            f"for {item} in (0, 1):",
            f"for {item} in range(int(SCALE)):",
            f"for {item}, _ in enumerate([3, 4]):",
        )
    )
    text = [f"{name} = {a}", header, *indented(lines)]
    if w.chance(4):
        text = [f"{name} = {a}", f"{item} = 0", f"while {item} < 2:", f"    {item} += 1", *indented(lines)]
    if w.try_lines(text):
        w.own.append(name)
    return None


def collected(w: Writer) -> object:
    a = w.array()
    if a is None:
        return None
    name = w.new("xs")
    body = w.child()
    block(body, 0, 1)
    result = body.array()
    if w.try_lines([f"{name} = []", "for i in range(2):", *indented(body.lines), f"    {name}.append({result})"]):
        w.assign(
            w.one_of(
                (
                    f"jnp.stack({name})",
                    f"{name}[0]",
                    f"sum({name})",
                    f"jnp.concatenate({name})",
                    f"{name}[-1] * len({name})",
                )
            )
        )
    return None


def attempt(w: Writer) -> object:
    a, b = w.array(), w.array()
    if a is None:
        return None
    name = w.new()
    first = w.child()
    block(first, 0, 1)
    lines = w.one_of(
        (
            [
                "try:",
                *indented(first.lines),
                f"    {name} = {first.array()}",
                "except ValueError:",
                f"    {name} = {b}",
            ],
            ["try:", f"    {name} = {a}.reshape(3, 5, 7)", "except TypeError:", f"    {name} = {b}.sum()"],
            ["try:", f"    {name} = FLAGS['absent']", "except KeyError:", f"    {name} = {b}", "finally:", "    pass"],
            [
                f"match {a}.ndim:",
                "    case 0:",
                f"        {name} = {a}",
                "    case 1 | 2:",
                f"        {name} = {b}",
                "    case _:",
                f"        {name} = {a}.sum()",
            ],
            [f"match ({a}, {b}):", "    case (x, y):", f"        {name} = x", "    case _:", f"        {name} = 0.0"],
            ["with jax.named_scope('scope'):", f"    {name} = {a} * 2"],
        )
    )
    if w.try_lines(lines):
        w.own.append(name)
    return None


def rebind(w: Writer) -> object:
    """A new value for a name that is known already."""
    a, b = w.array(), w.array()
    return (
        a
        and b
        and w.try_lines(
            [
                w.one_of(
                    (
                        f"{a} = {b}",
                        f"{a} = {a}.sum()",
                        f"{a} = jnp.expand_dims({a}, 0)",
                        f"{a} += 1.0",
                        f"{a}, other = {b}, {a}",
                    )
                )
            ]
        )
    )


def nonlocal_change(w: Writer) -> object:
    a = w.array()
    if a is None:
        return None
    name, inner = w.new(), w.new("f")
    lines = [f"{name} = {a}", f"def {inner}():", f"    return {name}.sum()", f"{name} = {name}[None]"]
    if w.try_lines(lines):
        w.own.append(name)
        w.assign(f"{inner}()")
    return None


# Transforms


def vmapped(w: Writer) -> object:
    a = w.array(lambda value: value.ndim >= 1)
    if a is None:
        return None
    rank = w.rank(a)
    axis = w.integer(0, rank - 1)
    axis = axis - rank if w.chance(4) else axis
    first = w.new("p")
    parameters = {first: jnp.take(w.namespace[a], 0, axis=axis)}
    second = w.array() if w.chance(2) else None
    axes, arguments = str(axis), a
    if second is not None:
        parameters[w.new("p")] = w.namespace[second]
        axes, arguments = f"({axis}, None)", f"{a}, {second}"
    two = w.chance(4)
    name = function(w, parameters, several if two else last)
    if name is None:
        return None
    options = [f"in_axes={axes}"] if axes != "0" or w.chance(2) else []
    if w.chance(3):
        options.append(f"out_axes={w.one_of(('0', '1', '-1', '(0, 1)' if two else '0'))}")
    decorated = w.chance(4)
    call = f"jax.vmap({', '.join([name, *options])})({arguments})"
    if decorated:
        call = f"partial(jax.vmap, {', '.join(options)})({name})({arguments})"
    result = w.assign(call)
    if result is not None and two:
        unpack(w, result)
    return None


def gradient(w: Writer) -> object:
    a, b = w.array(), w.array()
    if a is None or b is None:
        return None
    kind = w.one_of(("grad", "value_and_grad"))
    aux = w.chance(3)

    def loss(inner: Writer) -> str | None:
        value = scalar(inner)
        return value and (f"{value}, {inner.array()}" if aux else value)

    name = function(w, {w.new("p"): w.namespace[a], w.new("p"): w.namespace[b]}, loss)
    if name is None:
        return None
    options = [w.one_of(("argnums=0", "argnums=1", "argnums=(0, 1)", "argnums=(0,)"))] if w.chance(2) else []
    if aux:
        options.append("has_aux=True")
    result = w.assign(f"jax.{kind}({', '.join([name, *options])})({a}, {b})")
    if result is not None and isinstance(w.namespace[result], tuple):
        unpack(w, result)
    return None


def jacobian(w: Writer) -> object:
    a = w.array(lambda value: value.size <= 16)
    if a is None:
        return None
    kind = w.one_of(("jacfwd", "jacrev", "hessian", "jvp", "vjp", "linearize"))
    name = function(w, {w.new("p"): w.namespace[a]}, scalar if kind == "hessian" else last)
    if name is None:
        return None
    text = {
        "jvp": f"jax.jvp({name}, ({a},), ({a},))[{w.integer(0, 1)}]",
        "vjp": f"jax.vjp({name}, {a})[0]",
        "linearize": f"jax.linearize({name}, {a})[0]",
    }.get(kind, f"jax.{kind}({name})({a})")
    return w.assign(text)


def matching(inner: Writer, carry: str, value: Any) -> str | None:
    """An expression with the type of the carry ``value``."""
    other = inner.array(
        lambda known: fits(known, value) and known.ndim <= value.ndim and varying_axes(known) <= varying_axes(value)
    )
    return w_text if (w_text := f"{carry} * 0.5 + {other}") and other else f"{carry} * 0.5"


def carried(w: Writer, a: str) -> str | None:
    """A carry to start from: an array in scope, or zeros made to vary as it does."""
    options = [a, f"jnp.zeros_like({a})", f"jnp.sum({a})"]
    if w.chance(4):
        options.append("jnp.zeros(())")
    return w.assign(w.one_of(options))


def scan(w: Writer) -> object:
    a = w.array(lambda value: value.ndim >= 1)
    b = w.array()
    init = b and carried(w, b)
    if a is None or init is None:
        return None
    carry, x = w.new("c"), w.new("x")
    pair = w.chance(3)
    value = w.namespace[init]

    def finish(inner: Writer) -> str | None:
        after = matching(inner, carry, value)
        return f"{after}, {inner.one_of((inner.array(), 'None', f'({inner.array()}, {inner.array()})'))}"

    def finish_pair(inner: Writer) -> str | None:
        return f"({matching(inner, f'{carry}[0]', value)}, {carry}[1] + 1), {inner.array()}"

    bound = {carry: (value, 0), x: w.namespace[a][0]} if pair else {carry: value, x: w.namespace[a][0]}
    name = function(w, bound, finish_pair if pair else finish)
    if name is None:
        return None
    start = f"({init}, 0)" if pair else init
    result, ys = w.new(), w.new()
    call = w.one_of((f"lax.scan({name}, {start}, {a})", f"jax.lax.scan(f={name}, init={start}, xs={a})"))
    if w.try_lines([f"{result}, {ys} = {call}"]):
        w.own += [result, ys]
        if pair:
            unpack(w, result)
    return None


def loops(w: Writer) -> object:
    b = w.array()
    init = b and carried(w, b)
    if init is None:
        return None
    carry = w.new("c")
    value = w.namespace[init]
    kind = w.one_of(("fori", "while"))
    if kind == "fori":
        name = function(w, {w.new("i"): jnp.int32(1), carry: value}, lambda inner: matching(inner, carry, value))
        return name and w.assign(f"lax.fori_loop(0, {w.one_of(('2', 'int(SCALE)'))}, {name}, {init})")
    name = function(w, {carry: value}, lambda inner: matching(inner, carry, value))
    test = w.one_of(
        ("lambda c: jnp.sum(lax.psum(c, AXES)) < 3", "lambda c: jnp.all(jnp.isnan(c))", "lambda c: c.sum() > 1e9")
    )
    return name and w.assign(f"lax.while_loop({test.replace('AXES', repr(w.manual))}, {name}, {init})")


def mapped(w: Writer) -> object:
    a = w.array(lambda value: value.ndim >= 1)
    if a is None:
        return None
    name = function(w, {w.new("p"): w.namespace[a][0]}, last)
    return name and w.assign(w.one_of((f"lax.map({name}, {a})", f"jax.lax.map({name}, {a}, batch_size=2)")))


def branches(w: Writer) -> object:
    a, b = w.array(), w.array()
    if a is None or b is None:
        return None
    parameter = w.new("p")
    value = w.namespace[a]

    def arm(inner: Writer) -> str | None:
        return matching(inner, parameter, value)

    first = function(w, {parameter: value}, arm)
    second = f"(lambda {parameter}: {parameter} * 2)" if w.chance(2) else function(w, {parameter: value}, arm)
    if first is None or second is None:
        return None
    test = w.one_of(
        (f"{b}.sum() > 0", "True", f"jnp.any({b} > 0)", "jnp.array(True)", f"lax.psum({b}.sum(), {w.manual!r}) > 0")
    )
    return w.assign(
        w.one_of(
            (
                f"lax.cond({test}, {first}, {second}, {a})",
                f"jax.lax.cond({test}, lambda: {first}({a}), lambda: {second}({a}))",
                f"lax.switch(({test}).astype(int) if hasattr({test}, 'astype') else 1, [{first}, {second}], {a})",
                f"lax.cond(pred={test}, true_fun={first}, false_fun={second}, operand={a})"
                if w.chance(3)
                else f"lax.cond({test}, {first}, {second}, {a})",
            )
        )
    )


def associative(w: Writer) -> object:
    a = w.array(lambda value: value.ndim >= 1)
    b = w.array(lambda value: value.ndim == 0)
    options = [
        f"lax.associative_scan(jnp.add, {a})",
        f"lax.associative_scan(lambda x, y: x * y, {a}, axis=0)",
        f"lax.associative_scan(jnp.maximum, ({a}, {a}))[0]",
    ]
    if b is not None:
        options.append(f"lax.associative_scan(lambda x, y: x + y * {b}, {a})")
    return a and w.assign(w.one_of(options))


def custom(w: Writer) -> object:
    """A function with a custom derivative rule."""
    a = w.array()
    if a is None:
        return None
    name = function(w, {"x": w.namespace[a]}, last, decorator="@jax.custom_vjp", home="here")
    if name is None:
        return None
    w.try_lines([f"{name}.defvjp(lambda x: ({name}(x), x), lambda residual, g: (residual * g.sum(),))"])
    return w.assign(f"{name}({a})")


def nested_map(w: Writer) -> object:
    """A shard_map over the mesh axes that are not manual yet."""
    free = [axis for axis in w.book.mesh_axes if axis not in w.manual]
    a = w.array(lambda value: value.ndim >= 1 and value.shape[0] == 4)
    if not free or not w.manual or a is None:
        return None
    axis = w.one_of(free)
    inner_name, parameter = w.new("f"), w.new("p")
    spec = w.one_of((f"P('{axis}')", "P()"))
    found: list[tuple[list[str], str, str]] = []

    def generate(value: Any) -> tuple[()]:
        inner = w.child(**{parameter: value})
        inner.manual = (axis,)
        block(inner, 1, 3)
        result = inner.array()
        if result is not None:
            array = inner.namespace[result]
            axes = varying_axes(array) - set(w.manual)
            out = f"P('{axis}')" if axes and array.ndim else "P()"
            found.append((inner.lines, result, out))
        return ()

    try:
        jax.shard_map(generate, in_specs=eval(spec, w.namespace), out_specs=(), axis_names={axis})(w.namespace[a])
    except Exception as error:
        w.book.rejections.append(("nested", str(error)))
    if not found:
        return None
    lines, result, out = found[0]
    text = [f"def {inner_name}({parameter}):", *indented(lines), f"    return {result}"]
    new = w.new()
    text.append(f"{new} = jax.shard_map({inner_name}, in_specs={spec}, out_specs={out}, axis_names={{'{axis}'}})({a})")
    if w.try_lines(text):
        w.own.append(new)
    return None


STATEMENTS: tuple[Statement, ...] = (
    helper,
    helper,
    helper,
    method_call,
    decorated,
    container,
    container,
    container,
    leaves,
    branch,
    conditional,
    loop,
    loop,
    collected,
    attempt,
    rebind,
    nonlocal_change,
    vmapped,
    vmapped,
    gradient,
    gradient,
    jacobian,
    scan,
    scan,
    loops,
    mapped,
    branches,
    associative,
    custom,
    nested_map,
)

__all__ = ["block", "function", "is_float_array", "st", "statement"]
