"""The report for a browser: what is in the page, and what a browser makes of it."""

from __future__ import annotations

import json
import os
import re
import shutil
from collections import Counter
from collections.abc import Callable, Iterator
from html.parser import HTMLParser
from pathlib import Path

import pytest
from selenium import webdriver
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys

from shardfix.codemod import Safety
from shardfix.edits.pen import Splice
from shardfix.outcomes import FileOutcome, Outcome, ReportedFinding
from shardfix.reporters.excerpts import Kind, excerpts
from shardfix.reporters.html import folders
from shardfix.reporters.markup import Markup, element
from shardfix.reporters.side_by_side import Line, Row, hunks

Command = Callable[..., "conftest.Run"]  # type: ignore[name-defined]  # noqa: F821

VOID = {"meta", "input", "col"}
HOSTILE = "\"><script>document.title='owned'<\u2215script>.py"
HOSTILE_CODE = """\
x = "</script><script>document.title='owned'</script><img src=x onerror=alert(1)>"
x = [old, '</code></td></table><h1 id="findings">&amp;$style']  # \u202e\x0c
puzzle
"""


class Page(HTMLParser):
    """What a page consists of; it must be well formed."""

    def __init__(self, text: str) -> None:
        super().__init__(convert_charrefs=True)
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.texts: list[str] = []
        self._open: list[str] = []
        self.feed(text)
        self.close()
        assert self._open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))
        if tag not in VOID:
            self._open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self._open.pop() == tag

    def handle_data(self, data: str) -> None:
        if self._open and self._open[-1] not in ("script", "style"):
            self.texts.append(data)

    def all(self, tag: str, **attributes: str) -> list[dict[str, str | None]]:
        return [
            given
            for name, given in self.elements
            if name == tag and all(given.get(key.rstrip("_")) == value for key, value in attributes.items())
        ]

    @property
    def text(self) -> str:
        return " ".join(" ".join(self.texts).split())


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, sample: object) -> Path:
    monkeypatch.chdir(tmp_path)
    for folder in ("a", "b"):
        Path(folder).mkdir()
    Path("a/one.py").write_text("import os\n\n" + "old\n" + "pass\n" * 12 + "risky\n\n\nputs = 1\npuzzle\n")
    Path("b/two.py").write_bytes("é = old  # €\r\nif x:\r\n\tpuzzle\r\n".encode())
    Path("c.py").write_text("old = (\n")
    Path("d.py").write_text("fine\n")
    return tmp_path


def report(command: Command, *arguments: object, code: int = 2) -> str:
    done = command("--output-format", "html", *arguments)
    assert done.code == code, done.err
    return done.out.decode()  # type: ignore[no-any-return]


# The page


def test_the_page_has_all_parts(here: Path, shardfix_command: Command) -> None:
    page = Page(report(shardfix_command))
    for text in (
        "looked at 4 files for JAX 0.12 and newer",
        "Nothing has been written: --write carries out the repairs of 2 findings.",
        "findings in 2 files 5 with a safe repair 2 with an unsafe repair",
        "Repaired by --write: use new",
        "Repair, not carried out",
        "Why: there are two ways",
        "c.py line 1: cannot be parsed: '(' was never closed",
        "sample-codemod A codemod for tests of the house",
    ):
        assert text in page.text, text
    kinds = [given["data-kinds"] for given in page.all("li", class_="finding")]
    assert Counter(kinds) == {"sample-codemod/safe": 2, "sample-codemod/unsafe": 1, "sample-codemod/manual": 2}
    assert [given["data-kinds"] for given in page.all("tr", class_="task")] == [
        "sample-codemod/manual",
        "sample-codemod/unsafe",
    ]


def test_the_page_needs_nothing_beside_it_and_its_links_lead_somewhere(here: Path, shardfix_command: Command) -> None:
    page = Page(report(shardfix_command))
    names = {name for name, _ in page.elements}
    assert not names & {"link", "img", "iframe", "base", "object"}
    assert all("src" not in given for _, given in page.elements)
    ids = [given["id"] for _, given in page.elements if "id" in given]
    assert len(ids) == len(set(ids))
    targets = [given["href"] or "" for given in page.all("a")]
    assert len(targets) == 10
    assert {target.removeprefix("#") for target in targets} <= set(ids)


def test_the_page_can_be_heard(here: Path, shardfix_command: Command) -> None:
    text = report(shardfix_command)
    page = Page(text)
    assert page.all("html", lang="en")
    assert all(given.get("scope") in ("col", "row") for given in page.all("th"))
    tables = len(page.all("table"))
    assert tables == len(page.all("caption")) == len(page.all("thead")) >= 8
    assert all(given.get("aria-label") for given in page.all("div", role="img"))
    assert len(re.findall(r"<label><input\b", text)) == len(page.all("input")) == 4
    assert len(page.all("fieldset")) == len(page.all("legend")) == 2


def test_a_written_run_says_so(here: Path, shardfix_command: Command) -> None:
    page = Page(report(shardfix_command, "--write"))
    assert "2 findings repaired and written" in page.text
    assert "Repaired: use new" in page.text
    assert page.text.count("use new") == 2
    assert len(page.all("td", class_="new")) == 3  # two that are written, and the proposal


def test_a_clean_run(here: Path, shardfix_command: Command) -> None:
    page = Page(report(shardfix_command, "d.py", code=0))
    assert "There is nothing to fix." in page.text
    assert "Nothing is left to do." in page.text
    assert not page.all("details")


def test_a_notebook_has_its_cells(here: Path, shardfix_command: Command) -> None:
    cells = [{"cell_type": "code", "metadata": {}, "outputs": [], "source": [code]} for code in ("import os", "puzzle")]
    Path("n.ipynb").write_text(json.dumps({"cells": cells, "metadata": {}, "nbformat": 4, "nbformat_minor": 5}))
    page = Page(report(shardfix_command, "n.ipynb", code=1))
    assert "cell 2, line 1" in page.text
    assert "n.ipynb:cell 2:1:1" in page.text


def test_nothing_hostile_gets_out_of_its_place(here: Path, shardfix_command: Command) -> None:
    Path(HOSTILE).write_text(HOSTILE_CODE)
    Path(os.fsdecode(b"bytes\xff\x01.py")).write_text("old\n")
    text = report(shardfix_command)
    page = Page(text)
    assert len(page.all("script")) == 1
    assert not page.all("img")
    assert len(page.all("h1")) == 1
    shown = "".join(page.texts)
    assert HOSTILE in shown
    assert "bytes\ufffd\u2401.py" in shown
    assert '</code></td></table><h1 id="findings">&amp;$style' in shown
    assert "[U+202E]\u240c" in shown
    assert not re.search("[\x00-\x08\x0b-\x1f\u202e]", text)


def test_no_element_takes_text_for_markup() -> None:
    assert element("b", "<&>", Markup("<i>"), title='"<', hidden=True, id=None) == (
        '<b title="&quot;&lt;" hidden>&lt;&amp;&gt;<i></b>'
    )
    assert element("input", data_kind="a") == '<input data-kind="a">'


# What is in it


def finding(line: int, *changes: Splice, fixed: bool = False, end_line: int | None = None) -> ReportedFinding:
    safety = Safety.SAFE if fixed else Safety.MANUAL
    return ReportedFinding("some", line, 1, end_line or line, 2, "wrong", safety, fixed, changes=changes)


def outcome(before: str, after: str | None, *findings: ReportedFinding) -> FileOutcome:
    new = None if after is None else after.encode()
    return FileOutcome("a.py", Outcome.FIXABLE, findings, before=before.encode(), after=new)


TEXT = "".join(f"{number}\n" for number in range(1, 41))


def test_a_repair_is_told_of_where_it_is_and_shown_wherever_it_changes_something() -> None:
    after = TEXT.replace("1\n", "import\n1\n", 1).replace("30\n", "thirty\n")
    splices = (Splice(0, 0, "import\n"), Splice(TEXT.index("30"), TEXT.index("30") + 2, "thirty"))
    first, second = excerpts(outcome(TEXT, after, finding(30, *splices, fixed=True)))
    assert (first.kind, first.findings, first.company, first.line) == (Kind.REPAIR, (), (0,), 1)
    assert (second.kind, second.findings, second.company, second.line) == (Kind.REPAIR, (0,), (), 27)


def test_findings_that_share_a_repair_share_its_proposal() -> None:
    start = TEXT.index("20")
    change = Splice(start, start + 2, "twenty")
    (only,) = excerpts(outcome(TEXT, None, finding(20, change), finding(22, change)))
    assert (only.kind, only.findings) == (Kind.PROPOSAL, (0, 1))
    assert [row for rows in only.hunks for row in rows if row.changed] == [
        Row(Line(20, (("20", False),)), Line(20, (("twenty", False),)), True)
    ]


def test_what_stays_is_shown_with_its_place() -> None:
    (only,) = excerpts(outcome("a\nb = (\n  c,\n)\nd\n", None, finding(2, end_line=4)))
    assert [row.before for row in only.hunks[0] if row.before] == [
        Line(1, (("a", False),)),
        Line(2, (("b = (", True),)),
        Line(3, (("  ", False), ("c,", True))),
        Line(4, ((")", True),)),
        Line(5, (("d", False),)),
        Line(6, ()),
    ]


def test_every_finding_is_told_of_once() -> None:
    after = TEXT.replace("5\n", "five\n", 1)
    change = Splice(0, 1, "one")
    findings = [finding(5, fixed=True), finding(39, fixed=True), finding(1, change), finding(6), finding(40)]
    for written in (after, None):
        told = [number for one in excerpts(outcome(TEXT, written, *findings)) for number in one.findings]
        assert sorted(told) == [0, 1, 2, 3, 4]


def test_words_that_differ_are_marked() -> None:
    ((row,),) = hunks(["y = lax.pvary(x, 'i')"], ["y = lax.pcast(x, 'i')"])
    assert row.before == Line(1, (("y = lax.", False), ("pvary", True), ("(x, 'i')", False)))
    assert row.after == Line(1, (("y = lax.", False), ("pcast", True), ("(x, 'i')", False)))
    ((row,),) = hunks(["all of it"], ["something_else(1)"])
    assert row.before == Line(1, (("all of it", False),))


def test_a_line_that_is_added_has_nothing_beside_it() -> None:
    (rows,) = hunks(["a"], ["new", "a"])
    assert rows[0] == Row(None, Line(1, (("new", False),)), True)
    assert rows[1] == Row(Line(1, (("a", False),)), Line(2, (("a", False),)), False)


def test_folders_count_together_where_there_are_many() -> None:
    assert folders(["a/b/c.py", "a/d.py", "e.py"]) == ["a/b/", "a/", "./"]
    assert folders([f"a/{number}/c.py" for number in range(30)] + ["b/c/d.py"]) == ["a/"] * 30 + ["b/"]
    assert len(set(folders([f"{number}/c.py" for number in range(30)]))) == 30
    assert folders(["/x/y/c.py", "/x/d.py"]) == ["/x/y/", "/x/"]
    assert folders([]) == []


# The page in a browser


@pytest.fixture(scope="module")
def browser() -> Iterator[webdriver.Chrome]:
    """A headless Chromium with its driver, both of the system."""
    program = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    driver = shutil.which("chromedriver")
    if program is None or driver is None:
        missing = "no chromium and chromedriver (Debian: apt-get install chromium chromium-driver)"
        if os.environ.get("CI") == "true" and shutil.which("apt-get"):
            pytest.fail(missing)
        pytest.skip(missing)
    options = webdriver.ChromeOptions()
    options.binary_location = program
    for argument in ("--headless=new", "--no-sandbox", "--disable-dev-shm-usage", "--window-size=1200,900"):
        options.add_argument(argument)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    chrome = webdriver.Chrome(options=options, service=webdriver.ChromeService(driver))
    yield chrome
    chrome.quit()


@pytest.fixture
def opened(browser: webdriver.Chrome, here: Path, shardfix_command: Command) -> webdriver.Chrome:
    """The browser, showing the report."""
    Path("e.py").write_text(HOSTILE_CODE)
    Path("report.html").write_text(report(shardfix_command), encoding="utf-8")
    browser.get((here / "report.html").as_uri())
    return browser


def seen(browser: webdriver.Chrome, selector: str) -> list[str]:
    """What is visible of the elements, by their codemod and safety."""
    elements = browser.find_elements(By.CSS_SELECTOR, selector)
    return [(one.get_attribute("data-kinds") or "").rpartition("/")[2] for one in elements if one.is_displayed()]


def choose(browser: webdriver.Chrome, value: str) -> None:
    browser.find_element(By.CSS_SELECTOR, f".chip.{value}").click()


def test_filters_in_a_browser(opened: webdriver.Chrome) -> None:
    assert Counter(seen(opened, "li.finding")) == {"safe": 3, "unsafe": 1, "manual": 3}
    assert Counter(seen(opened, "tr.task")) == {"unsafe": 1, "manual": 1}
    output = opened.find_element(By.TAG_NAME, "output")
    assert output.text == "7 of 7 findings shown"

    choose(opened, "manual")
    assert Counter(seen(opened, "li.finding")) == {"safe": 3, "unsafe": 1}
    assert seen(opened, "tr.task") == ["unsafe"]
    assert output.text == "4 of 7 findings shown"
    choose(opened, "safe")
    assert seen(opened, "li.finding") == seen(opened, ".excerpt") == ["unsafe"]
    assert len(seen(opened, ".file")) == 1, "files without a chosen finding are hidden"

    opened.find_element(By.CSS_SELECTOR, "button[value=none]").click()
    assert seen(opened, "[data-kinds]") == []
    choose(opened, "sample-codemod")
    assert seen(opened, "li.finding") == ["unsafe"]
    opened.find_element(By.CSS_SELECTOR, "button[value=all]").click()
    assert len(seen(opened, "li.finding")) == 7


def test_filters_by_keyboard(opened: webdriver.Chrome) -> None:
    box = opened.find_element(By.CSS_SELECTOR, "input[value=unsafe]")
    box.send_keys(Keys.SPACE)
    assert not box.is_selected()
    assert "unsafe" not in seen(opened, "li.finding")


def test_nothing_hostile_runs_in_a_browser(opened: webdriver.Chrome) -> None:
    assert opened.title == "shardfix report"
    assert opened.get_log("browser") == []
    opened.execute_script("document.body.append(document.createRange().createContextualFragment('<p onclick=a()>'))")
    (refused,) = opened.get_log("browser")
    assert "Content Security Policy" in refused["message"], "what got in all the same would not run"


def test_a_link_of_the_worklist_opens_the_file_that_it_leads_to(opened: webdriver.Chrome) -> None:
    link = opened.find_element(By.CSS_SELECTOR, "#worklist a")
    target = opened.find_element(
        By.CSS_SELECTOR, (link.get_attribute("href") or "").rpartition("/")[2].partition(".html")[2]
    )
    for file in opened.find_elements(By.CSS_SELECTOR, ".file > summary"):
        file.click()
    assert not target.is_displayed()
    link.click()
    assert target.is_displayed()


@pytest.mark.parametrize(("width", "columns"), [(1200, 2), (400, 1)])
def test_a_narrow_window_has_the_lines_below_each_other(opened: webdriver.Chrome, width: int, columns: int) -> None:
    opened.execute_cdp_cmd(
        "Emulation.setDeviceMetricsOverride", {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": False}
    )
    try:
        old = opened.find_element(By.CSS_SELECTOR, "td.old").rect
        new = opened.find_element(By.CSS_SELECTOR, "td.new").rect
        assert (old["x"] < new["x"]) == (columns == 2)
        assert (old["y"] < new["y"]) == (columns == 1)
        assert opened.execute_script("return document.documentElement.scrollWidth") <= width
    finally:
        opened.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})


def test_a_clean_page_has_no_empty_tables(browser: webdriver.Chrome, here: Path, shardfix_command: Command) -> None:
    Path("clean.html").write_text(report(shardfix_command, "c.py", "d.py"), encoding="utf-8")
    browser.get((here / "clean.html").as_uri())
    headings = browser.find_elements(By.TAG_NAME, "h2")
    assert [heading.text for heading in headings if heading.is_displayed()] == ["What went wrong"]


def test_without_scripts_everything_is_there(opened: webdriver.Chrome) -> None:
    opened.execute_cdp_cmd("Emulation.setScriptExecutionDisabled", {"value": True})
    try:
        opened.refresh()
        assert len(opened.find_elements(By.CSS_SELECTOR, "li.finding")) == 7
        assert not opened.find_element(By.CSS_SELECTOR, ".filters").is_displayed()
    finally:
        opened.execute_cdp_cmd("Emulation.setScriptExecutionDisabled", {"value": False})
