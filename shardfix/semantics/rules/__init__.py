"""The library of named rules by which JAX's functions get the rank of their result from their arguments.

``jax_semantics.toml`` says which function follows which rule; :mod:`shardfix.semantics.rank_rules` applies it.
A rule is a pure function of bound arguments (:class:`shardfix.semantics.rules.arguments.Bound`). It gives ranks only;
over which mesh axes a result varies follows from the arguments alike for all rules, except for collectives.
"""
