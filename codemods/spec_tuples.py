"""Specs that are compared with tuples, or tested for being one.

What JAX says
    Nothing: the comparison is False, the test takes the other branch.

Why
    `PartitionSpec` was a tuple until JAX 0.6.1, and equal to one until 0.10. Iteration, length, indexing, `P(*spec)` and
    `spec + (None,)` still work; `==`, `!=` and `isinstance(spec, tuple)` silently give another answer.

Before
    import jax
    import jax.numpy as jnp
    from jax.sharding import Mesh, NamedSharding, PartitionSpec as P

    x = jax.device_put(jnp.ones(8), NamedSharding(Mesh(jax.devices(), ("data",)), P("data")))
    print(x.sharding.spec == ("data",))

After
    import jax
    import jax.numpy as jnp
    from jax.sharding import Mesh, NamedSharding, PartitionSpec as P

    x = jax.device_put(jnp.ones(8), NamedSharding(Mesh(jax.devices(), ("data",)), P("data")))
    print(x.sharding.spec == P("data"))

When it does not fix
    Comparisons are repaired with `--unsafe` only: code may count on what they give now. What `isinstance(spec, tuple)` means
    (a tuple that is no spec, a spec, either) is for the author to say. Tests that name PartitionSpec too are right.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from typing import TYPE_CHECKING, ClassVar

from shardfix.codemod import Codemod, Finding, Fix, Range, Safety
from shardfix.edits import Replace, named
from shardfix.semantics.values import Sequence, Spec

if TYPE_CHECKING:
    from shardfix.semantics.module import Module

SPECS = frozenset({"jax.sharding.PartitionSpec", "jax.P"})
SPEC_NAME = re.compile(r"(?:^|_)p?spec$")
ASSERTIONS = frozenset({"assertEqual", "assertNotEqual", "assertTupleEqual", "assert_equal"})


class SpecTuples(Codemod):
    """Compares specs with specs."""

    triggers: ClassVar[tuple[bytes, ...]] = (
        rb"spec\b[^\n]{0,80}?[!=]=",
        rb"==[^\n]{0,80}?spec\b",
        rb"!=[^\n]{0,80}?spec\b",
        rb"isinstance\(\s*[\w.]*spec\s*,",
        rb"PartitionSpec\([^()\n]*\)\s*[!=]=",
        rb"P\([^()\n]*\)\s*[!=]=",
        rb"assert\w*_?[eE]qual\([^)]*spec\b",
    )
    deprecated = "0.6.1"
    removed = "0.10.0"
    replacement_since = "0.4.1"

    def findings(self, module: Module) -> Iterator[Finding]:
        if not _uses_jax(module):
            return
        for comparison in module.nodes(ast.Compare):
            if len(comparison.ops) == 1 and isinstance(comparison.ops[0], ast.Eq | ast.NotEq):
                yield from self._pair(module, comparison.left, comparison.comparators[0])
        for call in module.nodes(ast.Call):
            if isinstance(call.func, ast.Attribute) and call.func.attr in ASSERTIONS and len(call.args) > 1:
                yield from self._pair(module, call.args[0], call.args[1])
            elif module.resolve(call.func) == {"builtins.isinstance"} and len(call.args) == 2:
                yield from self._test(module, call)

    def _pair(self, module: Module, left: ast.expr, right: ast.expr) -> Iterator[Finding]:
        for spec, other in ((left, right), (right, left)):
            if _is_spec(module, spec) and _is_tuple(module, other) and not module.is_compatibility_code(spec):
                code = _as_spec(module, other)
                fix = Fix(
                    (Replace(Range.of(other), code),), Safety.UNSAFE, "compare with a spec", self.replacement_since
                )
                message = f"a PartitionSpec is not equal to any tuple since JAX {self.removed}"
                yield self.finding(other, message, fix=fix, reason="code may count on what the comparison gives now")
                return

    def _test(self, module: Module, call: ast.Call) -> Iterator[Finding]:
        tested, kinds = call.args
        names = {
            name for kind in (kinds.elts if isinstance(kinds, ast.Tuple) else [kinds]) for name in module.resolve(kind)
        }
        if "builtins.tuple" not in names or names & SPECS or not _is_called_spec(tested):
            return
        if module.is_compatibility_code(call) or _is_leaf_test(module, call):
            return
        if not _is_used_as_spec(module, tested) or _is_tested_for_spec(module, call, module.text(tested)):
            return
        text = module.text(kinds)[1:-1].rstrip(", ") if isinstance(kinds, ast.Tuple) else module.text(kinds)
        both = Replace(Range.of(kinds), f"({text}, {named('jax.sharding.PartitionSpec')})")
        choice = Fix((both,), Safety.UNSAFE, "take a PartitionSpec too", self.replacement_since)
        message = f"a PartitionSpec is no tuple since JAX {self.deprecated}: it does not pass this test"
        reason = "if specs come here, test for PartitionSpec too; if only tuples of names do, this is right"
        yield self.finding(call, message, reason=reason, choices=(choice,))


def _uses_jax(module: Module) -> bool:
    return any(name.dotted.partition(".")[0] == "jax" for name in module.imports)


def _is_spec(module: Module, node: ast.expr) -> bool:
    """Whether ``node`` is certainly, or by all appearances, a PartitionSpec."""
    if isinstance(node, ast.Call):
        return bool(module.resolve(node.func) & SPECS)
    name = node.attr if isinstance(node, ast.Attribute) else getattr(node, "id", "")
    if "spec" not in name.lower():
        return False
    if isinstance(node, ast.Attribute) and node.attr == "spec":
        owner = node.value.attr if isinstance(node.value, ast.Attribute) else getattr(node.value, "id", "")
        if "sharding" in owner.lower():
            return True
    return isinstance(module.value_of(node), Spec)


def _is_tuple(module: Module, node: ast.expr) -> bool:
    if isinstance(node, ast.Tuple):
        return True
    if not isinstance(node, ast.Name | ast.Attribute):
        return False
    value = module.value_of(node)
    return isinstance(value, Sequence) and value.kind == "tuple"


def _as_spec(module: Module, node: ast.expr) -> str:
    spec = named("jax.sharding.PartitionSpec")
    if isinstance(node, ast.Tuple):
        return f"{spec}({', '.join(module.text(element) for element in node.elts)})"
    return f"{spec}(*{module.text(node)})"


def _is_called_spec(node: ast.expr) -> bool:
    name = node.attr if isinstance(node, ast.Attribute) else getattr(node, "id", "")
    return SPEC_NAME.search(name) is not None


def _is_used_as_spec(module: Module, tested: ast.expr) -> bool:
    """Whether the file gives ``tested`` a PartitionSpec for a value, or uses it where JAX wants one."""
    if isinstance(module.value_of(tested), Spec):
        return True
    text = module.text(tested)
    for call in module.calls_to("jax.sharding.NamedSharding"):
        spec = call.value("spec", 1)
        if (
            spec is not None
            and module.text(spec) == text
            and _function_of(module, spec) is _function_of(module, tested)
        ):
            return True
    bindings = module.reaching(tested) if isinstance(tested, ast.Name) else None
    parameters = [binding.node for binding in bindings or [] if isinstance(binding.node, ast.arg)]
    function = _function_of(module, tested)
    if len(parameters) != 1 or not isinstance(function, ast.FunctionDef) or parameters[0] not in function.args.args:
        return False
    if parameters[0].annotation is not None and "PartitionSpec" in module.text(parameters[0].annotation):
        return True
    index = function.args.args.index(parameters[0])
    for node in module.nodes(ast.Call):
        if isinstance(node.func, ast.Name) and node.func.id == function.name and index < len(node.args):
            argument = node.args[index]
            if isinstance(argument, ast.Call) and module.resolve(argument.func) & SPECS:
                return True
    return False


def _function_of(module: Module, node: ast.AST) -> ast.AST | None:
    return module.enclosing(node, ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)


def _is_leaf_test(module: Module, call: ast.Call) -> bool:
    """Whether the test tells leaves of a pytree apart, of which a PartitionSpec is one in any case."""
    for ancestor in module.ancestors(call):
        if isinstance(ancestor, ast.keyword) and ancestor.arg == "is_leaf":
            return True
        if isinstance(ancestor, ast.stmt):
            return False
    return False


def _is_tested_for_spec(module: Module, call: ast.Call, text: str) -> bool:
    """Whether the function around ``call`` asks for a PartitionSpec as well."""
    for other in ast.walk(_function_of(module, call) or module.tree):
        if isinstance(other, ast.Call) and other is not call and module.resolve(other.func) == {"builtins.isinstance"}:
            if len(other.args) == 2 and module.text(other.args[0]) == text:
                if any(module.resolve(kind) & SPECS for kind in ast.walk(other.args[1]) if isinstance(kind, ast.expr)):
                    return True
    return False
