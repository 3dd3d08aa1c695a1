"""For a browser: the run as one page that needs nothing beside it, to review a migration with."""

from __future__ import annotations

import base64
import hashlib
import os
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from string import Template
from typing import TYPE_CHECKING

from shardfix import __version__, manual
from shardfix.codemod import Safety, all_codemods
from shardfix.reporters.base import Reporter
from shardfix.reporters.excerpts import Excerpt, Kind, excerpts
from shardfix.reporters.markup import Markup, element, joined
from shardfix.reporters.text import counted, position

if TYPE_CHECKING:
    from shardfix.outcomes import FileOutcome, ReportedFinding, Summary
    from shardfix.reporters.side_by_side import Line, Row

__all__ = ["HtmlReporter", "folders"]

MOST_FOLDERS = 20
"""Where there are more, folders count together with those beside them."""
HARDEST_FIRST = (Safety.MANUAL, Safety.UNSAFE, Safety.SAFE)

Tally = Counter[tuple[str, Safety]]
"""How many findings there are, by codemod and safety."""


class HtmlReporter(Reporter):
    """One page. Its files ``page.html``, ``page.css`` and ``page.js`` lie beside this one."""

    def show(self, outcome: FileOutcome) -> None:
        """Nothing: the page is written when all is known."""

    def finish(self, outcomes: Sequence[FileOutcome], summary: Summary) -> None:
        script = _data("page.js")
        tally = _tally(outcomes)
        left = summary.found - summary.fixed
        page = Template(_data("page.html")).substitute(
            style=_data("page.css"),
            script=script,
            script_digest=base64.b64encode(hashlib.sha256(script.encode()).digest()).decode(),
            state="" if summary.found else "clean",
            lead=_lead(summary, self.mode.writes),
            tiles=_tiles(summary, tally),
            codemods=_codemods(summary, tally, self.mode.writes),
            folders=_folders(outcomes, summary),
            choices=_choices(summary, tally),
            files=joined(_file(number, outcome, self.mode.writes) for number, outcome in enumerate(outcomes)),
            worklist=_worklist(outcomes) if left else element("p", "Nothing is left to do."),
            failures=_failures(outcomes),
            manual_pages=joined(map(_manual_page, summary.codemods)),
        )
        self.out.raw(page.encode())
        self._report_failures(outcomes)


def folders(paths: Sequence[str]) -> list[str]:
    """For each path the folder that it counts for: its own, or one above where there would be too many of them."""
    parents = [path.replace(os.sep, "/").split("/")[:-1] for path in paths]
    deepest = max(map(len, parents), default=0)
    for depth in range(deepest, 1, -1):
        names = _cut(parents, depth)
        if len(set(names)) <= MOST_FOLDERS:
            return names
    return _cut(parents, 1)


def _cut(parents: Iterable[list[str]], depth: int) -> list[str]:
    return ["/".join(parent[:depth]) + "/" if parent else "./" for parent in parents]


def _data(name: str) -> str:
    return Path(__file__).with_name(name).read_text(encoding="utf-8")


def _tally(outcomes: Iterable[FileOutcome]) -> Tally:
    return Counter((finding.codemod, finding.safety) for outcome in outcomes for finding in outcome.findings)


# The overview


def _lead(summary: Summary, written: bool) -> Markup:
    looked_at = (
        f"shardfix {__version__} looked at {counted(summary.files, 'file')} for JAX {summary.target_jax} and newer. "
    )
    if not summary.found:
        return element("p", looked_at, "There is nothing to fix.")
    if written:
        return element("p", looked_at, f"{counted(summary.fixed, 'finding')} repaired and written.")
    if not summary.fixed:
        return element("p", looked_at, "Nothing has been written.")
    repairs = f" carries out the repairs of {counted(summary.fixed, 'finding')}."
    return element("p", looked_at, "Nothing has been written: ", element("code", "--write"), repairs)


def _tiles(summary: Summary, tally: Tally) -> Markup:
    by_safety = {safety: sum(tally[name, safety] for name in summary.codemods) for safety in Safety}
    tiles = [
        ("", summary.found, f"{_noun(summary.found, 'finding')} in {counted(summary.files_with_findings, 'file')}"),
        ("safe", by_safety[Safety.SAFE], "with a safe repair"),
        ("unsafe", by_safety[Safety.UNSAFE], "with an unsafe repair, to be reviewed"),
        ("manual", by_safety[Safety.MANUAL], "to be done by hand"),
    ]
    if summary.failed:
        tiles.append(("failed", summary.failed, f"{_noun(summary.failed, 'file')} that could not be processed"))
    return joined(
        element("div", element("dt", text), element("dd", f"{number:,}"), class_=f"tile {kind}".strip())
        for kind, number, text in tiles
    )


def _noun(number: int, noun: str) -> str:
    return noun if number == 1 else f"{noun}s"


def _codemods(summary: Summary, tally: Tally, written: bool) -> Markup:
    """The table of codemods, those with the most findings first, with a bar each."""
    most = max((one.found for one in summary.codemods.values()), default=0)
    available = all_codemods()
    rows = []
    for name in _most_first(summary):
        one = summary.codemods[name]
        about = manual.summary(available[name].manual_page()) if name in available else ""
        link = element("a", name, href=f"#about-{name}", title=about)
        numbers = (one.found, *(tally[name, safety] for safety in Safety), one.fixed)
        cells = (element("td", f"{number:,}", class_="number" if number else "number none") for number in numbers)
        bar = element("td", _bar({safety: tally[name, safety] for safety in Safety}, most), class_="plot")
        rows.append(element("tr", element("th", link, scope="row"), bar, *cells))
    headings = ("Found", "Safe", "Unsafe", "By hand", "Repaired" if written else "Repaired by --write")
    columns = [element("th", "Codemod", scope="col"), element("th", "Findings", scope="col", class_="plot")]
    columns += [element("th", heading, scope="col", class_="number") for heading in headings]
    return _table("Findings by codemod", columns, rows)


def _most_first(summary: Summary) -> list[str]:
    return sorted(summary.codemods, key=lambda name: (-summary.codemods[name].found, name))


def _bar(numbers: dict[Safety, int], most: int) -> Markup:
    """A bar whose full width stands for ``most``; what it shows stands in numbers beside it, or is its title."""
    parts = [
        element("span", class_=safety.value, style=f"width: {100 * number / most:.2f}%")
        for safety, number in numbers.items()
        if number
    ]
    title = ", ".join(f"{number:,} {_WORDS[safety]}" for safety, number in numbers.items() if number)
    return element("div", *parts, class_="bar", role="img", aria_label=title, title=title)


_WORDS = {Safety.SAFE: "safe", Safety.UNSAFE: "unsafe", Safety.MANUAL: "by hand"}


def _folders(outcomes: Sequence[FileOutcome], summary: Summary) -> Markup:
    """The plot of folders against codemods: the more findings, the stronger the colour."""
    found = [outcome for outcome in outcomes if outcome.findings]
    safeties: Counter[tuple[str, Safety]] = Counter()
    cells: Counter[tuple[str, str]] = Counter()
    for outcome, folder in zip(found, folders([outcome.path for outcome in found]), strict=True):
        for finding in outcome.findings:
            safeties[folder, finding.safety] += 1
            cells[folder, finding.codemod] += 1
    totals = {folder: sum(safeties[folder, safety] for safety in Safety) for folder, _ in cells}
    most, strongest = max(totals.values(), default=0), max(cells.values(), default=0)
    names = _most_first(summary)
    rows = []
    for folder in sorted(totals):
        bar = _bar({safety: safeties[folder, safety] for safety in Safety}, most)
        number = element("span", f"{totals[folder]:,}", class_="number")
        plot = element("td", element("div", number, bar), class_="plot")
        heat = [_heat(cells[folder, name], strongest) for name in names]
        rows.append(element("tr", element("th", element("code", folder), scope="row"), plot, *heat))
    columns = [element("th", "Folder", scope="col"), element("th", "Findings", scope="col", class_="plot")]
    columns += [element("th", element("span", name), scope="col", class_="upright") for name in names]
    return _table("Findings by folder and codemod", columns, rows, class_="heat")


def _heat(number: int, strongest: int) -> Markup:
    if not number:
        return element("td", class_="number")
    share = (number / strongest) ** 0.5  # so that few beside many are still seen
    return element("td", f"{number:,}", class_="number hot", style=f"--heat: {0.12 + 0.68 * share:.2f}")


def _table(caption: str, columns: Iterable[Markup], rows: Iterable[Markup], class_: str | None = None) -> Markup:
    head = element("thead", element("tr", *columns))
    table = element("table", element("caption", caption), head, element("tbody", *rows), class_=class_)
    # A region that scrolls can be scrolled by keyboard only if it can be focused, and then it needs a name.
    return element("div", table, class_="scroll", tabindex=0, role="region", aria_label=caption)


# The filters


def _choices(summary: Summary, tally: Tally) -> Markup:
    by_safety = {safety: sum(tally[name, safety] for name in summary.codemods) for safety in Safety}
    safeties = [_choice("safety", safety.value, _WORDS[safety], by_safety[safety]) for safety in Safety]
    codemods = [_choice("codemod", name, name, summary.codemods[name].found) for name in _most_first(summary)]
    return joined(
        element("fieldset", element("legend", legend), *choices)
        for legend, choices in (("Safety", safeties), ("Codemod", codemods))
    )


def _choice(name: str, value: str, text: str, number: int) -> Markup:
    box = element("input", type="checkbox", name=name, value=value, checked=True)
    return element("label", box, element("span", text, " ", element("small", f"{number:,}"), class_=f"chip {value}"))


def _kinds(findings: Iterable[ReportedFinding]) -> str:
    """What the script compares with what is chosen."""
    return " ".join(sorted({f"{finding.codemod}/{finding.safety}" for finding in findings}))


# The files


def _file(number: int, outcome: FileOutcome, written: bool) -> Markup:
    if not outcome.findings:
        return Markup()
    heading = element("summary", element("h3", element("code", outcome.path)), element("span", _what(outcome)))
    shown = [_excerpt(excerpt, number, outcome, written) for excerpt in excerpts(outcome)]
    return element("details", heading, *shown, class_="file", open=True, data_kinds=_kinds(outcome.findings))


def _what(outcome: FileOutcome) -> str:
    return counted(len(outcome.findings), "finding")


def _anchor(file: int, finding: int) -> str:
    return f"finding-{file + 1}-{finding + 1}"


def _excerpt(excerpt: Excerpt, file: int, outcome: FileOutcome, written: bool) -> Markup:
    told = [_finding(outcome.findings[one], _anchor(file, one), written) for one in excerpt.findings]
    parts = [element("ul", *told, class_="findings")] if told else []
    company = sorted({outcome.findings[one].codemod for one in excerpt.company})
    if company and not told:
        parts.append(element("p", f"Goes with the repairs of {', '.join(company)}.", class_="company"))
    if excerpt.hunks:
        parts.append(_code(excerpt) if excerpt.kind is Kind.CODE else _diff(excerpt))
    about = [outcome.findings[one] for one in (*excerpt.findings, *excerpt.company)]
    return element("section", *parts, class_="excerpt", data_kinds=_kinds(about))


def _finding(finding: ReportedFinding, anchor: str, written: bool) -> Markup:
    head = element(
        "p",
        element("a", finding.where, href=f"#{anchor}", class_="place"),
        " ",
        _badge(finding),
        " ",
        element("b", finding.codemod),
        ": ",
        _prose(finding.message),
    )
    parts = [head]
    if finding.fixed:
        parts.append(_labelled("Repaired" if written else "Repaired by --write", finding.fix))
    elif finding.fix or finding.changes:
        parts.append(_labelled("Repair, not carried out", finding.fix))
    return element("li", *parts, *_reasons(finding), class_="finding", id=anchor, data_kinds=_kinds([finding]))


def _badge(finding: ReportedFinding) -> Markup:
    return element("span", _WORDS[finding.safety], class_=f"badge {finding.safety}")


def _reasons(finding: ReportedFinding) -> Iterator[Markup]:
    if finding.reason:
        yield _labelled("Why", finding.reason)
    if finding.choices:
        yield _labelled("Choices", "")
        yield element("ul", *(element("li", _prose(choice)) for choice in finding.choices), class_="choices")


def _labelled(label: str, text: str) -> Markup:
    return element("p", element("span", f"{label}: " if text else label, class_="label"), _prose(text))


def _prose(text: str) -> Markup:
    """A sentence; what stands between backquotes in it is code."""
    parts = text.split("`")
    if len(parts) % 2 == 0:
        return joined([text])
    return joined(element("code", part) if place % 2 else part for place, part in enumerate(parts))


def _code(excerpt: Excerpt) -> Markup:
    rows = [element("tr", *_side(row.before, "mark", "same")) for rows in excerpt.hunks for row in rows]
    head = element("tr", element("th", "Line", scope="col"), element("th", "Code", scope="col"))
    return _listing(f"The code at line {excerpt.line}", "code", head, [rows])


def _diff(excerpt: Excerpt) -> Markup:
    head = element("tr", *(element("th", text, scope="col") for text in ("Line", "Before", "Line", "After")))
    proposed = " that would change" if excerpt.kind is Kind.PROPOSAL else ""
    bodies = [list(map(_diff_row, rows)) for rows in excerpt.hunks]
    return _listing(
        f"Before and after from line {excerpt.line}{proposed}", f"diff {excerpt.kind.name.lower()}", head, bodies
    )


def _listing(caption: str, class_: str, head: Markup, bodies: Iterable[list[Markup]]) -> Markup:
    columns = [element("col", class_="line"), element("col")] * (1 if class_ == "code" else 2)
    heading = element("caption", caption), element("colgroup", *columns), element("thead", head)
    return element("table", *heading, *(element("tbody", *rows) for rows in bodies), class_=f"listing {class_}")


def _diff_row(row: Row) -> Markup:
    if not row.changed:
        return element("tr", *_side(row.before, "del", "same"), *_side(row.after, "ins", "same"))
    return element("tr", *_side(row.before, "del", "old"), *_side(row.after, "ins", "new"), class_="changed")


def _side(line: Line | None, mark: str, kind: str) -> tuple[Markup, Markup]:
    """The number and the text of one line, with what differs in an element ``mark``."""
    if line is None:
        return element("td", class_="line gap"), element("td", class_="gap")
    parts = [element(mark, text) if differs else text for text, differs in line.parts]
    return element("td", str(line.number), class_="line"), element("td", element("code", *parts), class_=kind)


# What is left, what went wrong, and what the codemods are


def _worklist(outcomes: Sequence[FileOutcome]) -> Markup:
    """What the run leaves, first what only people can do; findings with the same words are one task."""
    tasks: dict[tuple[int, str, str, str, tuple[str, ...]], list[tuple[ReportedFinding, Markup]]] = {}
    for file, outcome in enumerate(outcomes):
        for number, finding in enumerate(outcome.findings):
            if not finding.fixed:
                rank = HARDEST_FIRST.index(finding.safety)
                task = (rank, finding.codemod, finding.message, finding.reason, finding.choices)
                place = element("code", f"{outcome.path}:{position(finding)}")
                link = element("a", place, href=f"#{_anchor(file, number)}")
                tasks.setdefault(task, []).append((finding, link))
    rows = []
    for _, same in sorted(tasks.items(), key=lambda task: (task[0][0], -len(task[1]), task[0][1])):
        finding = same[0][0]
        what = element("p", element("b", finding.codemod), ": ", _prose(finding.message))
        cells = (
            element("td", _badge(finding)),
            element("td", what, *_reasons(finding)),
            element("td", element("ul", *(element("li", link) for _, link in same))),
        )
        rows.append(element("tr", *cells, class_="task", data_kinds=_kinds([finding])))
    columns = [element("th", text, scope="col") for text in ("Repair", "What to do", "Where")]
    return _table("What the run leaves", columns, rows, class_="worklist")


def _failures(outcomes: Iterable[FileOutcome]) -> Markup:
    rows = [
        element("tr", element("td", element("code", outcome.path)), element("td", str(failure)))
        for outcome in outcomes
        for failure in outcome.failures
    ]
    if not rows:
        return Markup()
    columns = [element("th", text, scope="col") for text in ("File", "Reason")]
    table = _table("Files that could not be processed, or not in full", columns, rows)
    return element("section", element("h2", "What went wrong"), table)


def _manual_page(name: str) -> Markup:
    available = all_codemods()
    page = available[name].manual_page() if name in available else ""
    summary = element("summary", element("b", name), " ", _prose(manual.summary(page)))
    return element("details", summary, element("pre", page.partition("\n\n")[2]), id=f"about-{name}", class_="about")
