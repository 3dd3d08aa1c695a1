"""The interpreter on one feature of the language or of JAX at a time; JAX says what each program gives."""

from __future__ import annotations

import textwrap
import time
from pathlib import Path

import pytest

pytest.importorskip("jax")

import jax
from strategies.judge import Program, judge

from shardfix.semantics.module import Module
from shardfix.semantics.project import Project
from shardfix.semantics.values import Array, Sequence, as_array

pytestmark = pytest.mark.skipif(jax.device_count() != 8, reason="JAX was imported without eight CPU devices")

TOP = """
import contextlib
import dataclasses
import functools
import operator
from functools import partial
from typing import NamedTuple
import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.experimental import pallas as pl
from jax.sharding import AxisType, PartitionSpec as P
MESH = jax.make_mesh((4, 2), ("x", "y"), axis_types=(AxisType.Auto,) * 2)
"""
MAIN = """
mapped = jax.shard_map(body, mesh=MESH, in_specs=(P("x", "y"), P()), out_specs=P(), check_vma={checked})
def main():
    return mapped(jnp.sin(jnp.arange(128.0)).reshape(16, 8), jnp.ones(4))
"""


def program(body: str, top: str = "", checked: bool = True, **files: str) -> Program:
    """``body`` is the code of a function of ``a``, a block of 4 by 4 that varies over both axes, and ``b``, four ones."""
    code = (
        TOP
        + textwrap.dedent(top)
        + "\ndef body(a, b):\n"
        + textwrap.indent(textwrap.dedent(body).strip(), "    ")
        + "\n"
    )
    others = tuple((name + ".py", TOP + textwrap.dedent(text)) for name, text in files.items())
    return Program((*others, ("main.py", code + MAIN.format(checked=checked))), checked)


def known(body: str, top: str = "", checked: bool = True, **files: str) -> None:
    """JAX contradicts nothing, and everything is known of every output."""
    subject = program(body, top, checked, **files)
    count = judge(subject)
    assert not count.contradictions
    assert count.leaves, f"JAX did not come to the map: {count.rejections}"
    assert count.both == count.leaves, f"{count} of\n{subject}"


def sound(body: str, top: str = "", checked: bool = True, **files: str) -> None:
    """JAX contradicts nothing, whatever is known."""
    count = judge(program(body, top, checked, **files))
    assert not count.contradictions
    assert count.leaves, f"JAX did not come to the map: {count.rejections}"


def cases(text: str) -> dict[str, str]:
    """Bodies by name: each begins with its name in a comment."""
    sections = [section.partition("\n") for section in text.strip().removeprefix("# ").split("\n\n# ")]
    return {name: body for name, _, body in sections}


CONTAINERS = cases("""
# tuple
t = (a, b.sum())
return t[0], t[-1], t[::-1][0], (t + (b,))[2]

# unpacking
p, (q, r) = a, (b, b.sum())
first, *rest = [p, q, r]
*start, end = (a, b)
return first, end

# list
xs = [a, b]
xs.append(a.sum())
xs.extend([b[None]])
last = xs.pop()
return xs[2], last, jnp.stack(xs[1:2])

# list alias
xs = [a]
ys = xs
ys.append(b)
ys[0] = a.sum()
return xs[0], xs[1]

# list in a helper
def add(xs):
    xs[0] = a.sum(0)
xs = [b]
add(xs)
return xs[0]

# dict
d = {'p': a, **{'q': b}}
d['r'] = a.sum()
d.update(s=b.mean())
q = d.pop('q')
return d, d['r'], d.get('p'), q

# dict methods
d = dict(p=a, q=b)
return [v.sum() for v in d.values()], {k: v.sum(0) for k, v in d.items()}, list(d)[0] == 'p' and a

# nested
return {'p': (a, [b, b.sum()]), 'q': Pair(b, a.T)}

# named tuple
pair = Pair(left=a, right=b.sum())
l, r = pair
return pair, pair.left, pair[1], pair._replace(left=b), r

# dataclass
s = State(a, scale=b)
t = dataclasses.replace(s, x=b.sum())
return t, t.x, s.total(), s.first

# comprehension
return [x.sum() for x in (a, b)], tuple(x * i for i, x in enumerate([a, b])), [x + y for x, y in zip([a], [b])]

# comprehension of pairs
return {k: v.sum() for k, v in [('p', a), ('q', b)]}

# sum
return sum([a, b]), sum(x.sum() for x in (a, b)), functools.reduce(lambda p, q: p + q, [a, b, 1.0])

# map and zip
return list(map(jnp.sum, (a, b))), [p * q for p, q in zip((a, b), (b, b))]

# slices
xs = [a, b, a.sum()]
return xs[1:], xs[:-1][0], len(xs) * b, xs[-1]

# star in display
xs = (a, b)
return (*xs, b.sum()), [*xs][1]

# none
c = None
return (a if c is None else b), (b if a is None else a.sum())

# set of axes
return lax.psum(a, tuple(n for n in ('x', 'y'))), lax.psum(a, ('x',) + ('y',))
""")
RECORDS = """
class Pair(NamedTuple):
    left: jax.Array
    right: jax.Array

@jax.tree_util.register_dataclass
@dataclasses.dataclass
class State:
    x: jax.Array
    scale: jax.Array = dataclasses.field(default=1.0)
    def total(self):
        return self.x.sum() + self.scale
    @property
    def first(self):
        return self.x[0]
"""


@pytest.mark.parametrize("body", CONTAINERS.values(), ids=CONTAINERS)
def test_containers(body: str) -> None:
    known(body, RECORDS)


FUNCTIONS = cases("""
# helper
def f(x, y=None, *, keep=True):
    return x.sum(0, keepdims=keep) if y is None else x + y
return f(a), f(a, b), f(a, keep=False)

# closure
c = a.sum(0)
def f(x):
    return x * c
return f(b)

# late closure
c = a
def f():
    return c
c = b.sum()
return f()

# nested closure
def outer(x):
    def inner(y):
        return x[:, None] * y
    return inner
return outer(b)(b)

# lambda
f = lambda x, n=2: x ** n
return f(a), (lambda *xs: xs[1])(a, b)

# partial
def f(x, y, z):
    return x + y.sum() * z
return partial(f, a)(b, 2.0), partial(f, y=b, z=1)(a)

# star arguments
def f(*xs, **options):
    return xs[0].sum(**options)
return f(*(a, b), axis=0), f(*[a], **{'axis': 1})

# defaults see definition
n = 0
def f(x, axis=n):
    return x.sum(axis)
n = None
return f(a)

# method
layer = Layer(b)
return layer(a), layer.apply(a), layer.scale, Layer.twice(b)

# base class
return Wide(b).apply(a), Wide(b)(a)

# super
return Deep(b).apply(a), Deep(b).scale, Deep(b).bias

# record set up
return Prepared(a).value, Prepared(a, other=b).other, Prepared(a).other

# static and property
return Layer(b).double

# recursion
def f(n, x):
    return x if n == 0 else f(n - 1, x)
return a, b

# decorator
@jax.jit
def f(x):
    return x.sum()
@partial(jax.vmap, in_axes=1)
def g(x):
    return x.sum()
return f(a), g(a)

# wraps
@functools.wraps(jnp.sum)
def f(x):
    return x.sum(0)
return f(a)

# early return
def f(x):
    if x.ndim == 2:
        return x.sum(0)
    return x
return f(a), f(b)

# globals
return a * SCALE, a.sum(AXES[0]), TABLE['axis'] * b

# walrus
return (c := a.sum(0)), c * 2

# global axis
return lax.psum(a, NAMES), lax.psum(a, NAMES[0])
""")
CLASSES = """
SCALE = np.ones(4)
AXES = [0, 1]
TABLE = dict(axis=2.0)
NAMES = ("x", "y")

class Layer:
    factor = 2.0
    def __init__(self, scale, bias=1.0):
        self.scale = scale
        self.bias = bias
    def __call__(self, x):
        return self.apply(x).sum(0)
    def apply(self, x):
        return x * self.scale + self.bias * self.factor
    @staticmethod
    def twice(x):
        return x * 2
    @property
    def double(self):
        return self.scale * 2

@dataclasses.dataclass
class Prepared:
    value: jax.Array
    _: dataclasses.KW_ONLY
    other: object = 2.0
    made: object = dataclasses.field(init=False, default=None)
    def __post_init__(self):
        self.value = self.value[None]
        self.made = self.value.sum()

class Deep(Layer):
    def __init__(self, scale):
        super().__init__(scale.sum(), bias=2.0)
    def apply(self, x):
        return super().apply(x)[None]

class Wide(Layer):
    def apply(self, x):
        return super().apply(x) if False else x[None] * self.scale
"""


@pytest.mark.parametrize("body", FUNCTIONS.values(), ids=FUNCTIONS)
def test_functions(body: str) -> None:
    known(body, CLASSES)


CONTROL = cases("""
# for
for i in range(3):
    a = a @ a
    b = b + i
return a, b

# for with break
x = a
for i in range(2):
    x = x * 2
    if i:
        break
return x

# while
n = 0
while n < 3:
    n += 1
    a = a + b
return a, n

# for over a list
total = 0.0
for x in [a, b]:
    total = total + x.sum()
return total

# append in a loop
xs = []
for i in range(3):
    xs.append(a.sum(0))
return jnp.stack(xs), xs[0]

# try
try:
    c = a.sum(0)
except ValueError:
    c = lax.pcast(b, ('x', 'y'), to='varying')
finally:
    d = b
return c, d

# with
with jax.named_scope('s'):
    c = a.sum(0)
return c

# known branches
if True:
    c = a
else:
    c = b
d = a if KEEP else b
return c, d, a if not KEEP else b

# equal branches
if a.shape[0] > 2:
    c = a.sum(0)
else:
    c = a.sum(1)
return c

# ndim
if a.ndim == 2:
    c = a.sum()
else:
    c = a
return c, b if len(a.shape) > 1 else a

# match
match 1:
    case 1:
        c = a.sum(0)
    case _:
        c = a.sum(1)
return c

# assert
assert a.ndim == 2, 'no'
return a.sum()

# boolean
c = None
return (c or 2) * b, (c is None and KEEP) * b
""")


@pytest.mark.parametrize("body", CONTROL.values(), ids=CONTROL)
def test_control_flow(body: str) -> None:
    known(body, "KEEP = True\n")


TRAPS = cases("""
# break before a change
x = a
for i in range(3):
    x = x.sum(0)
    if a.shape[0] > 2:
        break
    x = x[None] * b
return x

# continue
x = a
for i in range(2):
    if i == SCALE:
        x = x.sum()
        continue
    x = x[None]
return x

# growing
x = b
for i in range(3):
    x = x[None]
return x

# rank by branch
if FLAG['on']:
    x = a.sum()
else:
    x = a
return x

# try that fails
try:
    x = a
    x = x.reshape(3, 3, 3)
except TypeError:
    pass
return x

# suppressed
x = a
with contextlib.suppress(TypeError):
    x = b.sum()
    x = x.reshape(3, 3)
    x = a[None]
return x

# nonlocal
x = a
def f():
    nonlocal x
    x = b.sum()
f()
return x

# global
change()
return a * WEIGHT

# list through a helper
xs = [a]
ys = {'q': xs}
def f(d):
    d['q'].append(b)
    d['q'][0] = b.sum()
f(ys)
return xs[0], xs[-1]

# list changed by a branch of a helper
xs = [a]
def f():
    if FLAG['on']:
        xs[0] = b.sum()
f()
return xs[0]

# bound append
xs = []
add = xs.append
add(a)
add(b)
return xs[0], xs[-1]

# attribute of a shared object
box = Box(a)
other = box
other.value = b.sum()
return box.value

# attribute set by a method
box = Box(a)
box.reset(b)
return box.value

# augmented
xs = [a]
ys = xs
ys += [b]
return xs[-1]

# finally
x = a
for i in range(2):
    try:
        break
    finally:
        x = b.sum()
return x

# loop over nothing
x = a
for i in []:
    x = b.sum()
return x

# else of a loop
x = a
for i in range(2):
    x = x.sum(keepdims=True)
else:
    x = x.sum()
return x

# shadowed builtin
sum = lambda xs: xs[0]
return sum([a, b])

# shadowed function
def f(x):
    return x
if FLAG['on']:
    def f(x):
        return x.sum()
return f(a)

# del
d = {'p': a}
del d['p']
d['p'] = b.sum()
return d['p']

# comprehension variable
x = a
ys = [x.sum() for x in (a, b)]
return x, ys[1]

# argument none
def f(x, mask=None):
    return x.sum() if mask is None else x
return f(a), f(a, b)

# unpacked array
p, q, r, s = a
return p, [row.sum() for row in a]

# generator
def rows():
    yield a
    yield b
return list(rows())[1]

# match binds
match (a, b):
    case (x, y):
        pass
return y

# jacobian of what varies
return jax.jacrev(lambda x: x.sum(0))(a), jax.jacfwd(lambda x: x * a)(b)

# what vjp and linearize give
value, pull = jax.vjp(lambda x, y: x * y, a, b)
out, push = jax.linearize(jnp.sum, a)
return pull(value), push(a)

# list in two lists
inner = [a]
xs, ys = [inner], [inner]
inner.append(b)
xs[0][0] = b.sum()
return ys[0][0], inner[-1]

# alias of a list that holds another
inner = [a]
xs = [inner]
ys = xs
inner.append(b)
xs.append(a)
return ys[-1], len(ys) * b

# alias after a branch
inner = [a]
xs = [inner]
if FLAG["on"]:
    inner[0] = b
inner[0] = b.sum()
return xs[0][0]

# default that grows
def f(x, seen=[]):
    seen.append(x)
    return seen[0]
f(b)
return f(a)

# setattr
box = Box(b)
setattr(box, "value", a)
return box.value

# property with a setter
box = Locked(b)
box.value = a
return box.value

# method bound before a change
box = Box(a)
read = box.read
box.value = b.sum()
return read()

# else after a break
for i in range(3):
    x = a
    if i == SCALE:
        break
else:
    x = b.sum()
return x

# class attribute changed
Box.values.append(a)
Box.values[0] = b.sum()
return Box.values[0]

# raised after a change
xs = [a]
def f():
    xs[0] = b
    raise ValueError
try:
    f()
except ValueError:
    pass
return xs[0]

# made by __new__
return Made(a)

# attribute through __getattribute__
return Watched(a).value

# descriptor
return Described(a).value

# returned early from __init__
return Early(a).value

# __init__ that helpers change
return Helped(a).value, Helped(a).other

# set after the record was made
return Record(a).value

# class in a function
SCALE = b[None]
class Inner:
    def scaled(self, x):
        return x * SCALE
return Inner().scaled(b)

# method set on an object
box = Box(a)
box.read = lambda: b
return box.read()

# module through a module
import other
other.put(a)
other.items[0] = b.sum()
return other.items[0], other.level()

# barrier
return lax.optimization_barrier((a, b)), lax.optimization_barrier({"p": b})

# handed to code out of view
hidden = operator.itemgetter(0)
xs, d, box = [a], {"p": a}, Box(a)
hidden([lift_first])(xs)
hidden([lift_p])(d)
hidden([lift_value])(box)
return xs[0], d["p"], box.value

# handed on by name
hidden = operator.itemgetter(0)
d = {"p": a}
inner = [d]
hidden([lift_p])(*inner)
hidden([lift_p])(d=inner[0])
return d["p"]

# changed by a closure out of view
hidden = operator.itemgetter(0)
xs = [a]
def lift():
    xs[0] = b.sum()
hidden([lambda f: f()])(lift)
return xs[0]

# kept by an object out of view
hidden = operator.itemgetter(0)
xs = [a]
keeper = hidden([Keeper])(xs)
keeper.lift()
return xs[0]

# stored in an object out of view
hidden = operator.itemgetter(0)
xs = [a]
box = hidden([Box])(b)
box.value = xs
lift_first(box.value)
return xs[0]

# stored in itself
box = Box(a)
box.me = box
box.value = a
box.me.value = b.sum()
return box.value

# list in itself
xs = [a, b]
xs[1] = xs
xs[1][0] = b.sum()
return xs[0]

# stored in each other
left, right = Box(a), Box(b)
left.other = right
right.other = left
right.other.value = b.sum()
return left.value

# changed by a recursive call
def lift(xs, depth):
    if depth:
        lift(xs, depth - 1)
    else:
        xs[0] = xs[0].sum()
ys = [a]
lift(ys, 2)
return ys[0]

# handed to itself out of view
hidden = operator.itemgetter(0)
xs = [a]
def lift(again):
    xs[0] = b.sum()
    hidden([again])(lift)
    hidden([again])(lower)
def lower(again):
    xs[0] = b
    hidden([again])(lift)
hidden([lambda f: f(lambda g: None)])(lift)
return xs[0]

# changed by a generator
def rows(xs):
    xs[0] = xs[0].sum()
    yield xs
ys = [a]
list(rows(ys))
return ys[0]

# changed by numpy
ys = [a, a]
operator.setitem(ys, 0, b.sum())
return ys[0]

# blurred, then changed under two names
def maybe():
    if SCALE:
        xs[0] = b
xs = [a]
ys = xs
maybe()
ys[0] = a
xs[0] = b.sum()
return ys[0]

# inherited out of view
class Loud(operator.itemgetter(0)([Box])):
    pass
box = Loud(a)
box.reset(b)
return box.value

# known subject
match "sum":
    case "mean" | "max":
        out = a
    case "sum" if SCALE:
        out = b.sum()
    case other:
        out = b
return out

# known subject that comes first
def f(x, mode="keep"):
    match mode:
        case "keep":
            return x
        case _:
            return x.sum()
return f(a), f(a, "sum"), f(a, mode=str(SCALE))

# conditional import
try:
    from absent import f
except ImportError:
    f = lambda x: x.sum()
return f(a)
""")
TRAP_CLASSES = """
SCALE = 1
FLAG = {"on": True}
WEIGHT = 2.0
def change():
    global WEIGHT
    WEIGHT = np.ones((4, 4, 4))

class Box:
    values = []
    def __init__(self, value):
        self.value = value
    def read(self):
        return self.value
    def reset(self, value):
        self.value = value

class Made:
    def __new__(cls, value):
        return value.sum()
    def __init__(self, value):
        self.value = value

class Watched:
    def __init__(self, value):
        self.value = value
    def __getattribute__(self, name):
        return object.__getattribute__(self, name).sum()

class Total:
    def __get__(self, owner, kind):
        return owner.held.sum()
    def __set__(self, owner, value):
        owner.held = value

class Described:
    value = Total()
    def __init__(self, value):
        self.value = value

class Early:
    value = 2.0
    def __init__(self, value):
        if FLAG["on"]:
            return
        self.value = value

def fix(helped):
    helped.other = helped.other.sum()

class Helped:
    def __init__(self, value):
        self.value = self.other = value
        self.set_up()
        fix(self)
    def set_up(self):
        object.__setattr__(self, "value", self.value.sum())

@dataclasses.dataclass(frozen=True)
class Record:
    value: object
    def __post_init__(self):
        object.__setattr__(self, "value", self.value.sum())

def lift_first(xs):
    xs[0] = xs[0].sum()

def lift_p(d):
    d["p"] = d["p"].sum()

def lift_value(box):
    box.value = box.value.sum()

class Keeper:
    def __init__(self, items):
        self.items = items
    def lift(self):
        self.items[0] = self.items[0].sum()

class Locked:
    def __init__(self, value):
        self._value = value
    @property
    def value(self):
        return self._value.sum()
    @value.setter
    def value(self, value):
        self._value = value[0]
"""


@pytest.mark.parametrize("body", TRAPS.values(), ids=TRAPS)
def test_traps(body: str) -> None:
    other = "items = []\ndef put(x):\n    items.append(x)\ndef level():\n    return items[-1]\n"
    sound(body, TRAP_CLASSES, other=other)


TRANSFORMS = cases("""
# jit
return jax.jit(lambda x: x.sum())(a), jax.jit(jnp.sum)(b)

# vmap
return jax.vmap(jnp.sum)(a), jax.vmap(lambda x, y: x * y, in_axes=(0, None))(a, b), jax.vmap(jnp.sum, in_axes=1)(a)

# vmap of keywords
return jax.vmap(lambda x, y: x + y)(a, y=a)

# vmap out_axes
return jax.vmap(lambda x: (x, x.sum()), out_axes=(1, 0))(a), jax.vmap(lambda x: 1.0)(b), jax.vmap(jax.vmap(jnp.sin))(a)

# vmap of containers
return jax.vmap(lambda d: d['p'] + d['q'], in_axes=({'p': 0, 'q': None},))({'p': a, 'q': b})

# grad
f = lambda x, y: jnp.sum(x * y)
return jax.grad(f)(a, b), jax.grad(f, argnums=1)(a, b), jax.grad(f, argnums=(0, 1))(a, b)

# value_and_grad
return jax.value_and_grad(lambda x: x.sum())(a)

# has_aux
f = lambda x: (x.sum(), {'aux': x[0]})
return jax.grad(f, has_aux=True)(a), jax.value_and_grad(f, has_aux=True)(a)

# grad of a tree
return jax.grad(lambda p: (p['w'] * p['v']).sum())({'w': a, 'v': b})

# jacobians
return jax.jacfwd(lambda x: x * 2)(b), jax.jacrev(lambda x: x.sum())(b), jax.hessian(lambda x: x.sum())(b)

# checkpoint
return jax.checkpoint(lambda x: x.sum(0))(a), jax.remat(jnp.sin)(b)

# custom_jvp
@jax.custom_jvp
def f(x):
    return x.sum(0)
@f.defjvp
def rule(primals, tangents):
    return f(*primals), f(*tangents)
return f(a)

# custom_vjp
@jax.custom_vjp
def f(x):
    return x.sum(0)
f.defvjp(lambda x: (f(x), x), lambda x, g: (x * g,))
return f(a)

# jvp and vjp
return jax.jvp(jnp.sin, (a,), (a,))[0], jax.vjp(jnp.sin, b)[0]

# scan
def f(c, x):
    return c + x, x.sum()
return lax.scan(f, a[0], a)

# scan without xs
return lax.scan(lambda c, _: (c * 2, c), b, None, length=3)

# scan of pairs
def f(c, x):
    p, n = c
    return (p + x, n + 1), (p, None)
return lax.scan(f, (a[0], 0), a)

# scan of a dict
return lax.scan(lambda c, x: ({'m': c['m'] + x}, c['m']), {'m': a[0]}, xs=a)

# lax.map
return lax.map(jnp.sum, a), jax.lax.map(lambda t: t[0] * t[1], (a, a))

# while_loop
return lax.while_loop(lambda c: c[1] < 3, lambda c: (c[0] * 2, c[1] + 1), (b, 0))

# fori_loop
return lax.fori_loop(0, 3, lambda i, c: c + i, b)

# cond
return lax.cond(b.sum() > 0, lambda x: x, lambda x: x * 2, a), lax.cond(True, lambda: b, lambda: b * 2)

# switch
return lax.switch(1, [lambda x: x, jnp.sin], a), lax.switch(0, (lambda: b, lambda: b))

# associative_scan
return lax.associative_scan(jnp.add, a), lax.associative_scan(lambda p, q: (p[0] + q[0], p[1] * q[1]), (a, a))

# tree.map
t = {'p': a, 'q': (b, 1.0)}
return jax.tree.map(jnp.sum, t), jax.tree_util.tree_map(lambda p, q: p + q, t, t), sum(jax.tree.leaves((b, b)))

# tree.reduce
return jax.tree.reduce(lambda p, q: p + q, (b, b.sum()))

# collectives
return lax.psum(a, 'x'), lax.pmean(a, ('x', 'y')), lax.all_gather(a, 'x'), lax.all_gather(a, 'y', tiled=True), lax.axis_index('x')

# more collectives
return lax.ppermute(a, 'x', [(0, 1)]), lax.psum_scatter(a, 'x', tiled=True), lax.pcast(b, 'x', to='varying')

# all_to_all
return lax.all_to_all(a, 'x', 0, 1, tiled=True), lax.all_to_all(a, 'x', split_axis=1, concat_axis=0)

# axis_size
return lax.axis_size('x') * b, lax.psum(1, 'x') * b, a / lax.axis_size(('x', 'y'))

# updates
return a.at[0].set(b), b.at[0].add(a.sum()), a.at[:, 0].get()

# numpy
return np.ones((4, 4)) * b, jnp.asarray(np.arange(4.0)), b * np.pi, np.zeros(4)[None] + a

# functions of vjp and linearize
value, pull = jax.vjp(lambda x, y: x * y, b, b)
out, push = jax.linearize(jnp.sum, b)
return value, out

# named_call
return jax.named_call(lambda x: x.sum(), name='n')(a)

# stop_gradient
return lax.stop_gradient({'p': a}), lax.stop_gradient((a, b))
""")


@pytest.mark.parametrize("body", TRANSFORMS.values(), ids=TRANSFORMS)
def test_transforms(body: str) -> None:
    known(body)


@pytest.mark.parametrize("body", [*TRANSFORMS.values(), *CONTROL.values()], ids=[*TRANSFORMS, *CONTROL])
def test_unchecked(body: str) -> None:
    sound(body, "KEEP = True\n", checked=False)


def test_kernels() -> None:
    """A kernel of Pallas gives what its shapes say."""
    body = """
    struct = jax.ShapeDtypeStruct((4,), b.dtype)
    first = pl.pallas_call(lambda x, *out: None, out_shape=[struct] * 2, interpret=True)
    second = partial(pl.pallas_call, interpret=True)(lambda x, out: None, out_shape=struct)
    return first(b), second(b), pl.pallas_call(lambda x, out: None, out_shape={"p": struct}, interpret=True)(b)["p"]
    """
    count = judge(program(body, checked=False))
    assert not count.contradictions
    assert count.ranks == count.leaves == 4


NESTED = """
def inner(x):
    return x.sum(0, keepdims=True) * LATE
LATE = 2.0
def outer(a):
    c = a.sum()
    f = jax.shard_map(lambda x: x + c, in_specs=P("y"), out_specs=P("y"), axis_names={"y"})
    g = jax.shard_map(lambda x: lax.psum(x, "y"), in_specs=P("y"), out_specs=P(), axis_names={"y"})
    return f(a), g(a)
nested = jax.shard_map(outer, mesh=MESH, in_specs=P("x"), out_specs=P("x"), axis_names={"x"})
def main():
    return nested(jnp.ones((16, 8)))
"""


def test_nested_maps() -> None:
    count = judge(Program((("main.py", TOP + NESTED),)))
    assert not count.contradictions
    assert count.maps >= 6
    assert count.both  # the call in view; at the outer map the blocks may be of any rank


SMAP = """
@jax.smap(in_axes=(0, None), out_axes=(0, None), axis_name="x")
def total(a, b):
    return a.sum(0, keepdims=True), lax.psum(a, "x") + b
def main():
    with jax.set_mesh(jax.make_mesh((8,), ("x",))):
        return jax.eval_shape(total, jax.device_put(jnp.ones((8, 4)), jax.P("x")), jnp.ones(4))
"""


def test_smap() -> None:
    count = judge(Program((("main.py", TOP + SMAP),)))
    assert not count.contradictions


OTHER_MODULES = {
    "import": ("import tools", "tools.total(a), tools.Layer(b)(a), tools.AXES"),
    "import as": ("import tools as t", "t.total(a), t.again(b)"),
    "from": ("from tools import total, Layer as L", "total(a), L(b)(a)"),
    "inside": ("", "(lambda: __import__ and b)()"),
}


@pytest.mark.parametrize(("statement", "result"), OTHER_MODULES.values(), ids=OTHER_MODULES)
def test_other_modules(statement: str, result: str) -> None:
    known(
        f"return {result}",
        statement,
        more="""
        SCALE = 3.0
        def again(x):
            return x[None]
        """,
        tools="""
        from more import again, SCALE
        AXES = 2.0
        def total(x):
            return x.sum(0) * SCALE
        class Layer:
            def __init__(self, scale):
                self.scale = scale
            def __call__(self, x):
                return again(x) * self.scale
        """,
    ) if statement else known(
        "def f():\n    from tools import total\n    return total(a)\nreturn f()",
        tools="def total(x):\n    return x.sum(0)\n",
    )


def test_packages(tmp_path: Path) -> None:
    """Relative imports, a ``src`` layout and an ``__init__`` that re-exports."""
    package = tmp_path / "src" / "model"
    (package / "layers").mkdir(parents=True)
    (tmp_path / "pyproject.toml").touch()
    (package / "__init__.py").write_text(
        "from .layers import dense\nfrom model.layers.dense import total as grand_total\n"
    )
    (package / "layers" / "__init__.py").write_text("from .dense import *\nfrom . import dense\n")
    (package / "layers" / "dense.py").write_text("import jax.numpy as jnp\n\n\ndef total(x):\n    return jnp.sum(x)\n")
    use = (
        "import jax\nfrom jax.sharding import PartitionSpec as P\nfrom {}\n\n\n"
        "f = jax.shard_map(lambda x: {}(x), mesh=mesh, in_specs=P('x'), out_specs=P('x'))\n"
    )
    for statement, name in (
        ("model import grand_total as t", "t"),
        ("model.layers.dense import total", "total"),
        ("model.layers import total", "total"),
        ("model import dense", "dense.total"),
    ):
        path = tmp_path / "train.py"
        path.write_text(use.format(statement, name))
        module = Project(files=(str(path),)).module_at(str(path))
        assert module is not None
        assert [as_array(run.result).rank.exact for run in module.trace.maps] == [0], statement
    inside = package / "layers" / "step.py"
    inside.write_text(use.format(".dense import total", "total"))
    module = Project(files=(str(inside),)).module_at(str(inside))
    assert module is not None
    assert [as_array(run.result).rank.exact for run in module.trace.maps] == [0]


def test_names_bound_anew_after_the_map() -> None:
    """At the map it is not known what a name will be when the mapped function is called."""
    source = (
        TOP
        + """
AXIS = 0
def body(x):
    return x.sum(AXIS)
f = jax.shard_map(body, mesh=MESH, in_specs=P("x"), out_specs=P())
AXIS = None
"""
    )
    run = Module(source).trace.maps[0]
    assert as_array(run.result).rank.exact is None


@pytest.mark.parametrize(
    "source",
    [
        "def f(x):\n"
        + "".join(f"    x{i} = x + {i} * x{i - 1 if i else ''}\n" for i in range(20_000))
        + "    return x\n",
        "".join(f"def f{i}(x):\n    return f{i + 1}(f{i + 1}(x))\n" for i in range(2_000)),
        "def f(x):\n    return " + "(" * 80 + "x" + " + x)" * 80 + "\n",
        "def f(x):\n"
        + "".join("    " * i + f"    for i{i} in range(9):\n" for i in range(15))
        + "    " * 16
        + "x = x[None]\n    return x\n",
        "def f(x):\n    return " + " + ".join(["x"] * 600) + "\n",
        "def f(x):\n"
        + "".join(f"    if x.shape[{i}]:\n        x = x * {i}\n" for i in range(3_000))
        + "    return x\n",
        "def f(x, d={}):\n" + "".join(f"    d['k{i}'] = x\n" for i in range(5_000)) + "    return d\n",
        "def f(x):\n    xs = []\n" + "".join("    xs = [xs, xs]\n" for i in range(200)) + "    return xs\n",
    ],
    ids=["lines", "calls", "parentheses", "loops", "terms", "branches", "items", "doubling"],
)
def test_bounded(source: str) -> None:
    """Code of any size is given up, not waited for."""
    name = "f0" if "def f0" in source else "f"
    start = time.process_time()
    module = Module(f"{TOP}{source}\ng = jax.shard_map({name}, mesh=MESH, in_specs=P('x'), out_specs=P('x'))\n")
    assert module.trace.maps is not None
    assert time.process_time() - start < 10


def test_unknown_calls_are_unknown() -> None:
    source = (
        TOP
        + """
import flax.linen as nn
import optax
def body(x, params):
    y = nn.Dense(3).apply(params, x)
    return y, optax.global_norm(params), jnp.sum(y)
f = jax.shard_map(body, mesh=MESH, in_specs=P("x"), out_specs=P())
"""
    )
    result = Module(source).trace.maps[0].result
    assert isinstance(result, Sequence)
    assert result.items is not None
    assert [as_array(item).rank.exact for item in result.items] == [None, None, 0]
    assert isinstance(result.items[2], Array)
    assert result.items[2].varying.at_most is None
