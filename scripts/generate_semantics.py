"""Writes ``shardfix/semantics/jax_semantics.toml`` from installed JAX versions.

    python scripts/generate_semantics.py /opt/venvs/py311/bin/python /opt/venvs/py313/bin/python

Each interpreter given is run on ``semantics_probe.py``: it calls every public callable of JAX's array modules on
abstract arrays of ranks 0 to 4 and on the argument forms that matter (``jax.eval_shape``), and under ``jax.shard_map``
to see whether its result varies over what its arguments vary over. Then each callable gets the first rule of
:mod:`shardfix.semantics.rules.library` that agrees with all that was seen in all versions. What no rule fits is listed
as unknown. A probe takes minutes; its output may be kept in a ``.json`` file and given in place of the interpreter.
"""

from __future__ import annotations

import functools
import itertools
import json
import pathlib
import subprocess
import sys

from semantics_calls import PYTREES, calls_of
from semantics_probe import SKIPPED

ROOT = pathlib.Path(__file__).parents[1]
TABLE = ROOT / "shardfix" / "semantics" / "jax_semantics.toml"

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
# Parameters that are numbers wherever JAX was seen to take no array.
NUMBERS = set(
    "k M N d deg n num kth shift offset start stop step start_index limit_index index permutation_size".split()
)
# Parameters that are structures, not arrays.
STRUCTURES = set(
    """
    key func computation init_value init_values padding_config start_indices limit_indices shape_ filter_shape
    window_dimensions base_dilation window_dilation dtype fft_type fft_lengths configs donate indices_or_sections
    precision sections s
    """.split()
)
# Parameters that some calls need under tracing, and that no rank depends on.
NEUTRAL = {"size", "length", "num_segments", "total_repeat_length"}
# What became a tuple in JAX 0.11 and was a list before.
LISTS_ONCE = {"broadcast_each", "atleast_each", "grid"}

# These give a constant for some shapes, so that their result need not vary over what their arguments do.
MAY_BE_CONSTANT = {f"jax.numpy.{name}" for name in ("array_equal", "array_equiv", "searchsorted")} | {
    "jax.Array.searchsorted"
}

BY_NAMES = """
at_least_parameter(object, ndmin)
collapse(operand, start_dimension, stop_dimension)
dot_general(lhs, rhs, dimension_numbers)
einsum(subscripts, operands)
split(ary, indices_or_sections)
split_sizes(operand, sizes)
where(condition, x, y)
svd(a, compute_uv)
svd(x, compute_uv)
qr(a, mode)
multivariate_normal(mean, cov, shape)
categorical(logits, shape)
reduce_many(operands, dimensions)
select(condlist, choicelist, default)
at_least_parameter(x, rank)
choose(a, choices)
choose(self, choices)
shaped_broadcast(shape, left, mode, right)
along_axis(arr, indices, axis)
weighted_reduction(a, b, axis, keepdims)
polynomial(p, x)
polynomial(coeffs, x)
concatenate(operands, dimension)
quantile(a, q, axis, keepdims)
index_in(operand, keepdims)
""".strip().splitlines()
"""Rules that are only tried where the parameters have these names."""


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
        parts = [covers(item, real, kinds) for item, real in zip(values, items, strict=True)]
        return None if None in parts else min([*parts, 2 if value.items is not None else 1])
    return None


def signature_text(parameters, marks=None):
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
        mark = (marks or {}).get(name, "")
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
        yield f"{'mixed' if dotted.endswith('barrier') else 'same'}_pytree({names[0]})"
    if dotted in ("jax.lax.sort", "jax.lax.reduce_window"):
        yield "one_or_many(operand)"
    if dotted.endswith("squeeze"):
        yield f"squeeze({names[0]}, {names[1]})"
    if dotted.endswith("random.choice"):
        yield "choice(a, shape)"
    if dotted == "jax.numpy.cross":
        yield "cross(a, b)"
    if dotted.endswith(".block"):
        yield "block(arrays)"
    if dotted.endswith("stack"):
        yield f"items_plus({names[0]}, 1)"
    for text in BY_NAMES:
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
                if "where" in names:
                    yield f"reduction({name}, {a}, {k}, where)"
                yield f"reduction({name}, {a}, {k})"
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
        for simple in ("matmul", "dot", "vecdot", "matvec"):
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
    if name == "key" and others != {name}:
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


def has_axes(form):
    """Whether an argument is, or holds, an array that is no scalar."""
    return any(f'"A": {rank}' in json.dumps(form) for rank in (1, 2, 3, 4))


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
        bad, outcomes = {}, []
        limit = len(optional) + 1 if best is None else len(best[1])
        for call, args, kwargs in prepared:
            outcome = covers(rank_rules.apply(row, args, kwargs), call["result"], row.rule not in LISTS_ONCE)
            given = (free & set(call["kwargs"])) - NEUTRAL - ({"mode"} if dotted.endswith("choose") else set())
            if not given:
                outcomes.append(outcome)
                if outcome is None:
                    break
            elif not outcome and not given & {name for name, mark in bad.items() if mark == "!"}:
                # Of several parameters the one to blame is not known; the first that is not known to be harmless.
                name = min(given, key=lambda name: (name in HARMLESS, name))
                bad[name] = "~" if has_axes(call["kwargs"][name]) and bad.get(name) != "!" else "!"
                if len(bad) >= limit:
                    break
        inexact = row.rule in ("cross", "unstack", "squeeze", "collapse", "split", "tensordot")
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
    marks = {name: "!" for name in optional - tried - set(row.roles) if name not in HARMLESS} | best[1]
    with_arrays = {
        name for call in calls for name, values in arguments(call, parameters).items() if any(map(has_axes, values))
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
        name for call in calls for name, values in arguments(call, parameters).items() if any(map(has_axes, values))
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
    from shardfix.semantics.rules.collectives import COLLECTIVES

    latest = {}
    for report in reports:  # a later probe of the same JAX replaces what it tried again
        known = latest.setdefault(report["version"], {"version": report["version"], "callables": {}})
        known["callables"].update(report["callables"])
    versions = sorted(latest.values(), key=lambda report: [int(part) for part in report["version"].split(".")[:3]])
    rules, unknown, alike = {}, [], []
    names = {name for report in versions for name in report["callables"]}
    for dotted in sorted(names - SKIPPED - {f"jax.lax.{name}" for name in COLLECTIVES}):
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
        rule = with_carried(chosen[0], {} if dotted in MAY_BE_CONSTANT else states)
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
        merged += [
            (name, "keyword", default or "")
            for name, kind, default in older
            if name not in names and kind != "variadic"
        ]
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
    if not arguments:
        sys.exit(__doc__)
    sys.path.insert(0, str(ROOT))
    reports = []
    for name in arguments:
        if name.endswith(".json"):  # an earlier probe
            reports.append(json.loads(pathlib.Path(name).read_text().splitlines()[-1]))
            continue
        command = [name, str(pathlib.Path(__file__).with_name("semantics_probe.py"))]
        output = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout
        reports.append(json.loads(output.splitlines()[-1]))
    write(*merge(reports))


if __name__ == "__main__":
    main(sys.argv[1:])
