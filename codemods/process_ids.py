"""``jax.distributed.initialize`` with a process id that is missing, negative or no int. (Found from a traceback.)

What JAX says
    ValueError: The process id of the current process must be defined.

    ValueError: process_id and num_processes must be nonnegative, with process_id < num_processes. Got process_id=-1 ...

    TypeError: process_id must be a nonnegative int. Got process_id=0 of type <class 'str'>.

Why
    Each process of a program on several hosts has a number from 0 up. It mostly comes from an environment variable, which
    is text. A program of one process is number 0.

Before
    import os
    import jax

    os.environ.setdefault("TASK_NUMBER", "0")
    jax.distributed.initialize("localhost:12355", num_processes=1, process_id=os.environ["TASK_NUMBER"])

After
    import os
    import jax

    os.environ.setdefault("TASK_NUMBER", "0")
    jax.distributed.initialize("localhost:12355", num_processes=1, process_id=int(os.environ["TASK_NUMBER"]))

When it does not fix
    With several processes only the launcher knows the number: pass ``int(os.environ[...])`` of the variable that it sets.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import TYPE_CHECKING, ClassVar

from shardfix.codemod import Codemod, Finding, Fix, Range
from shardfix.edits import SetArgument, Wrap
from shardfix.semantics.reported import reported

if TYPE_CHECKING:
    from shardfix.semantics.calls import Call
    from shardfix.semantics.module import Module
    from shardfix.tracebacks import Evidence

POSITIONS = {"num_processes": 1, "process_id": 2}


class ProcessIds(Codemod):
    triggers: ClassVar[tuple[bytes, ...]] = ()
    evidence: ClassVar[frozenset[str]] = frozenset({"process-id"})

    def findings(self, module: Module) -> Iterator[Finding]:
        for evidence, frame in reported(module, *self.evidence):
            for call in module.calls_to("jax.distributed.initialize"):
                if call.node.lineno <= frame.line <= (call.node.end_lineno or 0):
                    fix = _fix(evidence, call)
                    reason = "" if fix else 'pass int(os.environ["..."]) of the variable that your launcher sets'
                    name = evidence.argument or "process_id"
                    yield self.finding(call.node, f"{name} is not a number from 0 up", fix=fix, reason=reason)


def _fix(evidence: Evidence, call: Call) -> Fix | None:
    name = evidence.argument
    if name not in POSITIONS:
        return None
    given = call.argument(name, POSITIONS[name])
    if evidence.value_type == "str" and given is not None and given.direct:
        return Fix((Wrap(Range.of(given.value), "int(", ")"),), title="make a number of it")
    count = call.value("num_processes", POSITIONS["num_processes"])
    alone = isinstance(count, ast.Constant) and count.value == 1
    if name == "process_id" and alone and (given is None or given.name == "process_id"):
        edit = SetArgument(Range.of(call.node), "process_id", "0")
        return Fix((edit,), title="the only process is number 0")
    return None
