"""From an error that JAX printed to the repairs of its cause.

The codemods do the work, as in any run: those that take the kind of the error look at the files in its traceback and
at what these import, with the evidence at hand. What they find there is ranked, and each way to mend it becomes a patch.
"""

from __future__ import annotations

import ast
import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from difflib import SequenceMatcher
from pathlib import Path
from typing import TYPE_CHECKING

from shardfix import files
from shardfix.codemod import Codemod, Finding, Fix, Safety, all_codemods
from shardfix.documents import Document, document, is_notebook, parsed
from shardfix.edits import pen
from shardfix.fixer import describe
from shardfix.patch import unified_diff
from shardfix.prefilter import Prefilter
from shardfix.semantics.module import Module
from shardfix.semantics.project import Project
from shardfix.target import NEWEST_JAX, declared_jax, has
from shardfix.tracebacks import Evidence, Frame, Recognised, recognise, summary
from shardfix.tracebacks.sources import find_cell, find_source, shows

if TYPE_CHECKING:
    from shardfix.settings import Settings

__all__ = ["Change", "Diagnosis", "LineMap", "Place", "Repair", "codemods_for", "diagnose"]

MAX_FILES = 300
"""How many files are looked at for one error: those in its traceback and what they import."""
MAX_PASSES = 10
MAX_REPAIRS = 12


@dataclass(frozen=True)
class Change:
    """A file before and after."""

    path: str
    before: bytes
    after: bytes

    @property
    def diff(self) -> bytes:
        return unified_diff(self.path, self.before, self.after)


@dataclass(frozen=True)
class Repair:
    """One way to mend an error."""

    title: str
    codemods: tuple[str, ...]
    certain: bool
    """Whether it follows from the text and what JAX said; otherwise it is one of several the author may have meant."""
    changes: tuple[Change, ...]
    needs_jax: str | None = None

    @property
    def diff(self) -> bytes:
        """The patch, as ``git apply`` takes it."""
        return b"".join(change.diff for change in self.changes)


@dataclass(frozen=True)
class Place:
    """A line of the user's code in a traceback, and the files that it may be in."""

    frame: Frame
    candidates: tuple[str, ...]
    fits: bool = True
    """Whether the one candidate holds in that line what the traceback shows. If not, it has changed since or is
    another file: it is not edited."""
    line: int = 0
    """The line there: another than the frame's in the program that a notebook's cells make."""


@dataclass(frozen=True)
class Diagnosis:
    """What is known of one error in a log."""

    item: Recognised
    places: tuple[Place, ...]
    """Innermost first."""
    findings: tuple[tuple[str, Finding], ...] = ()
    """What the codemods found, with its file, the most telling first."""
    repairs: tuple[Repair, ...] = ()
    """Certain ones first."""
    undecided: bool = False
    """Whether something was found that no certain repair mends."""
    mended_before: bool = False
    """Whether the repair of an error before this one mends it too."""
    failures: tuple[str, ...] = ()
    """Codemods that crashed on one of the files."""

    @property
    def certain(self) -> Repair | None:
        """The repair that can be made unasked."""
        return self.repairs[0] if self.repairs and self.repairs[0].certain else None

    @property
    def choices(self) -> tuple[Repair, ...]:
        """The repairs that only the author can choose between."""
        return tuple(repair for repair in self.repairs if not repair.certain)

    def chosen(self, number: int) -> Diagnosis:
        """The same with a choice, counted from 1, taken for certain."""
        taken = replace(self.choices[number - 1], certain=True)
        return replace(self, repairs=(taken,), undecided=False)

    @property
    def sentences(self) -> tuple[str, ...]:
        """What failed, one sentence for each piece of evidence."""
        known = self.item.known
        return tuple(dict.fromkeys(summary(known, evidence) for evidence in self.item.evidence)) if known else ()

    @property
    def is_settled(self) -> bool:
        """Whether nothing is left once the certain repair is made."""
        return self.mended_before or (self.certain is not None and not self.undecided)


def diagnose(
    text: str, settings: Settings, roots: Sequence[str] = (".",), choice: int | None = None
) -> Iterator[Diagnosis]:
    """The errors in a log, each with what repairs it; a repair takes the certain ones before it as made.

    Args:
        text: the log.
        settings: which codemods may act, and which JAX the code must run on.
        roots: the folders or files that the paths in the log are looked for in.
        choice: the number of the repair to take for the first error that leaves a choice.
    """
    original: dict[str, bytes] = {}
    repaired: dict[str, bytes] = {}
    items = recognise(text)
    if any(not item.is_warning for item in items):
        items = tuple(item for item in items if not item.is_warning)
    for item in items:
        diagnosis = _diagnose(item, settings, roots, original, repaired)
        if repaired and _is_mended(_diagnose(item, settings, roots, original, original), diagnosis):
            diagnosis = Diagnosis(item, diagnosis.places, mended_before=True)
        if choice is not None and choice <= len(diagnosis.choices):
            diagnosis, choice = diagnosis.chosen(choice), None
        if diagnosis.certain:
            for change in diagnosis.certain.changes:
                original.setdefault(change.path, change.before)
                repaired[change.path] = change.after
        yield diagnosis


def codemods_for(kind: str, settings: Settings) -> tuple[type[Codemod], ...]:
    """The codemods that act on evidence of that kind, among those that the settings choose."""
    available = all_codemods()
    names = available if settings.codemods is None else settings.codemods
    return tuple(available[name] for name in names if kind in available[name].evidence)


def _diagnose(
    item: Recognised,
    settings: Settings,
    roots: Sequence[str],
    original: Mapping[str, bytes],
    contents: Mapping[str, bytes],
) -> Diagnosis:
    """What is known of one error; ``contents`` are the files as they are to be taken, ``original`` as they were when it
    happened, where that is not what is on disk.
    """
    then = {os.path.abspath(path): data for path, data in original.items()}
    places = _places(item.frames, roots, then)
    if not any(place.candidates for place in places) and (installed := _installed(item, roots, then)):
        item = replace(item, evidence=tuple(replace(one, frames=installed) for one in item.evidence))
        places = _places(installed, roots, then)
    if item.known is None:
        return Diagnosis(item, places)
    codemods = codemods_for(item.known.name, settings)
    start = list(dict.fromkeys(place.candidates[0] for place in places if len(place.candidates) == 1))
    changed = {place.candidates[0] for place in places if not place.fits}
    innermost = next((place.candidates[0] for place in places if place.candidates), "")
    if not codemods or not start or innermost in changed:
        return Diagnosis(item, places)
    evidence = tuple(_moved(_at_home(one, places), original, contents) for one in item.evidence)
    search = _Search(evidence, settings, codemods, start, contents)
    related = search.related()
    repairs = tuple(search.repairs(related))
    allowed = tuple(one for one in repairs if not any(change.path in changed for change in one.changes))
    return Diagnosis(
        item,
        places,
        tuple((one.path, one.finding) for one in related),
        allowed,
        undecided=allowed != repairs or any(not one.certain for one in related),
        failures=tuple(search.failures),
    )


_LINE_NUMBER = re.compile(r"\bline \d+")


def _is_mended(before: Diagnosis, now: Diagnosis) -> bool:
    """Whether what was found before the repairs of other errors is all gone."""
    then, left = (
        {(path, one.codemod, _LINE_NUMBER.sub("", one.message)) for path, one in each.findings}
        for each in (before, now)
    )
    return before.certain is not None and not then & left


def _places(frames: Sequence[Frame], roots: Sequence[str], contents: Mapping[str, bytes]) -> tuple[Place, ...]:
    places: list[Place] = []
    for frame in frames:
        cells = [cell for root in roots for cell in find_cell(frame, Path(root))]
        found = [path for path, _ in cells] or [
            path for root in roots for path in find_source(frame, Path(root), contents)
        ]
        candidates = tuple(dict.fromkeys(map(os.path.relpath, found)))
        alone = len(candidates) == 1
        if alone and len(cells) > 1:
            candidates, alone = (), False  # several cells of one notebook
        fits = not alone or bool(cells) or shows(Path(candidates[0]), frame, contents)
        places.append(Place(frame, candidates, fits, cells[0][1] if cells and alone else frame.line))
    return tuple(places)


_PACKAGES = re.compile(r".*[\\/](?:site|dist)-packages[\\/](?=[^\\/]+[\\/])")


def _installed(item: Recognised, roots: Sequence[str], contents: Mapping[str, bytes]) -> tuple[Frame, ...]:
    """The frames, innermost first, in packages that were installed where the error happened and whose source is here."""
    found: list[Frame] = []
    for frame in reversed([frame for link in item.error.chain for frame in reversed(link.frames)]):
        if _PACKAGES.match(frame.path) and frame.text:
            here = replace(frame, path=_PACKAGES.sub("", frame.path))
            paths = [path for root in roots for path in find_source(here, Path(root), contents)]
            package = re.split(r"[\\/]", here.path)[0]
            if len(paths) == 1 and package in paths[0].absolute().parts and shows(paths[0], frame, contents):
                found.insert(0, here)
    return tuple(dict.fromkeys(found))


def _at_home(evidence: Evidence, places: Sequence[Place]) -> Evidence:
    """The evidence with the paths of this machine."""
    homes = {place.frame: place for place in places if len(place.candidates) == 1}
    frames = tuple(
        replace(frame, path=os.path.abspath(homes[frame].candidates[0]), line=homes[frame].line)
        for frame in evidence.frames
        if frame in homes
    )
    first = frames[0] if frames else None
    return replace(evidence, frames=frames, path=first.path if first else "", line=first.line if first else 0)


def _moved(evidence: Evidence, before: Mapping[str, bytes], after: Mapping[str, bytes]) -> Evidence:
    """The evidence with the lines that its places have in files that were repaired meanwhile."""
    moves = {
        os.path.abspath(path): LineMap(_code(path, before[path]), _code(path, after[path]))
        for path in before.keys() & after.keys()
        if before[path] != after[path]
    }
    frames = tuple(
        replace(frame, line=moves[frame.path](frame.line)) if frame.path in moves else frame
        for frame in evidence.frames
    )
    return replace(evidence, frames=frames, line=frames[0].line if frames else 0)


class LineMap:
    """From the lines of a text to those of another version of it, from 1."""

    def __init__(self, before: bytes, after: bytes) -> None:
        matcher = SequenceMatcher(None, before.splitlines(), after.splitlines(), autojunk=False)
        self._opcodes = matcher.get_opcodes()

    def __call__(self, line: int) -> int:
        for tag, start, end, new_start, new_end in self._opcodes:
            if start <= line - 1 < end:
                if tag == "equal":
                    return line - start + new_start
                return min(new_start + line - start, max(new_start + 1, new_end))
        return line


@dataclass(frozen=True)
class _Located:
    """A finding in its file."""

    path: str
    module: Module
    finding: Finding
    certain: bool

    @property
    def options(self) -> tuple[Fix, ...]:
        """The repairs among which the author must choose."""
        first = (self.finding.fix,) if self.finding.fix and not self.certain else ()
        return (*first, *self.finding.choices)


class _Search:
    """The search for the cause of one error."""

    def __init__(
        self,
        evidence: tuple[Evidence, ...],
        settings: Settings,
        codemods: Sequence[type[Codemod]],
        start: Sequence[str],
        contents: Mapping[str, bytes],
    ) -> None:
        self.evidence = evidence
        self.settings = settings
        self.codemods = [codemod(settings) for codemod in codemods]
        self.sources: dict[str, _Read] = {}
        self.failures: dict[str, None] = {}
        self.project = Project(reads := list(_with_imports(start)))
        prefilter = Prefilter(codemods)
        self.modules: dict[str, Module] = {}
        for path in reads:
            source = _read(path, contents.get(path))
            if source is None or not (path in start or prefilter.passes(source.data)):
                continue
            try:
                module = Module(source.code.text, path, self.project, evidence)
            except (SyntaxError, ValueError, RecursionError, MemoryError):
                continue
            self.sources[path], self.modules[path] = source, module
            self.project.adopt(module)

    # What is wrong

    def related(self) -> list[_Located]:
        """What the codemods find that has to do with the error; all that they find if nothing points to it.

        What a codemod finds by evidence alone has to do with it in any case.
        """
        found: list[tuple[int, _Located]] = []
        for path, module in self.modules.items():
            for codemod, finding in self._findings(module):
                one = _Located(path, module, finding, self._is_certain(module, finding))
                found.append((max(_relation(one, evidence, codemod) for evidence in self.evidence), one))
        alone = {codemod.codemod_name() for codemod in self.codemods if not codemod.triggers}
        chosen = [(score, one) for score, one in found if score > 0 or one.finding.codemod in alone]
        if not any(one.certain for _, one in chosen):
            # Nothing that points at the error mends it for certain: whatever else may, is worth offering.
            chosen += [pair for pair in found if pair not in chosen and not (chosen and pair[1].certain)]
        ranked = [one for _, one in sorted(chosen, key=lambda pair: -pair[0])]
        certain = [one for one in ranked if one.certain]
        return [one for one in ranked if one.certain or not any(_is_at_place_of(one, other) for other in certain)]

    def _findings(self, module: Module) -> Iterator[tuple[Codemod, Finding]]:
        for codemod in self.codemods:
            try:
                found = list(codemod.findings(module))
            except Exception as error:  # it must not keep the others from helping
                reason = f"{module.path}: codemod {codemod.codemod_name()} failed: {describe(error)}"
                self.failures[reason] = None
            else:
                yield from ((codemod, finding) for finding in found)

    def _is_certain(self, module: Module, finding: Finding) -> bool:
        """Whether the fix of a finding may be made unasked, by what it is and what the settings allow."""
        fix, unsafe = finding.fix, self.settings.unsafe
        if fix is None or not self._is_available(module, fix):
            return False
        if unsafe is True or (unsafe and finding.codemod in unsafe):
            return True
        return fix.safety is Safety.SAFE and pen.carries_comments(module, fix)

    def _is_available(self, module: Module, fix: Fix) -> bool:
        target = self.settings.target_jax or declared_jax(os.path.dirname(os.path.abspath(module.path))) or NEWEST_JAX
        return has(target, fix.needs_jax)

    # What mends it

    def repairs(self, related: Sequence[_Located]) -> Iterator[Repair]:
        """The ways to mend it: what is certain, then each choice together with what is certain."""
        certain = [one for one in related if one.certain]
        seen: set[tuple[Change, ...]] = set()
        if certain and (repair := self._repair(certain, _own_fix, certain=True)):
            seen.add(repair.changes)
            yield repair
        undecided = [one for one in related if not one.certain]
        for key in dict.fromkeys(
            (one.finding.codemod, fix.title) for one in undecided or related for fix in one.options
        ):
            with_choice = [one for one in related if one.certain or _option(one, key)]

            def chosen(one: _Located, key: tuple[str, str] = key) -> Fix | None:
                return _option(one, key) or (_own_fix(one) if one.certain else None)

            repair = self._repair(with_choice, chosen, certain=False, title=key[1])
            if repair and repair.changes not in seen:
                seen.add(repair.changes)
                yield repair
            if len(seen) == MAX_REPAIRS:
                return

    def _repair(
        self, located: Sequence[_Located], choose: Callable[[_Located], Fix | None], *, certain: bool, title: str = ""
    ) -> Repair | None:
        changes: list[Change] = []
        for path in dict.fromkeys(one.path for one in located):
            after = self._rewritten(path, [one for one in located if one.path == path], choose)
            source = self.sources[path]
            if after == source.code.text:
                continue
            try:
                changes.append(Change(path, source.data, source.code.with_text(after)))
            except files.FileProblem:
                continue
        if not changes:
            return None
        fixes = [fix for one in located if (fix := choose(one))]
        titles = title or "; ".join(dict.fromkeys(fix.title for fix in fixes if fix.title))
        codemods = tuple(dict.fromkeys(one.finding.codemod for one in located))
        needs = max((fix.needs_jax for fix in fixes if fix.needs_jax), key=_version, default=None)
        return Repair(titles, codemods, certain, tuple(changes), needs)

    def _rewritten(self, path: str, located: Sequence[_Located], choose: Callable[[_Located], Fix | None]) -> str:
        """The text of a file with the chosen fixes, pass by pass where they touch each other."""
        module = original = self.modules[path]
        wanted = [fix for one in located if (fix := choose(one))]
        waiting = {(one.finding.codemod, one.finding.message) for one in located}
        try:
            for _ in range(MAX_PASSES):
                applied = pen.apply(module, list(dict.fromkeys(wanted)))
                if not _parses(applied.source):
                    return module.source
                if not applied.postponed or applied.source == module.source:
                    return applied.source
                postponed = set(applied.postponed)
                waiting = {(one.finding.codemod, one.finding.message) for one in located if choose(one) in postponed}
                module = Module(applied.source, path, self.project, self.evidence)
                self.project.adopt(module)
                located = [
                    _Located(path, module, finding, self._is_certain(module, finding))
                    for _, finding in self._findings(module)
                    if (finding.codemod, finding.message) in waiting
                ]
                wanted = [fix for one in located if (fix := choose(one))]
            return module.source
        finally:
            self.project.adopt(original)


def _own_fix(one: _Located) -> Fix | None:
    return one.finding.fix


def _option(one: _Located, key: tuple[str, str]) -> Fix | None:
    if one.finding.codemod != key[0]:
        return None
    return next((fix for fix in one.options if fix.title == key[1]), None)


def _is_at_place_of(one: _Located, other: _Located) -> bool:
    """Whether a finding is at the very place, or within it, that the fix of another one writes anew."""
    mine, theirs = (located.module.span(located.finding.range) for located in (one, other))
    return one.path == other.path and theirs[0] <= mine[0] and mine[1] <= theirs[1]


def _relation(one: _Located, evidence: Evidence, codemod: Codemod) -> int:
    """How surely a finding is the cause of what was reported: it stands at a line of the traceback, or names its function."""
    score = 0
    here = os.path.abspath(one.path)
    statement = _lines_of(one)
    for depth, frame in enumerate(evidence.frames):
        if frame.path == here and frame.line in statement:
            score = max(score, 8 if depth == 0 else 4)
    text = one.finding.message
    name = (evidence.old or "").rpartition(".")[2]
    named = [evidence.function, evidence.axis and repr(evidence.axis)]
    if any(word and word in text for word in named) or (name and name in one.module.text(one.finding.range)):
        score += 2
    elif any(
        re.search(rf"\b{re.escape(bound)}\b", frame.text) for bound in _bound_names(one) for frame in evidence.frames
    ):
        score += 1
    if score and evidence.key_path and evidence.key_path in text:
        score += 1
    return score


def _bound_names(one: _Located) -> set[str]:
    """The names, if any, that the statement of a finding binds: what calls them is where its fault shows."""
    node = one.module.node_at(one.finding.range, ast.AST)
    if node is None or isinstance(node, ast.Module):
        return set()
    try:
        statement = one.module.statement(node)
    except KeyError:
        return set()
    match statement:
        case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name):
            return {name} if one.finding.range.line < statement.lineno else set()
        case ast.Assign(targets=targets):
            return {
                target.id if isinstance(target, ast.Name) else target.attr
                for target in targets
                if isinstance(target, ast.Name | ast.Attribute)
            }
    return set()


def _lines_of(one: _Located) -> range:
    """The lines of the statement that a finding is in; of its head alone, if it holds other statements."""
    node = one.module.node_at(one.finding.range, ast.AST)
    place = one.finding.range
    if node is not None and not isinstance(node, ast.Module):
        try:
            statement = one.module.statement(node)
        except KeyError:
            return range(place.line, place.end_line + 1)
        if not hasattr(statement, "body"):
            return range(statement.lineno, (statement.end_lineno or statement.lineno) + 1)
    return range(place.line, place.end_line + 1)


def _parses(source: str) -> bool:
    import warnings

    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            ast.parse(source)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return False
    return True


def _version(text: str) -> tuple[int, ...]:
    return tuple(int(part) for part in text.split(".") if part.isdigit())


@dataclass(frozen=True)
class _Read:
    """A file as it was read."""

    data: bytes
    code: Document


def _read(path: str, content: bytes | None) -> _Read | None:
    """The file, or ``content`` in its place; None where it cannot be had."""
    try:
        data = files.read(path) if content is None else content
        return _Read(data, document(path, data))
    except files.FileProblem:
        return None


def _code(path: str, data: bytes) -> bytes:
    """What is analysed of a file: of a notebook the program that its cells make."""
    return document(path, data).text.encode() if is_notebook(path) else data


def _with_imports(paths: Iterable[str]) -> Iterator[str]:
    """The files and the modules of their project that they import, nearest first."""
    queue = [os.path.relpath(path) for path in paths]
    seen = set(queue)
    project = Project()
    while queue and len(seen) <= MAX_FILES:
        path = queue.pop(0)
        yield path
        for dotted in _imports(path, project):
            found = project.find(dotted, os.path.abspath(path))
            if found and (short := os.path.relpath(found)) not in seen:
                seen.add(short)
                queue.append(short)


def _imports(path: str, project: Project) -> Iterator[str]:
    """The modules that a file may import; names of ``from`` imports count too, since they may be modules."""
    if is_notebook(path):
        read = _read(path, None)
        tree = parsed(read.code.text) if read is not None and _parses(read.code.text) else None
    else:
        module = project.module_at(path)
        tree = module.tree if module else None
    for node in ast.walk(tree) if tree is not None else ():
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = "." * node.level + (node.module or "")
            yield base
            separator = "" if base.endswith(".") else "."
            yield from (f"{base}{separator}{alias.name}" for alias in node.names)
