"""What stands against writing ``with jax.set_mesh(mesh):`` in the place of ``with mesh:``.

The two contexts are not the same: ``with mesh:`` is seen by pjit and ``with_sharding_constraint`` alone, ``jax.set_mesh`` by
everything. What each difference needs in order to show was measured on JAX 0.12; see the names of :class:`Trap`.
"""

from __future__ import annotations

import ast
import enum
import io
import os
import tokenize
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING
from weakref import WeakKeyDictionary

from shardfix.semantics.definitions import returns
from shardfix.semantics.flow import settled_bindings
from shardfix.semantics.mesh_blocks import MAX_DEPTH, MeshBlock, class_of_self, own_attribute
from shardfix.semantics.meshes import mesh_view
from shardfix.semantics.placement import is_unplaced
from shardfix.semantics.values import Constant, Dict, Number, Sequence, Sharding, Spec, Text

if TYPE_CHECKING:
    from shardfix.semantics.module import Module
    from shardfix.semantics.project import Project

__all__ = ["RESOURCES", "Obstacle", "Trap", "obstacles"]

PJIT = "jax.experimental.pjit.pjit"
JITS = frozenset({"jax.jit", PJIT})
TRACERS = frozenset(
    {
        "jax.vmap",
        "jax.grad",
        "jax.value_and_grad",
        "jax.checkpoint",
        "jax.remat",
        "jax.shard_map",
        "jax.experimental.shard_map.shard_map",
        "jax.lax.scan",
        "jax.lax.cond",
        "jax.lax.while_loop",
        "jax.lax.fori_loop",
        "jax.lax.map",
        "jax.eval_shape",
        "jax.tree.map",
        "jax.tree_util.tree_map",
    }
)
NAMED_SHARDINGS = frozenset({"jax.sharding.NamedSharding", "jax.NamedSharding"})
MAKERS = ("jax.numpy.", "jax.random.", "jax.lax.", "jax.nn.", "jax.scipy.", "jax.image.")
RESOURCES = (
    "jax.interpreters.pxla.thread_resources",
    "jax._src.mesh.thread_resources",
    "jax.experimental.maps.thread_resources",
)
MESH_READERS = (
    "jax.sharding.get_abstract_mesh",
    "jax.get_abstract_mesh",
    "jax.sharding.get_mesh",
    "jax.get_mesh",
    "jax._src.mesh.get_abstract_mesh",
    "jax._src.mesh.get_concrete_mesh",
)
PLAIN_PACKAGES = frozenset(
    "builtins numpy math operator time functools itertools collections typing dataclasses os sys logging json re random".split()
)
PLAIN_METHODS = frozenset(
    "block_until_ready tolist item sum mean min max all any copy append extend items keys values get format join split strip "
    "startswith endswith update pop setdefault shape is_fully_replicated lower compile as_text".split()
)
PLAIN_VALUES = (Constant, Number, Text, Spec, Sequence, Dict)


class Trap(enum.StrEnum):
    """What changes when ``with mesh:`` becomes ``with jax.set_mesh(mesh):``."""

    TRACED = "jax.set_mesh raises inside jit, and this block runs there"
    MAYBE_TRACED = "jax.set_mesh raises inside jit, and where this block runs is not in view"
    IN_MODULE = "jax.set_mesh raises inside jit, where methods of neural network modules run"
    MADE_INSIDE = (
        "arrays made in the block are placed on the mesh under jax.set_mesh, and then clash with in_shardings and with arrays on "
        "other devices"
    )
    READS_CONTEXT = "this file reads thread_resources, which does not see jax.set_mesh"
    READ_ELSEWHERE = "other files read thread_resources, which does not see jax.set_mesh"
    SEEN_ANEW = "get_abstract_mesh and get_mesh, which see nothing under `with mesh:`, see jax.set_mesh"
    AXIS_TYPES = "on a mesh with Explicit axes jax.set_mesh turns on sharding in types, and the axis types are not known to be Auto"
    DEFAULT_TYPES = (
        "the mesh has the default axis types of make_mesh, which are Explicit since JAX 0.9, and there jax.set_mesh turns on sharding "
        "in types: spell out axis_types first"
    )
    OUT_OF_VIEW = "the block runs code that is not in view"
    CLASH = "arrays made in the block are handed to a jitted function with in_shardings, which rejects them under jax.set_mesh"
    COMMITTED = (
        "a jitted function in the block takes arrays that may be committed to other devices, which jax.set_mesh rejects"
    )
    RESULT_PLACED = "a jitted function in the block gets its results placed over the whole mesh under jax.set_mesh"
    OTHER_MESH = "a sharding that is used in the block may name another mesh than the one that is entered, which jax.set_mesh rejects"
    BINDS_NAME = "a name is bound to the mesh that is entered, which jax.set_mesh does not give"
    PJIT = "pjit resolves its specs through this block"


@dataclass(frozen=True)
class Obstacle:
    """A reason not to write ``jax.set_mesh`` for a block."""

    trap: Trap
    node: ast.AST

    @property
    def line(self) -> int:
        return getattr(self.node, "lineno", 0)


def obstacles(module: Module, block: MeshBlock, *, moved: frozenset[ast.Call] = frozenset()) -> list[Obstacle]:
    """What stands against ``jax.set_mesh`` for a block; empty where the two contexts certainly do the same.

    Args:
        moved: calls of pjit that become calls of jit in the same fix.
    """
    scan = _Scan(module, moved, _origin(module, block.item.context_expr))
    scan.found += _around(module, block)
    for statement in block.statement.body:
        scan.look(module, statement, traced=False)
    return sorted(set(scan.found), key=lambda obstacle: (list(Trap).index(obstacle.trap), obstacle.line))


def _around(module: Module, block: MeshBlock) -> Iterator[Obstacle]:
    traced = mesh_view(module).context(block.statement).traced
    if traced:
        yield Obstacle(Trap.TRACED, block.statement)
    elif traced is None:
        trap = Trap.IN_MODULE if _is_in_module(module, block.statement) else Trap.MAYBE_TRACED
        yield Obstacle(trap, block.statement)
    if block.mesh.default_types:
        yield Obstacle(Trap.DEFAULT_TYPES, block.item.context_expr)
    elif block.mesh.types is None or set(block.mesh.types) - {"Auto"}:
        yield Obstacle(Trap.AXIS_TYPES, block.item.context_expr)
    if block.item.optional_vars is not None and not block.can_bind_before:
        yield Obstacle(Trap.BINDS_NAME, block.item.optional_vars)
    if "thread_resources" in module.source:
        for use in module.uses_of(*RESOURCES)[:1]:
            yield Obstacle(Trap.READS_CONTEXT, use)
    if "get_abstract_mesh" in module.source or "get_mesh" in module.source:
        for use in module.uses_of(*MESH_READERS)[:1]:
            yield Obstacle(Trap.SEEN_ANEW, use)
    if _is_named_elsewhere(module, "thread_resources"):
        yield Obstacle(Trap.READ_ELSEWHERE, block.statement)
    if _is_named_elsewhere(module, "get_abstract_mesh"):
        yield Obstacle(Trap.SEEN_ANEW, block.statement)


def _is_in_module(module: Module, node: ast.AST) -> bool:
    """Whether a node is in ``__call__`` or a compact method of a class that derives from a neural network library's ``Module``."""
    for function in module.ancestors(node):
        owner = module.parent(function)
        if isinstance(function, ast.FunctionDef) and isinstance(owner, ast.ClassDef):
            compact = any(
                name.rpartition(".")[2] == "compact" for one in function.decorator_list for name in module.resolve(one)
            )
            bases = {name for base in owner.bases for name in module.resolve(base)}
            libraries = {name.partition(".")[0] for name in bases if name.endswith(".Module")}
            return (compact or function.name == "__call__") and bool(libraries & {"flax", "haiku", "equinox"})
    return False


_NAMING: WeakKeyDictionary[Project, dict[str, frozenset[str]]] = WeakKeyDictionary()


def _is_named_elsewhere(module: Module, word: str) -> bool:
    """Whether the code of another file of the run holds the name ``word``; comments and strings do not count."""
    project = module.project
    naming = _NAMING.setdefault(project, {})
    mentioning = project.mentioning(word)  # asked for each time, for it is noted what an answer depends on
    if word not in naming:
        paths = (path for path in mentioning if _names(project.source(path) or "", word))
        naming[word] = frozenset(map(os.path.abspath, paths))
    return bool(naming[word] - {os.path.abspath(module.path)})


def _names(source: str, word: str) -> bool:
    try:
        return any(
            token.type == tokenize.NAME and token.string == word
            for token in tokenize.generate_tokens(io.StringIO(source).readline)
        )
    except (tokenize.TokenError, SyntaxError):
        return True


class _Scan:
    """A walk over what a block runs, into the functions of the project that it calls."""

    def __init__(self, module: Module, moved: frozenset[ast.Call], mesh: object) -> None:
        self.module = module
        self.moved = moved
        self.mesh = mesh
        """Where the mesh that is entered comes from; see :func:`_origin`."""
        self.found: list[Obstacle] = []
        self._seen: set[tuple[ast.AST, bool]] = set()
        self._depth = 0
        self._leads: ast.AST | None = None

    def note(self, module: Module, trap: Trap, node: ast.AST) -> None:
        """Take note of a trap; one in another file is shown at the call in this one that leads there."""
        if module is self.module:
            self.found.append(Obstacle(trap, node))
        else:
            self.found.append(Obstacle(trap, self._leads or node))

    def look(self, module: Module, node: ast.AST, *, traced: bool) -> None:
        """Look at a statement or expression; functions defined within are looked at where they are called."""
        for inner in _walk(node):
            if isinstance(inner, ast.Call):
                if module is self.module:
                    self._leads = inner
                self.call(module, inner, traced=traced)
            elif not traced and _may_make_array(module, inner):
                self.note(module, Trap.MADE_INSIDE, inner)
            elif isinstance(inner, ast.With | ast.AsyncWith) and inner is not node and traced:
                self.note(module, Trap.OUT_OF_VIEW, inner)

    def function(self, module: Module, node: ast.AST, *, traced: bool) -> None:
        """Look at the body of a function that is run."""
        if (node, traced) in self._seen or self._depth > MAX_DEPTH:
            return
        self._seen.add((node, traced))
        self._depth += 1
        if isinstance(node, ast.Lambda):
            self.look(module, node.body, traced=traced)
        elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            for statement in node.body:
                self.look(module, statement, traced=traced)
        self._depth -= 1

    def value(self, module: Module, node: ast.expr, *, traced: bool) -> bool:
        """Look at a function that is passed on as a value; False where it is not in view."""
        if isinstance(node, ast.Lambda):
            self.function(module, node, traced=traced)
            return True
        if isinstance(node, ast.Call) and module.resolve(node.func) & {"functools.partial"} and node.args:
            return self.value(module, node.args[0], traced=traced)
        if any(name.startswith("jax.") for name in module.resolve(node)):
            return True
        definition = module.definition(node)
        if definition is not None and isinstance(definition[1], ast.FunctionDef):
            self.function(definition[0], definition[1], traced=traced)
            return True
        if isinstance(node, ast.Name):
            bindings = settled_bindings(module, node)
            if len(bindings) == 1 and bindings[0].kind == "assignment" and bindings[0].value and not bindings[0].path:
                return self.value(module, bindings[0].value, traced=traced)
        return False

    def call(self, module: Module, call: ast.Call, *, traced: bool) -> None:
        names = module.resolve(call.func)
        if names:
            for name in names:
                self._known(module, call, name, traced=traced)
            return
        definition = module.definition(call.func)
        if definition is not None:
            self._own(module, call, *definition, traced=traced)
            return
        jitted = jit_behind(module, call.func)
        if jitted is not None:
            self._jit(jitted[0], jitted[1], call, module, traced=traced)
            return
        if isinstance(call.func, ast.Attribute) and call.func.attr in PLAIN_METHODS:
            return
        self.note(module, Trap.OUT_OF_VIEW, call)

    def _known(self, module: Module, call: ast.Call, name: str, *, traced: bool) -> None:
        """A call of something outside the project."""
        if name in MESH_READERS:
            self.note(module, Trap.SEEN_ANEW, call)
        elif name in JITS:
            self._decorated(module, call, traced=traced)
        elif name in TRACERS:
            if not all(self.value(module, value, traced=True) for value in call.args[:1]):
                self.note(module, Trap.OUT_OF_VIEW, call)
        elif name.partition(".")[0] == "jax":
            self._shardings(module, call, name)
            placed = name == "jax.device_put" and len(call.args) > 1 and _is_sharding(module, call.args[1])
            if not traced and not placed and (name.startswith(MAKERS) or name == "jax.device_put"):
                self.note(module, Trap.MADE_INSIDE, call)
        elif name.partition(".")[0] not in PLAIN_PACKAGES:
            self.note(module, Trap.OUT_OF_VIEW, call)

    def _shardings(self, module: Module, call: ast.Call, name: str) -> None:
        """The shardings and meshes that a call of JAX, or of ``partial`` of one, is given."""
        last = name.rpartition(".")[2]
        for keyword in call.keywords:
            if keyword.arg in ("in_shardings", "out_shardings", "shardings"):
                self._sharding(module, keyword.value)
            elif keyword.arg == "mesh" and _origin(module, keyword.value) != self.mesh:
                self.note(module, Trap.OTHER_MESH, keyword.value)
        if last == "with_sharding_constraint" and len(call.args) > 1:
            self._sharding(module, call.args[1])

    def _sharding(self, module: Module, node: ast.expr, depth: int = 0) -> None:
        """Take note of a sharding, or of a tree of some, that is not known to be on the mesh of the block."""
        match node:
            case ast.Constant(value=None):
                return
            case ast.Tuple(elts=parts) | ast.List(elts=parts) | ast.Dict(values=parts):
                for part in parts:
                    self._sharding(module, part, depth)
                return
            case ast.Call(func=function) if module.resolve(function) & NAMED_SHARDINGS:
                named = {keyword.arg: keyword.value for keyword in node.keywords}
                mesh = node.args[0] if node.args else named.get("mesh")
                if mesh is not None and _origin(module, mesh) == self.mesh:
                    return
            case ast.Name() if depth < MAX_DEPTH:
                bindings = settled_bindings(module, node)
                value = bindings[0].value if len(bindings) == 1 and not bindings[0].path else None
                if bindings and bindings[0].kind == "assignment" and value is not None:
                    self._sharding(module, value, depth + 1)
                    return
        if not isinstance(module.value_of(node), Spec):
            self.note(module, Trap.OTHER_MESH, node)

    def _decorated(self, module: Module, call: ast.Call, *, traced: bool) -> None:
        """``jax.jit(f, ...)``: what f does is traced."""
        self._shardings(module, call, "jax.jit")
        if call.args and not self.value(module, call.args[0], traced=True):
            self.note(module, Trap.OUT_OF_VIEW, call)

    def _own(self, module: Module, call: ast.Call, home: Module, node: ast.AST, *, traced: bool) -> None:
        """A call of a function or class of the project."""
        if isinstance(node, ast.ClassDef):
            if any(
                isinstance(item, ast.FunctionDef) and item.name in ("__init__", "__post_init__") for item in node.body
            ):
                self.note(module, Trap.OUT_OF_VIEW, call)
            return
        assert isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        if not node.decorator_list:
            self.function(home, node, traced=traced)
            return
        decorators = [decorator_names(home, decorator) for decorator in node.decorator_list]
        if not all(names and names <= JITS | TRACERS for names in decorators):
            self.note(module, Trap.OUT_OF_VIEW, call)
            return
        self.function(home, node, traced=True)
        for decorator in node.decorator_list:
            if isinstance(decorator, ast.Call):
                self._shardings(home, decorator, "jax.jit")
        outermost = node.decorator_list[0]
        if decorators[0] <= JITS:
            made = outermost if isinstance(outermost, ast.Call) else None
            self._arguments(module, call, home, made, node, is_pjit=PJIT in decorators[0], traced=traced)

    def _jit(self, home: Module, made: ast.Call, call: ast.Call, module: Module, *, traced: bool) -> None:
        """A call of what ``jax.jit(...)`` gave."""
        self._decorated(home, made, traced=traced)
        function = made.args[0] if made.args else None
        is_pjit = PJIT in home.resolve(made.func)
        self._arguments(module, call, home, made, function, is_pjit=is_pjit, traced=traced)

    def _arguments(
        self,
        module: Module,
        call: ast.Call,
        home: Module,
        made: ast.Call | None,
        function: ast.AST | None,
        *,
        is_pjit: bool,
        traced: bool,
    ) -> None:
        """What a jitted function is given, and where its results lie."""
        if traced:
            return
        arguments = [*call.args, *(keyword.value for keyword in call.keywords)]
        given = {keyword.arg for keyword in made.keywords} if made is not None else set()
        places_arguments = bool(given & {"in_shardings", "in_axis_resources"}) or (
            is_pjit and made is not None and len(made.args) > 1
        )
        if places_arguments and any(_is_made_here(module, call, argument) for argument in arguments):
            self.note(module, Trap.CLASH, call)
        if is_pjit:
            if made is None or made not in self.moved:
                self.note(module, Trap.PJIT, call)
            return
        for argument in arguments:
            if not (isinstance(argument, ast.Constant) or is_unplaced(module, argument, depth=1)):
                self.note(module, Trap.COMMITTED, argument)
        constrained = function is not None and any(
            isinstance(inner, ast.Call)
            and any(name.endswith(("with_sharding_constraint", "shard_map")) for name in home.resolve(inner.func))
            and not _is_conditional(home, inner, function)
            for inner in ast.walk(function)
        )
        if "out_shardings" not in given and not constrained:
            self.note(module, Trap.RESULT_PLACED, call)


def _is_conditional(module: Module, node: ast.AST, function: ast.AST) -> bool:
    """Whether a node of a function may not be run when the function is."""
    child = node
    for ancestor in module.ancestors(node):
        if child is function:
            return False
        if isinstance(ancestor, ast.If | ast.IfExp | ast.While | ast.For | ast.Try | ast.Match | ast.BoolOp):
            return True
        child = ancestor
    return False


def _origin(module: Module, mesh: ast.expr, depth: int = 0) -> object:
    """Where a mesh comes from: equal for two expressions that mean the same one; equal to nothing else where that is not known."""
    match mesh:
        case ast.Name() if depth < MAX_DEPTH:
            bindings = settled_bindings(module, mesh)
            if len(bindings) != 1 or bindings[0].path:
                return mesh
            binding = bindings[0]
            if binding.kind in ("assignment", "with") and binding.value is not None:
                return _origin(module, binding.value, depth + 1)
            return binding.dotted or binding.node
        case ast.Attribute(value=ast.Name() as owner, attr=name):
            cls = class_of_self(module, owner)
            return (cls, name) if cls is not None else mesh
    return mesh


def _walk(node: ast.AST) -> Iterator[ast.AST]:
    """The nodes of a statement without the bodies of functions, lambdas and classes inside it."""
    stack = [node]
    while stack:
        current = stack.pop()
        yield current
        if isinstance(current, ast.Lambda):
            continue
        if isinstance(current, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            stack.extend(current.decorator_list)
            continue
        stack.extend(ast.iter_child_nodes(current))


def decorator_names(module: Module, decorator: ast.expr) -> frozenset[str]:
    """What a decorator applies: ``{"jax.jit"}`` for ``@jax.jit``, ``@jax.jit(...)`` and ``@partial(jax.jit, ...)``."""
    if isinstance(decorator, ast.Call):
        names = module.resolve(decorator.func)
        if names & {"functools.partial"} and decorator.args:
            return module.resolve(decorator.args[0])
        return names
    return module.resolve(decorator)


def jit_behind(module: Module, function: ast.expr, depth: int = 0) -> tuple[Module, ast.Call] | None:
    """The call of jit or pjit whose result ``function`` is: written on the spot, bound to a name, or returned by a function."""
    if depth > MAX_DEPTH:
        return None
    if isinstance(function, ast.Name):
        bindings = settled_bindings(module, function)
        if len(bindings) == 1 and bindings[0].kind == "assignment" and bindings[0].value and not bindings[0].path:
            return jit_behind(module, bindings[0].value, depth + 1)
        return None
    if isinstance(function, ast.Attribute) and isinstance(function.value, ast.Name):
        values = own_attribute(module, function)
        return jit_behind(module, values[0], depth + 1) if len(values) == 1 else None
    if not isinstance(function, ast.Call):
        return None
    names = module.resolve(function.func)
    if names and names <= JITS:
        return module, function
    definition = module.definition(function.func)
    home, node = definition or (module, None)
    if isinstance(node, ast.FunctionDef) and not node.decorator_list:
        found = [jit_behind(home, value.value, depth + 1) for value in returns(node) if value.value is not None]
        if len(found) == 1 and found[0] is not None:
            return found[0]
    return None


def _may_make_array(module: Module, node: ast.AST) -> bool:
    """Whether an operation may be one on arrays, whose result JAX makes where it stands."""
    match node:
        case ast.BinOp():
            return not isinstance(module.value_of(node), PLAIN_VALUES)
        case ast.UnaryOp(op=ast.USub() | ast.Invert(), operand=operand):
            return not isinstance(module.value_of(operand), PLAIN_VALUES)
        case ast.AugAssign(target=target):
            return not (isinstance(target, ast.Name) and isinstance(node.value, ast.Constant))
        case ast.Subscript(slice=index, ctx=ast.Load()):
            return not (isinstance(index, ast.Constant) and isinstance(index.value, str))
        case ast.Compare():
            parent = module.parent(node)
            return not isinstance(parent, ast.If | ast.While | ast.Assert | ast.BoolOp | ast.IfExp)
    return False


def _is_made_here(module: Module, call: ast.Call, argument: ast.expr, depth: int = 0) -> bool:
    """Whether an argument is an array that JAX makes within the same block as the call."""
    if isinstance(argument, ast.Call):
        return any(name.startswith(MAKERS) for name in module.resolve(argument.func))
    if isinstance(argument, ast.BinOp):
        return _may_make_array(module, argument)
    if not isinstance(argument, ast.Name) or depth > MAX_DEPTH:
        return False
    around = {node for node in module.ancestors(call) if isinstance(node, ast.With | ast.AsyncWith)}
    return any(
        binding.kind == "assignment"
        and binding.value is not None
        and not binding.path
        and around & set(module.ancestors(binding.node))
        and _is_made_here(module, call, binding.value, depth + 1)
        for binding in settled_bindings(module, argument)
    )


def _is_sharding(module: Module, node: ast.expr) -> bool:
    return isinstance(module.value_of(node), Sharding)
