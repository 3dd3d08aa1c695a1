"""What JAX's error says about the program: which function, which output, which rank."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, fields
from functools import cached_property
from typing import Any

from shardfix.tracebacks.known import KnownError, Pattern, table
from shardfix.tracebacks.log import readings
from shardfix.tracebacks.reader import Frame, ReportedError, errors_in

__all__ = ["Evidence", "Recognised", "evidence_of", "rank_of", "recognise", "spec_entries", "summary"]


@dataclass(frozen=True)
class Evidence:
    """One fault, as JAX reported it. A field is None (or empty) where the message does not say.

    Codemods get it as ``module.evidence`` and declare the kinds that they take.
    """

    kind: str
    """The name of the error in ``errors.toml``: ``output-rank``, ``sharding-type``, ..."""
    path: str = ""
    """The file of the innermost frame in the user's code, as it was printed. For the errors of a mapped function this is
    where that function is *called*."""
    line: int = 0
    """The line there, from 1; 0 where no frame is known."""
    frames: tuple[Frame, ...] = ()
    """The user's frames, innermost first, then further places that the message names."""
    function: str | None = None
    """The mapped or jitted function, by its ``__name__``. Never one of JAX's own."""
    api: str | None = None
    """The function of JAX as its message names it, which need not be the one that was called (``dot_general`` for ``dot``)."""
    argument: str | None = None
    """The parameter of JAX's function that is at fault: ``out_specs``, ``out_sharding``, ``check_rep``."""
    parameter: str | None = None
    """The parameter of the user's function that the argument is bound to."""
    key_path: str | None = None
    """Where in the outputs or arguments: ``[1]['loss']``, empty for the whole. Under grad and vmap it counts from the
    transformed function's outputs, so it is a hint."""
    spec_path: str | None = None
    """Where in the specs; shorter than ``key_path`` where one spec stands for several leaves."""
    spec: str | None = None
    """The spec as it was printed: ``P('i',)`` or ``PartitionSpec('i',)``."""
    shape: str | None = None
    """The array's type as it was printed: ``float32[8@x,16]{V:i}``."""
    rank: int | None = None
    """The rank of the value at fault, where the message decides it."""
    axis: str | None = None
    """The one axis name that is at fault."""
    axes: tuple[str, ...] = ()
    """The axes in question, or those that would be allowed."""
    value: str | None = None
    """The offending value as ``str()`` gives it: a string shows no quotes."""
    value_type: str | None = None
    old: str | None = None
    """The dotted name that is gone or deprecated."""
    new: str | None = None
    """What JAX says to use."""
    details: tuple[tuple[str, str], ...] = ()
    """Whatever else the message says, by name."""

    @property
    def spec_entries(self) -> tuple[Any, ...] | None:
        """The entries of ``spec`` as in :class:`shardfix.semantics.values.Spec`; None where they cannot be read."""
        return spec_entries(self.spec) if self.spec else None

    @cached_property
    def known(self) -> Mapping[str, str]:
        """Every field and detail that is known, as text."""
        result = {f.name: getattr(self, f.name) for f in fields(self) if f.name not in ("details", "frames")}
        result["axes"] = ", ".join(map(repr, self.axes))
        # An empty path stands for the whole value: true, but nothing to put into a sentence.
        known = {name: str(value) for name, value in result.items() if value not in (None, "", ())}
        if self.spec_path == "":
            known["spec_path"] = ""
        return known | dict(self.details)


@dataclass(frozen=True)
class Recognised:
    """An error with what was made of it: ``known`` and ``evidence`` are empty where it is not in the table."""

    error: ReportedError
    known: KnownError | None = None
    evidence: tuple[Evidence, ...] = ()

    @property
    def frames(self) -> tuple[Frame, ...]:
        """The frames in the user's code, innermost first."""
        return self.evidence[0].frames if self.evidence else _user_frames(self.error)

    @property
    def is_warning(self) -> bool:
        return self.error.type.endswith("Warning")


def recognise(text: str) -> tuple[Recognised, ...]:
    """The errors in a log, then the warnings, with their evidence; warnings that are not recognised are left out.

    Never raises, whatever the text is.
    """
    return max(map(_recognise_all, readings(text)), key=_understood)


def _understood(items: tuple[Recognised, ...]) -> int:
    """How much was read from a log: of each kind of error, the most that one of them says."""
    most: dict[str, int] = {}
    for evidence in (evidence for item in items for evidence in item.evidence):
        most[evidence.kind] = max(most.get(evidence.kind, 0), 1 + len(evidence.known))
    return sum(most.values())


def evidence_of(text: str) -> tuple[Evidence, ...]:
    """All evidence in a log."""
    return tuple(evidence for item in recognise(text) for evidence in item.evidence)


def _recognise_all(streams: Iterable[list[str]]) -> tuple[Recognised, ...]:
    results: dict[Recognised, None] = {}
    for error in errors_in(streams):
        item = _recognise(error)
        if item.known or not item.is_warning:
            results.setdefault(item)
    if any(item.known and not item.is_warning for item in results):
        results = {item: None for item in results if not _is_sequel(item)}
    placed = {item.known for item in results if item.frames}
    results = {item: None for item in results if item.frames or item.known not in placed}
    # Several workers fail alike: what differs in nothing but addresses and process ids is one error.
    distinct: dict[object, Recognised] = {}
    for item in results:
        distinct.setdefault(item.evidence or item, item)
    return tuple(sorted(distinct.values(), key=lambda item: item.is_warning))


_SEQUELS = re.compile(
    r"(?:CalledProcessError|ChildFailedError|ProcessRaisedException|ProcessExitedException|BrokenProcessPool|\w*ExceptionGroup"
    r"|_?RemoteTraceback|RayTaskError.*|SystemExit|KeyboardInterrupt)$"
)


def _is_sequel(item: Recognised) -> bool:
    """Whether an error that is not recognised only says that something else has failed, or is no more than a line."""
    return item.known is None and (not item.frames or bool(_SEQUELS.match(item.error.type)))


def _recognise(error: ReportedError) -> Recognised:
    found: Recognised | None = None
    for link in error.chain:
        for known in table().errors if found is None else (found.known,):
            for pattern in known.patterns if known else ():
                evidence = tuple(_evidence(known, pattern, link, error)) if known else ()
                if evidence and (found is None or _tells_more(evidence, found.evidence)):
                    found = Recognised(error, known, evidence)
                    break
            if found is not None:
                break
    return found or _cut_short(error) or Recognised(error)


SHORTEST = 30
"""Characters of a message from which on its beginning tells which error it is."""


def _cut_short(error: ReportedError) -> Recognised | None:
    """The one error that the message is the beginning of, where something has cut it: the end of a log, or of a line."""
    message = _anonymous(" ".join(error.message.split()).rstrip(".…"))
    if len(message) < SHORTEST:
        return None
    fits = [
        known
        for known in table().errors
        if any(pattern.type.fullmatch(error.type) for pattern in known.patterns)
        and _anonymous(known.says).startswith(message)
    ]
    if len(fits) != 1:
        return None
    function = re.search(r"the function '([^']+)'", error.message)
    groups = {"function": function[1]} if function else {}
    return Recognised(error, fits[0], (_from_groups(fits[0].name, groups, _user_frames(error)),))


_QUOTED = re.compile(r"'[^']*'|`[^`]*`")


def _anonymous(message: str) -> str:
    """A message without the names in it; of one that ends within a name, what comes before."""
    bare = _QUOTED.sub("''", message)
    return bare[: bare.rindex("'")] if bare.count("'") % 2 else bare


def _tells_more(evidence: tuple[Evidence, ...], than: tuple[Evidence, ...]) -> bool:
    """Whether JAX said more about the same fault in the error that it then hid behind another one."""
    first = than[0]
    hidden = first.function is None and first.spec is None
    return hidden and sum(len(one.known) for one in evidence) > sum(len(one.known) for one in than)


def _evidence(known: KnownError, pattern: Pattern, link: ReportedError, error: ReportedError) -> Iterator[Evidence]:
    if not pattern.type.fullmatch(link.type):
        return
    message = " ".join(link.message.split())
    head = pattern.message.match(message)
    if not head or _is_own_assertion(link):
        return
    found = dict(pattern.fields) | _groups(head)
    if pattern.frame:
        place = pattern.frame.search(_inner_source(link))
        if not place:
            return
        found |= _groups(place)
    frames = _user_frames(error, link)
    shown = {(frame.path, frame.line) for frame in frames}
    frames += tuple(frame for frame in _mentioned_places(message) if (frame.path, frame.line) not in shown)
    items = [found | _groups(item) for item in pattern.item.finditer(message)] if pattern.item else []
    for groups in items or [found]:
        yield _from_groups(known.name, groups, frames)


def _groups(match: re.Match[str]) -> dict[str, str]:
    """The named groups that took part; ``axes_2`` is another place for ``axes``."""
    return {re.sub(r"_\d$", "", name): value for name, value in match.groupdict().items() if value is not None}


def _is_own_assertion(error: ReportedError) -> bool:
    """Whether the user's own ``assert`` failed."""
    return error.type == "AssertionError" and bool(
        error.frames and error.frames[-1].is_users and error.frames[-1].text.startswith("assert")
    )


def _inner_source(error: ReportedError) -> str:
    """The source of the innermost frame in the user's code and of those that it called."""
    inner: list[str] = []
    for frame in reversed(error.frames):
        inner.append(f"{frame.path} {frame.text}")
        if frame.is_users:
            break
    return "\n".join(reversed(inner))


def _user_frames(error: ReportedError, link: ReportedError | None = None) -> tuple[Frame, ...]:
    """The user's frames of an error and of those that it follows from, innermost first.

    JAX prints where an operation was written as a cause of the error in its transformation: that place comes first.
    ``link`` is the one of them that was recognised: where the user's code raised another one from it, its place is the
    first, too.
    """
    link = link or error
    frames: dict[Frame, None] = {}
    reached = False
    for one in reversed(error.chain):
        reached = reached or one is link or one.message == link.message
        if reached:
            frames.update(dict.fromkeys(one.user_frames))
    if not frames:
        for one in error.chain:
            frames.update(dict.fromkeys(one.user_frames))
    return tuple(frames)


_MENTIONED = re.compile(r"(?<![\w'\"])(?P<path>(?:[A-Za-z]:)?[^\s:'\"()]+\.py):(?P<line>\d{1,9})")


def _mentioned_places(message: str) -> tuple[Frame, ...]:
    places = (Frame(match["path"], int(match["line"])) for match in _MENTIONED.finditer(message))
    return tuple(dict.fromkeys(place for place in places if place.is_users))


_DEVICE_KIND = re.compile(r", device_kind=[^,)]*(?:, num_cores=[^,)]*)?(?:, platform=[^,)]*)?")
_FIELDS = frozenset(field.name for field in fields(Evidence))


def _from_groups(kind: str, found: Mapping[str, str], frames: tuple[Frame, ...]) -> Evidence:
    groups: dict[str, Any] = dict(found)
    if groups.get("function") in table().internal_functions:
        del groups["function"]
    if "name" in groups:
        name = groups.pop("name")
        groups.setdefault("old", f"{groups.pop('module')}.{name}" if "module" in groups else name)
        if since := table().since.get(name):
            groups.setdefault("since", since)
    _settle_axes(groups)
    _settle_rank(groups)
    # How the mesh's devices are made says nothing about the program.
    groups = {n: _DEVICE_KIND.sub("", v) if isinstance(v, str) else v for n, v in groups.items()}
    details = {name: str(groups.pop(name)) for name in list(groups) if name not in _FIELDS}
    place = frames[0] if frames else None
    return Evidence(
        kind=kind,
        path=place.path if place else "",
        line=place.line if place else 0,
        frames=frames,
        details=tuple(sorted(details.items())),
        **groups,
    )


def _settle_axes(groups: dict[str, Any]) -> None:
    """Turn sets of axes into names; where two types differ, the axes are those that one varies over and the other not."""
    if "axes" in groups:
        groups["axes"] = _axis_names(groups["axes"])
    elif "before" in groups and "after" in groups:
        before, after = (set(_varying_axes(groups[name])) for name in ("before", "after"))
        groups["axes"] = tuple(sorted(before ^ after))
    if "{" in groups.get("axis", ""):
        wrong = [name for name in _axis_names(groups["axis"]) if name not in groups.get("axes", ())]
        groups["axis"] = "', '".join(wrong)


def _settle_rank(groups: dict[str, Any]) -> None:
    """Turn the rank into a number where the message decides it.

    Under vmap JAX reports the batched value, and its rank is greater; a rank of 0 is certain.
    """
    masked = groups.pop("masked", None)
    rank = int(groups.pop("rank")) if "rank" in groups else rank_of(groups.get("shape", ""))
    length = groups.pop("spec_length", None)
    batched = bool(masked and rank) or (length is not None and rank is not None and rank >= int(length))
    if rank is not None and not batched:
        groups["rank"] = rank
    elif batched:
        groups.pop("shape", None)
        groups["batched"] = "yes"


_DIMENSIONS = re.compile(r"\w+\[([^\]]*)\]")


def rank_of(shape: str) -> int | None:
    """The rank of an array type as JAX prints it (``float32[8@x,16]{V:i}``)."""
    match = _DIMENSIONS.match(shape.strip())
    if not match:
        return None
    dimensions = re.sub(r"@\([^)]*\)", "", match[1]).strip()
    return dimensions.count(",") + 1 if dimensions else 0


def _varying_axes(shape: str) -> tuple[str, ...]:
    """The mesh axes that a printed type says it varies over: ``float32[2]{V:i}``, up to JAX 0.7 ``float32[2]{i}``."""
    match = re.search(r"\{(?:V:)?([^{}]*)\}", shape)
    return _axis_names(match[1]) if match else ()


def _axis_names(text: str) -> tuple[str, ...]:
    """The names in ``frozenset({'i'})``, ``('i', 'j')``, ``'i'`` or ``{i,j}``; sets in alphabetical order."""
    names = re.findall(r"'([^']*)'", text) or re.findall(r"[^\s,{}()\[\]]+", text)
    return tuple(sorted(names) if "{" in text else names)


def spec_entries(text: str) -> tuple[Any, ...] | None:
    """The entries of a printed PartitionSpec: axis names, tuples of them and None; ``...`` for any other entry."""
    try:
        call = ast.parse(text.strip(), mode="eval").body
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None
    if not isinstance(call, ast.Call):
        return None
    return tuple(_entry(argument) for argument in call.args)


def _entry(node: ast.expr) -> Any:
    match node:
        case ast.Constant(value=None | str() as value):
            return value
        case ast.Tuple(elts=elements) if all(
            isinstance(e, ast.Constant) and isinstance(e.value, str) for e in elements
        ):
            return tuple(e.value for e in elements if isinstance(e, ast.Constant))
    return ...


_FIELD = re.compile(r"\{(\w+)\}")


def summary(known: KnownError, evidence: Evidence) -> str:
    """What failed in this case, in a sentence."""
    for sentence in known.summary:
        names = _FIELD.findall(sentence)
        if all(name in evidence.known for name in names):
            return _FIELD.sub(lambda match: evidence.known[match[1]], sentence)
    return known.title[:1].upper() + known.title[1:] + "."
