"""One file: from its text to findings and a repaired text.

Codemods run on the text, the fixes that the settings allow are carried out, and the result is looked at again, until
nothing changes: one fix may uncover another, or make room for it. What is found late is reported where it stands in the
original text.
"""

from __future__ import annotations

import ast
import traceback
import warnings
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING

from shardfix.codemod import Codemod, Finding, Fix, Range, Safety, all_codemods
from shardfix.lines import Lines
from shardfix.outcomes import Failure, FindingKey, ReportedFinding
from shardfix.prefilter import may_find
from shardfix.semantics.module import Module
from shardfix.suppressions import ALL, Suppressions, UnusedSuppression
from shardfix.target import NEWEST_JAX, has
from shardfix.timing import Timing

if TYPE_CHECKING:
    from shardfix.edits.pen import Applied, Splice
    from shardfix.semantics.project import Project
    from shardfix.settings import Settings

__all__ = ["MAX_PASSES", "Result", "describe", "fix"]

MAX_PASSES = 10


@dataclass(frozen=True)
class Result:
    """What came of one text."""

    findings: tuple[ReportedFinding, ...]
    source: str
    """The new text; the old one where nothing is changed."""
    failures: tuple[Failure, ...] = ()
    """Codemods that crashed, and fixes that never came to rest."""


def fix(
    source: str,
    path: str,
    settings: Settings,
    project: Project,
    codemods: Sequence[type[Codemod]],
    accepted: frozenset[FindingKey] | None = None,
    timing: Timing | None = None,
) -> Result:
    """Run ``codemods`` on ``source`` until nothing changes.

    Args:
        source: the text, with its newlines as they are and without byte-order mark.
        path: where it comes from; decides what its relative imports mean.
        settings: which fixes are applied.
        project: the modules around it. It sees each intermediate text of this one, and the original again in the end.
        codemods: the codemods to run, in order.
        accepted: the findings whose fixes the author accepted; None where the settings decide.
        timing: told what each stage takes.

    Raises:
        SyntaxError, ValueError, RecursionError, MemoryError: the text cannot be parsed, as :func:`ast.parse`.
    """
    timing = timing or Timing()
    with timing.stage("parse", len(source)):
        original = project.module_of(source, path)
    if Suppressions.of(original).skip_file:
        return Result((), source)
    run = _Run(original, settings, [codemod(settings) for codemod in codemods], accepted, timing)
    try:
        return run.to_the_end()
    finally:
        project.adopt(original)


@dataclass
class _Entry:
    """A finding through the passes."""

    finding: Finding
    """As it was last seen before its repair."""
    place: tuple[int, int]
    """Its characters in the original text."""
    last_pass: int
    """The last pass that still found it."""
    applied: bool = False
    objection: str = ""
    """Why its fix is not carried out, by the settings or for what it would do to the text."""
    changes: tuple[Splice, ...] = ()
    """What its fix alone would change in the original text; empty if it was found only after other repairs."""
    demoted: bool = False
    """Whether its fix, meant to be safe, would lose a comment."""
    harmless: set[str] = field(default_factory=set)
    """The titles of the fixes that have been tried and lose none."""

    @property
    def safety(self) -> Safety:
        return Safety.UNSAFE if self.demoted else self.finding.safety


@dataclass
class _Run:
    """The passes over one text."""

    original: Module
    settings: Settings
    codemods: Sequence[Codemod]
    accepted: frozenset[FindingKey] | None = None
    timing: Timing = field(default_factory=Timing)
    entries: list[_Entry] = field(default_factory=list)
    failures: dict[Failure, None] = field(default_factory=dict)
    history: list[Sequence[Splice]] = field(default_factory=list)
    """The splices of each pass so far."""
    used: set[tuple[int, str]] = field(default_factory=set)
    """Comments that kept a finding back, by their place in the original text, and the name under which they did."""

    def to_the_end(self) -> Result:
        module = self.original
        texts = {module.source}
        for number in range(MAX_PASSES):
            source = self._one_pass(module, number)
            if source == module.source:
                return Result(self._report(number), source, tuple(self.failures))
            if source in texts:
                break  # it goes round in circles
            texts.add(source)
            module = module.project.module_of(source, module.path)
        return self._unsettled()

    def _one_pass(self, module: Module, number: int) -> str:
        """Find, and carry out what may be; the new text."""
        suppressions = Suppressions.of(module)
        judges = [codemod for codemod in self.codemods if codemod.judges_suppressions]
        others = [codemod for codemod in self.codemods if not codemod.judges_suppressions]
        found = (item for item in self._find(module, others) if not self._is_suppressed(module, item[0], suppressions))
        wanted = self._wanted(module, found, number)
        if not wanted and judges and suppressions.suppressions:
            module.unused_suppressions = tuple(self._unused(module, suppressions))
            wanted = self._wanted(module, self._find(module, judges), number)
        if not wanted:
            return module.source
        applied, failed = _carry_out(module, list(dict.fromkeys(fix for _, fix in wanted)))
        for entry, wanted_fix in wanted:
            entry.applied = entry.applied or wanted_fix in applied.applied
            entry.objection = failed.get(wanted_fix, "")
        self.history.append(applied.splices)
        return applied.source

    def _wanted(
        self, module: Module, found: Iterable[tuple[Finding, tuple[int, int]]], number: int
    ) -> list[tuple[_Entry, Fix]]:
        """Take note of what is found; the fixes that are to be carried out."""
        wanted: list[tuple[_Entry, Fix]] = []
        for finding, place in found:
            entry = self._enter(finding, place, number)
            if finding.fix is not None and (entry.demoted or not entry.objection):
                self._try_alone(module, entry, finding.fix)
                entry.objection = self._objection(entry, finding.fix)
                if not entry.objection:
                    wanted.append((entry, finding.fix))
        return wanted

    def _is_suppressed(self, module: Module, finding: Finding, suppressions: Suppressions) -> bool:
        """Whether a comment keeps ``finding`` back; every one that does is used."""
        hidden = False
        for suppression in suppressions.suppressions:
            name = suppression.hides(finding)
            if name is not None:
                self.used.add((self._place(module.span(suppression.range))[0], name))
                hidden = True
        return hidden

    def _unused(self, module: Module, suppressions: Suppressions) -> Iterator[UnusedSuppression]:
        """Comments that never kept back a finding of a codemod that runs."""
        available = all_codemods()
        running = {codemod.codemod_name() for codemod in self.codemods}
        for suppression in suppressions.suppressions:
            place = self._place(module.span(suppression.range))[0]
            unused = [
                name
                for name in suppression.names
                if (place, name) not in self.used
                and (running >= available.keys() if name == ALL else name in running or name not in available)
            ]
            if unused:
                yield UnusedSuppression(suppression, tuple(unused))

    def _find(self, module: Module, codemods: Iterable[Codemod]) -> Iterator[tuple[Finding, tuple[int, int]]]:
        """The findings of ``codemods``, with their places in the original text."""
        data = module.source.encode()
        for codemod in codemods:
            if not module.evidence and not may_find(type(codemod), data):
                continue
            try:
                with self.timing.stage(codemod.codemod_name(), len(data)):
                    findings = _distinct(codemod.findings(module))
                    found = [(finding, self._place(module.span(finding.range))) for finding in findings]
            except Exception as error:  # it costs the findings of this codemod in this file, nothing else
                self.failures[Failure(f"codemod {codemod.codemod_name()} failed: {describe(error)}")] = None
            else:
                yield from found

    def _enter(self, finding: Finding, place: tuple[int, int], number: int) -> _Entry:
        """The entry of ``finding``: a new one, unless an earlier pass saw the same.

        An edit beside it may have moved it within its line; one that was repaired is the same only in its very place.
        """
        line = self._position(place[0])[0]
        same = [
            entry
            for entry in self.entries
            if entry.last_pass < number
            and (entry.finding.codemod, entry.finding.message) == (finding.codemod, finding.message)
            and (entry.place == place or (not entry.applied and self._position(entry.place[0])[0] == line))
        ]
        if same:
            entry = min(same, key=lambda entry: entry.place != place)
            entry.last_pass = number
            if not entry.applied:
                entry.finding = finding  # what is found now decides: another repair may have changed what is right
        else:
            entry = _Entry(finding, place, number)
            self.entries.append(entry)
        return entry

    def _try_alone(self, module: Module, entry: _Entry, wanted: Fix) -> None:
        """Take note of what ``wanted`` changes, and whether it loses a comment."""
        if wanted.title in entry.harmless:
            return  # no repair adds a comment; where findings are nested deeply, to try each in each pass takes very long
        from shardfix.edits import pen

        alone = pen.apply(module, [wanted])
        if module is self.original and has(self.settings.target_jax or NEWEST_JAX, wanted.needs_jax):
            entry.changes = alone.splices
        entry.demoted = wanted.safety is Safety.SAFE and not pen.carries_comments(module, wanted, alone)
        if not entry.demoted:
            entry.harmless.add(wanted.title)

    def _objection(self, entry: _Entry, wanted: Fix) -> str:
        """Why the settings do not let ``wanted`` be carried out; empty where they do."""
        target = self.settings.target_jax or NEWEST_JAX
        if not has(target, wanted.needs_jax):
            return f"the repair needs JAX {wanted.needs_jax}, and the code must run on {target}"
        if self.accepted is not None:
            key = (entry.finding.codemod, *self._position(entry.place[0]), entry.finding.message)
            return "" if key in self.accepted else "the repair was not accepted"
        allowed = self.settings.unsafe
        safety = Safety.UNSAFE if entry.demoted else wanted.safety
        if safety is not Safety.SAFE and not (allowed is True or (allowed and entry.finding.codemod in allowed)):
            loss = "the repair would lose a comment" if entry.demoted else "the repair is unsafe"
            return f"{loss}; --unsafe applies it"
        return ""

    def _report(self, last_pass: int) -> tuple[ReportedFinding, ...]:
        remaining = [entry for entry in self.entries if entry.last_pass == last_pass]
        still_found = {(entry.finding.codemod, self._position(entry.place[0])[0]) for entry in remaining}
        reported = []
        for entry in self.entries:
            (line, column), (end_line, end_column) = map(self._position, entry.place)
            fixed = entry.last_pass < last_pass
            if fixed and not entry.applied and (entry.finding.codemod, line) in still_found:
                continue  # the same fault in other words: a later pass reports it as it stands now
            reason = entry.finding.reason
            if not fixed:
                if entry.finding.fix is not None and not entry.objection:
                    entry.objection = "the repair collides with another one, or does not cure it"
                reason = "; ".join(filter(None, (entry.objection, reason)))
            reported.append(
                ReportedFinding(
                    codemod=entry.finding.codemod,
                    line=line,
                    column=column,
                    end_line=end_line,
                    end_column=end_column,
                    message=entry.finding.message,
                    safety=entry.safety,
                    fixed=fixed,
                    reason=reason,
                    fix=entry.finding.fix.title if entry.finding.fix else "",
                    choices=tuple(choice.title for choice in entry.finding.choices),
                    changes=entry.changes,
                )
            )
        return tuple(sorted(reported, key=lambda finding: (finding.line, finding.column, finding.codemod)))

    def _unsettled(self) -> Result:
        """The fixes of the file undo or breed each other: it stays as it is."""
        names = ", ".join(sorted({entry.finding.codemod for entry in self.entries if entry.applied}))
        for entry in self.entries:
            entry.last_pass = 0
            if entry.applied:
                entry.objection = "the repairs of this file do not come to rest"
        failure = Failure(f"the repairs did not come to rest in {MAX_PASSES} passes and were dropped ({names})")
        return Result(self._report(0), self.original.source, (*self.failures, failure))

    # Places

    def _place(self, span: tuple[int, int]) -> tuple[int, int]:
        """Characters of the current text as characters of the original one."""
        start, end = span
        for splices in reversed(self.history):
            start, end = _before(splices, start), _before(splices, end)
        return start, max(start, end)

    def _position(self, offset: int) -> tuple[int, int]:
        """Line and column, both from 1, of a character of the original text."""
        return self._lines.position(offset)

    @cached_property
    def _lines(self) -> Lines:
        return Lines(self.original.source)


def _distinct(findings: Iterable[Finding]) -> Iterator[Finding]:
    """Each finding once: what is reached in two ways may be found twice."""
    seen: dict[tuple[Range, str], list[Finding]] = {}
    for finding in findings:
        same = seen.setdefault((finding.range, finding.message), [])
        if finding not in same:
            same.append(finding)
            yield finding


def _before(splices: Sequence[Splice], offset: int) -> int:
    """Where the character at ``offset`` of the new text was, or, if it is new, the place that it was put."""
    shift = 0
    for splice in splices:
        start = splice.start + shift
        if offset < start:
            break
        if offset < start + len(splice.text):
            return min(splice.start + offset - start, splice.end)
        shift += len(splice.text) - (splice.end - splice.start)
    return offset - shift


def _carry_out(module: Module, fixes: list[Fix]) -> tuple[Applied, dict[Fix, str]]:
    """Carry out ``fixes``; those that cannot be, or leave what Python cannot parse, are left out, with the reason."""
    outcome = _attempt(module, fixes)
    if not isinstance(outcome, str):
        return outcome, dict(outcome.refused)
    failed: dict[Fix, str] = {}
    good: list[Fix] = []
    best = _attempt(module, good)
    for candidate in fixes:
        outcome = _attempt(module, [*good, candidate])
        if isinstance(outcome, str):
            failed[candidate] = outcome
        else:
            good.append(candidate)
            best = outcome
    if isinstance(best, str):
        raise RuntimeError(f"the pen fails without a fix to carry out: {best}")
    return best, dict(best.refused) | failed


def _attempt(module: Module, fixes: list[Fix]) -> Applied | str:
    """The text with ``fixes`` carried out; a sentence where that fails."""
    from shardfix.edits import pen

    try:
        applied = pen.apply(module, fixes)
    except Exception as error:  # a fix that the pen trips over must not cost the others
        return f"the repair could not be carried out: {describe(error)}"
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            ast.parse(applied.source)
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        return f"the repair would leave what Python cannot parse: {describe(error)}"
    return applied


def describe(error: Exception) -> str:
    """The error in one line, with the place in the code that raised it."""
    text = " ".join(str(error).split())[:200]
    frames = traceback.extract_tb(error.__traceback__, limit=-1)
    where = f" ({frames[-1].filename.rpartition('/')[2]}:{frames[-1].lineno})" if frames else ""
    return f"{type(error).__name__}{': ' if text else ''}{text}{where}"
