"""What became of a log: for people, the patch on stdout and the words on stderr; or one JSON document."""

from __future__ import annotations

import json
import textwrap
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any

from shardfix import __version__
from shardfix.reporters.base import Stream, Style
from shardfix.reporters.patches import painted

if TYPE_CHECKING:
    from shardfix.repair import Diagnosis, Place, Repair

__all__ = ["show", "write_json"]

WIDTH = 96


KIND_STYLE = Style.CYAN


def show(diagnosis: Diagnosis, out: Stream | None, err: Stream) -> None:
    """One error: what it means, where it is, and what mends it; without ``out``, the certain repair stays untold."""
    if diagnosis.certain and out is not None:
        out.raw(painted(diagnosis.certain.diff, out))
        out.file.flush()  # where both streams go to one place, the patch comes first
    for line in _lines(diagnosis, err, told=out is not None):
        err.line(line)
    for number, repair in enumerate(diagnosis.choices, 1):
        err.line(f"  {err.paint(f'choice {number}:', Style.YELLOW)} {_title(repair)}")
        err.raw(b"".join(b"    " + line for line in painted(repair.diff, err).splitlines(keepends=True)))
    if diagnosis.choices and out is not None:
        err.line("  Only you know which is meant: take one with --choose NUMBER.")
    for failure in diagnosis.failures:
        err.line(f"  {err.paint('error', Style.RED)}: {failure}")
    err.line("")
    err.file.flush()


def _lines(diagnosis: Diagnosis, err: Stream, *, told: bool) -> Iterator[str]:
    known = diagnosis.item.known
    error = diagnosis.item.error
    if known is None:
        message = " ".join(error.message.split())
        said = f"{error.type or 'an error that the text does not name'}{': ' if message else ''}{message[:300]}"
        yield err.paint("unknown error", Style.RED) + f": {said}"
        yield "  shardfix knows no repair for it."
    else:
        yield err.paint(known.name, KIND_STYLE) + f": {known.title}"
        yield from (_filled(sentence) for sentence in diagnosis.sentences)
        yield ""
        yield _filled(known.means)
        yield ""
    yield from _places(diagnosis.places, err)
    if known is None:
        return
    if diagnosis.mended_before:
        yield "  The repair above mends this, too."
    elif diagnosis.certain and told:
        yield f"  {err.paint('certain repair:', Style.GREEN)} {_title(diagnosis.certain)}"
    for path, finding in diagnosis.findings:
        if finding.reason and (finding.fix is None or not diagnosis.certain):
            yield _filled(f"{path}:{finding.range.line}: {finding.message}: {finding.reason}")
    if not diagnosis.repairs and not diagnosis.mended_before:
        yield "  No repair follows from the text. What mends such an error:"
        yield from (_filled(repair, "  - ", "    ") for repair in known.repairs)


def _places(places: Iterable[Place], err: Stream) -> Iterator[str]:
    for number, place in enumerate(places):
        label = "in your code:" if number == 0 else " " * 13
        frame = place.frame
        home = place.candidates[0] if len(place.candidates) == 1 else frame.path
        in_cell = home != frame.path and not frame.path.endswith((".py", ".pyw"))
        at = f"{frame.path}:{frame.line} of {home}" if in_cell else f"{home}:{frame.line}"
        where = err.paint(at, Style.BOLD)
        function = f" in {frame.function}" if frame.function else ""
        source = f": {' '.join(frame.text.split())[:100]}" if frame.text else ""
        yield f"  {label} {where}{function}{source}"
        if not place.candidates:
            yield " " * 16 + "(not found below this folder)"
        elif not place.fits:
            yield (
                " " * 16
                + "(this line reads otherwise now: the file has changed since, or is another one; it is not edited)"
            )
        elif len(place.candidates) > 1:
            yield " " * 16 + f"(one of {', '.join(place.candidates)}: name the right one as PATH)"


def _title(repair: Repair) -> str:
    needs = f" (JAX {repair.needs_jax} and later)" if repair.needs_jax else ""
    return f"{repair.title}{needs} [{', '.join(repair.codemods)}]"


def _filled(text: str, first: str = "  ", later: str = "  ") -> str:
    return textwrap.fill(
        text, WIDTH, initial_indent=first, subsequent_indent=later, break_long_words=False, break_on_hyphens=False
    )


def write_json(diagnoses: Iterable[Diagnosis], out: Stream, *, wrote: bool) -> None:
    """All errors as one document."""
    document = {"shardfix": __version__, "errors": [_document(diagnosis, wrote) for diagnosis in diagnoses]}
    out.line(json.dumps(document, indent=2, ensure_ascii=False))


def _document(diagnosis: Diagnosis, wrote: bool) -> dict[str, Any]:
    item = diagnosis.item
    return {
        "kind": item.known.name if item.known else None,
        "type": item.error.type,
        "message": item.error.message,
        "summary": list(diagnosis.sentences),
        "explanation": item.known.means if item.known else None,
        "evidence": [dict(evidence.known) for evidence in item.evidence],
        "places": [
            {
                "path": place.frame.path,
                "line": place.frame.line,
                "function": place.frame.function,
                "candidates": list(place.candidates),
                "fits": place.fits,
            }
            for place in diagnosis.places
        ],
        "repairs": [
            {
                "title": repair.title,
                "certain": repair.certain,
                "codemods": list(repair.codemods),
                "needs_jax": repair.needs_jax,
                "diff": repair.diff.decode(errors="replace"),
            }
            for repair in diagnosis.repairs
        ],
        "repaired": wrote and diagnosis.is_settled,
    }
