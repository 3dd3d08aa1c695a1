"""The abstract interpreter, a reader's path: ``core`` runs code, with ``expressions`` and ``statements`` for each kind of it;
``trace`` is what a run leaves behind, ``jax_calls`` and its sister modules know what calls outside the project give, ``maps``
runs mapped functions on their blocks."""

from shardfix.semantics.interpreter.trace import Carry, Environment, Evaluation, FunctionRun, MapRun, ReturnFact, Trace

__all__ = [
    "Carry",
    "Environment",
    "Evaluation",
    "FunctionRun",
    "MapRun",
    "ReturnFact",
    "Trace",
]
