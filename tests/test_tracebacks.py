"""The texts in ``tests/tracebacks`` (and in ``../shared/tracebacks``, where there is one) are what JAX printed;
``expected.toml`` says what each of them says. A line of it is ``KIND FILE:LINE NAME=VALUE ...``.
"""

from __future__ import annotations

import html
import json
import random
import re
import subprocess
import sys
import tomllib
from pathlib import Path, PurePosixPath

import pytest

from shardfix.codemod import all_codemods
from shardfix.tracebacks import Evidence, Frame, explain, read_errors, recognise, summary, table
from shardfix.tracebacks.evidence import rank_of, spec_entries
from shardfix.tracebacks.sources import find_source

HERE = Path(__file__).parent
TEXTS = HERE / "tracebacks"
SHARED = HERE.parents[1] / "shared" / "tracebacks"
EXPECTED: dict[str, dict[str, list[str]]] = tomllib.loads((TEXTS / "expected.toml").read_text(encoding="utf-8"))
SHOWN = (
    "function api argument parameter key_path spec_path spec shape rank axis axes value value_type old new"
).split()


def line_of(evidence: Evidence) -> str:
    """One line of ``expected.toml``."""
    place = f"{PurePosixPath(evidence.path).name}:{evidence.line}"
    shown = {name: getattr(evidence, name) for name in SHOWN}
    shown["axes"] = ",".join(evidence.axes)
    words = [f"{name}={value}" for name, value in shown.items() if value not in (None, "")]
    return " ".join([evidence.kind, place, *words]).replace("PartitionSpec(", "P(")


def lines_of(text: str) -> list[str]:
    """What a whole text says."""
    lines: list[str] = []
    for item in recognise(text):
        lines += map(line_of, item.evidence) if item.known else [f"unknown {item.error.type}"]
    return lines


def cases() -> list[tuple[str, str, Path]]:
    """Name, JAX version and text of every case."""
    found = [(*path.name.removesuffix(".txt").split(".jax-"), path) for path in sorted(TEXTS.glob("*.txt"))]
    if SHARED.is_dir():
        for path in sorted(SHARED.glob("*/jax-*.txt")):
            found.append((path.parent.name, path.stem.removeprefix("jax-"), path))
    return found  # type: ignore[return-value]


@pytest.mark.parametrize(
    ("name", "version", "path"), cases(), ids=lambda value: value if isinstance(value, str) else ""
)
def test_text(name: str, version: str, path: Path) -> None:
    expected = EXPECTED[name].get(version, EXPECTED[name]["evidence"])
    assert lines_of(path.read_text(encoding="utf-8")) == expected


TWO_MODULES = """\
Traceback (most recent call last):
  File "/srv/train/main.py", line 8, in <module>
    print(run(batch))
          ~~~^^^^^^^
  File "/srv/train/lib/steps.py", line 9, in run
    losses = jax.shard_map(
    ...<3 lines>...
    )(batch)
ValueError: shard_map applied to the function 'local_loss' was given an out_specs entry which is too long to be compatible \
with the corresponding output value from the function:

out_specs is P('data',) which has length 1, but local_loss(*args) has shape float32[], which has rank 0 (and 0 < 1)

Entries in out_specs must be of length no greater than the number of axes in the corresponding output value.

Either revise the spec to be shorter, or modify 'local_loss' so that its outputs have sufficient rank.
--------------------
For simplicity, JAX has removed its internal frames from the traceback of the following exception. \
Set JAX_TRACEBACK_FILTERING=off to include these.
"""
EXPECTED_LINE = "output-rank steps.py:9 function=local_loss argument=out_specs spec=P('data',) shape=float32[] rank=0"


def prefixed(prefix: str, text: str = TWO_MODULES) -> str:
    return "".join(prefix + line for line in text.splitlines(keepends=True))


WORKERS = ["(worker pid=123) ", "(train_fn pid=7, ip=10.0.0.1) ", "[rank0]: ", "[1,0]<stderr>:", "3: ", "worker-0 | "]
LOGGERS = [
    "I1129 12:00:00.123 host.py:12] ",
    "E1129 12:00:00.123456 4711 host.py:12] ",
    "2025-11-29T12:00:00.123456Z ",
    "2025-11-29 12:00:00,123 ",
    "2025-11-29T12:00:00.123456789Z stderr F ",
    "Nov 29 12:00:00 tpu-vm python[123]: ",
    "ERROR:root:",
    "<<some/launcher 17>> ",
    "[default0]:",
    "[pod/train-0/main] ",
    "train-0 main ",
    "trainer_1  | ",
    "10.0.0.1: ",
    "[node01:0]:",
    "#12 3.456 ",
    "time=2025-11-29T12:00:00Z level=ERROR ",
    "2025-11-29 12:00:00.123 | ERROR    | __main__:main:12 - ",
    "[2025-11-29 12:00:00,123][__main__][ERROR] - ",
    "ERROR: ",
    "+",
]


@pytest.mark.parametrize("prefix", [*WORKERS, *LOGGERS, "[rank1]: 2025-11-29 12:00:00,123 ", "\x1b[31m"])
def test_prefix_before_each_line(prefix: str) -> None:
    assert lines_of("starting\n" + prefixed(prefix) + "done\n") == [EXPECTED_LINE]


@pytest.mark.parametrize("prefix", LOGGERS)
def test_prefix_before_the_first_line_only(prefix: str) -> None:
    assert lines_of("step 1\n" + prefix + TWO_MODULES + "bye\n") == [EXPECTED_LINE]


@pytest.mark.parametrize(
    "prefixes",
    [
        ("[rank0]: ", "[rank1]: "),
        ("[pod/train-0/main] ", "[pod/train-1/main] "),
        ("node01: ", "node02: "),
        ("train-0  | ", "train-1  | "),
        ("2025-11-29T12:00:00Z pod-0 ", "2025-11-29T12:00:01Z pod-1 "),
        ("Nov 29 12:00:00 vm-0 python[12]: ", "Nov 29 12:00:00 vm-1 python[12]: "),
        ("E1129 12:00:00.123456 4711 host.py:12] ", "E1129 12:00:00.123456 4712 host.py:12] "),
    ],
)
def test_workers_that_write_at_the_same_time(prefixes: tuple[str, str]) -> None:
    first = prefixed(prefixes[0]).splitlines(keepends=True)
    second = prefixed(prefixes[1], TWO_MODULES.replace("local_loss", "other")).splitlines(keepends=True)
    text = "".join(line for pair in zip(first, second, strict=True) for line in pair)
    assert lines_of(text) == [EXPECTED_LINE, EXPECTED_LINE.replace("local_loss", "other")]


def test_workers_that_fail_alike_are_one_error() -> None:
    assert lines_of("".join(prefixed(f"(worker pid={pid}) ") for pid in range(8))) == [EXPECTED_LINE]


def records(*fields: str) -> str:
    """A JSON record for each line."""
    return "".join(
        json.dumps(dict.fromkeys(fields, line) | {"time": "12:00", "resource": {"pod_name": "train-0"}}) + "\n"
        for line in TWO_MODULES.splitlines()
    )


PACKED = {
    "one JSON record": json.dumps({"severity": "ERROR", "message": TWO_MODULES}),
    "one JSON record, indented": json.dumps({"jsonPayload": {"message": TWO_MODULES}}, indent=2),
    "JSON records of Docker": records("log"),
    "JSON records of a cloud": records("textPayload"),
    "a JSON array": json.dumps([{"textPayload": line} for line in TWO_MODULES.splitlines()]),
    "a JSON record after a time": "2025-11-29T12:00:00Z " + json.dumps({"exc_info": TWO_MODULES}),
    "repr of a string": repr(TWO_MODULES),
    "repr of bytes": f"stderr: {TWO_MODULES.encode()!r}",
    "HTML": "<pre>" + html.escape(TWO_MODULES) + "</pre>",
    "HTML with colours": html.escape(TWO_MODULES).replace("ValueError", '<span class="ansi-red-fg">ValueError</span>'),
    "CSV": 'id,message\n1,"' + TWO_MODULES.replace('"', '""') + '"\n',
    "colours shown by cat -v": TWO_MODULES.replace("ValueError", "^[[1;35mValueError^[[0m"),
    "colours as escapes": TWO_MODULES.replace("ValueError", "\\x1b[1;35mValueError\\x1b[0m"),
    "colours without their escape character": TWO_MODULES.replace("ValueError", "[1;35mValueError[0m"),
    "quotes of a word processor": re.sub(r'File "([^"]+)"', "File “\\1”", TWO_MODULES),
    "without indentation": "\n".join(map(str.strip, TWO_MODULES.splitlines())),
    "with doubled line ends": TWO_MODULES.replace("\n", "\n\n"),
    "line ends of an old Macintosh": TWO_MODULES.replace("\n", "\r"),
    "line numbers": "".join(f"{n:5d}  {line}" for n, line in enumerate(TWO_MODULES.splitlines(keepends=True), 5)),
    "grep -n": "".join(f"{n}:{line}" for n, line in enumerate(TWO_MODULES.splitlines(keepends=True), 5)),
    "a fence": f"I get\n\n```pytb\n{TWO_MODULES}```\nWhat now?",
    "a byte order mark": "\ufeff" + TWO_MODULES,
}


@pytest.mark.parametrize("text", PACKED.values(), ids=PACKED)
def test_packed_texts(text: str) -> None:
    assert lines_of(text) == [EXPECTED_LINE]


def test_records_of_several_workers() -> None:
    lines = TWO_MODULES.splitlines()
    pairs = [json.dumps({"message": line, "labels": {"rank": rank}}) for line in lines for rank in (0, 1)]
    assert lines_of("\n".join(pairs)) == [EXPECTED_LINE]


def test_a_bare_error_takes_nothing_of_what_follows() -> None:
    text = (TEXTS / "outsh_str_at_set.jax-0.12.txt").read_text(encoding="utf-8").partition("-----")[0]
    assert lines_of(text + "step 2 begins\n") == lines_of(text)


FOLLOWED = (
    "\nThe above exception was the direct cause of the following exception:\n\nTraceback (most recent call last):\n"
    '  File "/srv/launch.py", line 3, in <module>\n    main()\nRuntimeError: training failed\n'
)


def test_an_error_that_the_program_raised_anew() -> None:
    """The place of the fault is where JAX's error came from."""
    assert lines_of(TWO_MODULES + FOLLOWED) == [EXPECTED_LINE]
    (item,) = recognise(TWO_MODULES + FOLLOWED)
    assert [frame.line for frame in item.frames] == [9, 8, 3]


@pytest.mark.parametrize(
    "sequel",
    [
        'Traceback (most recent call last):\n  File "/srv/launch.py", line 3, in <module>\n    run()\n'
        "subprocess.CalledProcessError: Command '['python', 'a.py']' returned non-zero exit status 1.\n",
        "Error: the job has ended\n",
    ],
)
def test_what_only_follows_from_an_error_is_no_error_of_its_own(sequel: str) -> None:
    assert lines_of(TWO_MODULES + sequel) == [EXPECTED_LINE]
    assert len(recognise(sequel)) == 1


def test_error_of_another_process() -> None:
    message = TWO_MODULES[TWO_MODULES.index("ValueError") :]
    text = f'multiprocessing.pool.RemoteTraceback: \n"""\n{TWO_MODULES}"""\n{FOLLOWED.partition("RuntimeError")[0]}{message}'
    assert lines_of(text) == [EXPECTED_LINE]


def test_indented_as_in_a_report() -> None:
    assert lines_of("Here is what I get:\n\n" + prefixed("    ")) == [EXPECTED_LINE]


def test_quoted_in_a_mail() -> None:
    assert lines_of(prefixed("> ")) == [EXPECTED_LINE]


def test_windows_newlines_and_paths() -> None:
    text = TWO_MODULES.replace("/srv/train/lib/", "C:\\work\\train\\lib\\").replace("\n", "\r\n")
    (evidence,) = recognise(text)[0].evidence
    assert (evidence.path, evidence.line) == ("C:\\work\\train\\lib\\steps.py", 9)


@pytest.mark.parametrize("width", [80, 100, 132])
def test_lines_cut_by_a_terminal(width: int) -> None:
    cut = [line[at : at + width] for line in TWO_MODULES.splitlines() for at in range(0, max(len(line), 1), width)]
    assert lines_of("\n".join(cut)) == [EXPECTED_LINE]


def test_words_wrapped_by_a_mail_program() -> None:
    import textwrap

    wrapped = [
        part for line in TWO_MODULES.splitlines() for part in textwrap.wrap(line, 72, drop_whitespace=False) or [""]
    ]
    assert lines_of("\n".join(wrapped)) == [EXPECTED_LINE]


def test_without_carets_and_without_source() -> None:
    lines = [line for line in TWO_MODULES.splitlines() if not line.startswith("    ")]
    assert lines_of("\n".join(lines)) == [EXPECTED_LINE]


def test_carets_of_python_311() -> None:
    text = TWO_MODULES.replace("          ~~~^^^^^^^\n", "          ^^^^^^^^^^\n").replace(
        "    ...<3 lines>...\n    )(batch)\n", ""
    )
    assert lines_of(text) == [EXPECTED_LINE]


def test_exception_group() -> None:
    text = "  + Exception Group Traceback (most recent call last):\n  | ExceptionGroup: errors in a TaskGroup (1 sub-exception)\n"
    text += "  +-+---------------- 1 ----------------\n"
    assert lines_of(text + prefixed("    | ")) == [EXPECTED_LINE]


IPYTHON = """\
---------------------------------------------------------------------------
ValueError                                Traceback (most recent call last)
Cell In[3], line 5
      3 mesh = jax.make_mesh((8,), ("i",))
      4 f = jax.shard_map(total, mesh=mesh, in_specs=P("i"), out_specs=P("i"))
----> 5 f(x)

File ~/proj/train.py:12, in step(x)
     10 def step(x):
     11     y = x * 2
---> 12     return f(y)

    [... skipping hidden 1 frame]

File /opt/venv/lib/python3.13/site-packages/jax/_src/shard_map.py:355, in _shard_map.<locals>.wrapped(*args)
    353       fails, tree = e.args
    354       msg = _spec_rank_error(SpecErrorType.out, f, tree, out_specs, fails)
--> 355       raise ValueError(msg) from None
    356     return out_ft.unflatten()

ValueError: shard_map applied to the function 'total' was given an out_specs entry which is too long to be compatible \
with the corresponding output value from the function:

out_specs is P('i',) which has length 1, but total(*args) has shape float32[], which has rank 0 (and 0 < 1)
"""


def test_ipython() -> None:
    (evidence,) = recognise(IPYTHON)[0].evidence
    assert [(frame.path, frame.line, frame.function, frame.text) for frame in evidence.frames] == [
        ("~/proj/train.py", 12, "step", "return f(y)"),
        ("Cell In[3]", 5, "", "f(x)"),
    ]
    assert evidence.function == "total"


def test_ipython_at_import() -> None:
    text = """\
ModuleNotFoundError                       Traceback (most recent call last)
Cell In[1], line 1
----> 1 import main

File /srv/train/main.py:3
      1 import jax
----> 3 from jax.experimental.maps import Mesh

ModuleNotFoundError: No module named 'jax.experimental.maps'
"""
    assert lines_of(text) == ["missing-module main.py:3 old=jax.experimental.maps"]


def test_colab() -> None:
    text = IPYTHON.replace("Cell In[3], line 5", "<ipython-input-3-0a1b2c> in <cell line: 5>()").replace(
        "File ~/proj/train.py:12, in step(x)", "[/content/train.py](https://localhost:8080/#) in step(x)"
    )
    (evidence,) = recognise(text)[0].evidence
    assert [(frame.path, frame.line) for frame in evidence.frames] == [
        ("/content/train.py", 12),
        ("<ipython-input-3-0a1b2c>", 5),
    ]


def test_rich() -> None:
    text = """\
╭──────────────────────────── Traceback (most recent call last) ─────────────────────────────╮
│ /srv/train/train.py:16 in <module>                                                         │
│                                                                                            │
│   15 x = jnp.arange(16.0)                                                                  │
│ ❱ 16 print(f(x))                                                                           │
│   17                                                                                       │
╰────────────────────────────────────────────────────────────────────────────────────────────╯
TypeError: shard_map() got an unexpected keyword argument 'check_rep'
"""
    assert lines_of(text) == ["unexpected-keyword train.py:16 api=shard_map argument=check_rep"]


FAILING_TEST = '''\
def total(x):
    return x.sum()

def step(x):
    message = """shard_map applied to the function 'total' was given an out_specs entry which is too long to be compatible \
with the corresponding output value from the function:

out_specs is P('i',) which has length 1, but total(*args) has shape float32[], which has rank 0 (and 0 < 1)
"""
    raise ValueError(message)

def test_step():
    step(
        16.0
    )
'''


@pytest.mark.parametrize("style", ["auto", "long", "long -l", "short", "native", "long --color=yes -vv"])
def test_pytest(style: str, tmp_path: Path) -> None:
    """What pytest itself prints of such an error, in each of its styles."""
    (tmp_path / "test_steps.py").write_text(FAILING_TEST)
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-p",
        "no:cacheprovider",
        "-n0",
        *f"--tb={style}".split(),
        "test_steps.py",
    ]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    (item,) = recognise(done.stdout)
    (evidence,) = item.evidence
    assert (evidence.kind, evidence.function, evidence.rank) == ("output-rank", "total", 0)
    assert [frame.line for frame in evidence.frames[:2]] == [9, 12]
    assert all(PurePosixPath(frame.path).name == "test_steps.py" for frame in evidence.frames[:2])


def test_summary_of_pytest_alone() -> None:
    line = next(line for line in TWO_MODULES.splitlines() if line.startswith("ValueError"))
    (item,) = recognise(f"FAILED test_steps.py::test_step - {line}\n1 failed in 3.2s\n")
    assert item.known is not None
    assert (item.known.name, item.frames) == ("output-rank", ())
    assert len(recognise(TWO_MODULES + f"FAILED test_steps.py::test_step - {line}\n")) == 1


def test_an_error_that_is_printed_before_its_stack() -> None:
    head, _, message = TWO_MODULES.partition("ValueError")
    assert lines_of(f"ValueError{message}\n{head.partition(chr(10))[2]}") == [EXPECTED_LINE]


def test_ipython_plain() -> None:
    text = """\
Traceback (most recent call last):

  Cell In[3], line 5
    f(x)

  File ~/proj/train.py:12 in step
    return f(y)

"""
    (item,) = recognise(text + IPYTHON[IPYTHON.rindex("ValueError") :])
    assert [(frame.path, frame.line, frame.text) for frame in item.frames] == [
        ("~/proj/train.py", 12, "return f(y)"),
        ("Cell In[3]", 5, "f(x)"),
    ]


def test_log_handler_of_rich() -> None:
    margin = " " * 29
    text = f"""\
[11/30/26 20:10:28] ERROR    step failed                                  train.py:75
{margin}╭──────────── Traceback (most recent call last) ────────────╮
{margin}│ /srv/train/train.py:16 in                                 │
{margin}│ evaluate                                                  │
{margin}│                                                           │
{margin}│   15 │   def evaluate(self, x):                           │
{margin}│ ❱ 16 │   │   return self.f(x)                             │
{margin}╰───────────────────────────────────────────────────────────╯
{margin}TypeError: shard_map() got an unexpected keyword argument
{margin}'check_rep'
"""
    assert lines_of(text) == ["unexpected-keyword train.py:16 api=shard_map argument=check_rep"]
    assert recognise(text)[0].frames[0].text == "return self.f(x)"


def test_several_errors_in_one_log() -> None:
    other = 'Traceback (most recent call last):\n  File "a.py", line 3, in <module>\n    import jax.experimental.maps\n'
    other += "ModuleNotFoundError: No module named 'jax.experimental.maps'\n"
    assert lines_of(TWO_MODULES + "\nrestarting\n" + other) == [
        EXPECTED_LINE,
        "missing-module a.py:3 old=jax.experimental.maps",
    ]


def test_unknown_error_keeps_the_frames_of_the_user() -> None:
    text = TWO_MODULES[: TWO_MODULES.index("ValueError")] + "RuntimeError: something else\n"
    (item,) = recognise(text)
    assert item.known is None
    assert [(frame.path, frame.line) for frame in item.frames] == [
        ("/srv/train/lib/steps.py", 9),
        ("/srv/train/main.py", 8),
    ]


def test_a_failed_assert_of_the_user_is_not_jaxs() -> None:
    text = 'Traceback (most recent call last):\n  File "a.py", line 3, in f\n    assert psum(x, "i") == 3, out_sharding\nAssertionError\n'
    assert lines_of(text) == ["unknown AssertionError"]


def test_text_that_ends_before_the_error() -> None:
    (item,) = recognise(TWO_MODULES[: TWO_MODULES.index("ValueError")])
    assert item.known is None
    assert len(item.frames) == 2


@pytest.mark.parametrize("length", [72, 90, 130])
@pytest.mark.parametrize("end", ["", "...", "…"])
def test_a_message_that_is_cut(length: int, end: str) -> None:
    start = TWO_MODULES.index("ValueError") + len("ValueError: ")
    (item,) = recognise(TWO_MODULES[: start + length] + end)
    assert item.known is not None
    assert item.known.name == "output-rank"
    assert item.evidence[0].function == "local_loss"


def test_a_message_that_is_cut_too_early() -> None:
    start = TWO_MODULES.index("ValueError")
    (item,) = recognise(TWO_MODULES[: start + 40])
    assert item.known is None


def test_no_error_at_all() -> None:
    assert recognise("epoch 1: loss 0.3\nepoch 2: loss 0.2\n") == ()


def test_remove_frames_mode() -> None:
    """JAX_TRACEBACK_FILTERING=remove_frames prints the exception twice, once within a carrier."""
    head, _, message = TWO_MODULES.partition("ValueError: ")
    message = message.partition("-----")[0]
    text = (
        f"{head}jax._src.traceback_util.UnfilteredStackTrace: ValueError: {message}\n"
        "The stack trace below excludes JAX-internal frames.\n"
        "The preceding is the original exception that occurred, unmodified.\n\n--------------------\n\n"
        f"The above exception was the direct cause of the following exception:\n\n{head}ValueError: {message}"
    )
    assert lines_of(text) == [EXPECTED_LINE]


@pytest.mark.parametrize("seed", range(40))
def test_never_fails(seed: int) -> None:
    """Cut, prefixed, coloured and shuffled texts give something or nothing, but no exception."""
    chance = random.Random(seed)
    paths = sorted(TEXTS.glob("*.txt"))
    for _ in range(5):
        text = "".join(path.read_text(encoding="utf-8") for path in chance.sample(paths, 2)) + IPYTHON
        for _ in range(chance.randrange(6)):
            at, end = sorted(chance.sample(range(len(text) + 1), 2))
            match chance.randrange(5):
                case 0:
                    text = text[at : at + 4000]
                case 1:
                    text = (
                        text[:at]
                        + chance.choice(["\x1b[1;31m", "\x1b[", "\r", "\0", "\\n", "E   ", "> ", "²", "│"])
                        + text[at:]
                    )
                case 2:
                    text = text[:at] + text[end:]
                case 3:
                    text = prefixed(chance.choice(WORKERS + LOGGERS), text)
                case _:
                    lines = text.splitlines(keepends=True)
                    chance.shuffle(lines)
                    text = "".join(lines)
            text = text or "x"
        for item in recognise(text):
            for evidence in item.evidence:
                assert item.known is not None
                assert summary(item.known, evidence)


@pytest.mark.parametrize("words", ["File words in here, line 3", "RetryError: transient"])
def test_a_long_log_is_read_in_passing(words: str) -> None:
    import time

    log = f"I1129 12:00:00.123 host.py:12] step 1 loss=0.3 {words}\n" * 100_000
    start = time.process_time()
    assert lines_of(log + TWO_MODULES + log) == [EXPECTED_LINE]
    assert time.process_time() - start < 5


# ---------------------------------------------------------------------------------------------- the table


@pytest.mark.parametrize("error", table().errors, ids=lambda error: error.name)
def test_entry(error) -> None:  # type: ignore[no-untyped-def]
    assert re.fullmatch(r"[a-z]+(?:-[a-z]+)*", error.name)
    assert error.means
    assert error.repairs
    assert error.summary
    assert error.name in explain(error)
    assert any(recognised_as(error.name)), f"no text in tests/tracebacks shows {error.name}"


def recognised_as(name: str) -> list[str]:
    return [
        case
        for case, texts in EXPECTED.items()
        for lines in texts.values()
        if any(line.startswith(f"{name} ") for line in lines)
    ]


def test_codemods_take_only_kinds_that_exist() -> None:
    kinds = {error.name for error in table().errors}
    for name, codemod in all_codemods().items():
        assert codemod.evidence <= kinds, name


def test_errors_page_is_up_to_date() -> None:
    script = HERE.parent / "scripts" / "generate_errors_page.py"
    subprocess.run([sys.executable, script, "--check"], check=True)


# ---------------------------------------------------------------------------------------------- details


@pytest.mark.parametrize(
    ("text", "rank"),
    [
        ("float32[]", 0),
        ("float32[]{V:i}", 0),
        ("float32[16]", 1),
        ("f32[8@x,16]({Explicit: ('x',)})", 2),
        ("bf16[8@(x,y),2]", 2),
        ("", None),
    ],
)
def test_rank_of(text: str, rank: int | None) -> None:
    assert rank_of(text) == rank


@pytest.mark.parametrize(
    ("text", "entries"),
    [
        ("P('i',)", ("i",)),
        ("PartitionSpec('data', None)", ("data", None)),
        ("P(('i', 'j'), None)", (("i", "j"), None)),
        ("P()", ()),
        ("P(UNCONSTRAINED, 'x')", (..., "x")),
        ("P(None, reduced={'x'})", (None,)),
        ("P('i'", None),
        ("3", None),
    ],
)
def test_spec_entries(text: str, entries: object) -> None:
    assert spec_entries(text) == entries


@pytest.mark.parametrize(
    "path",
    [
        "/opt/venv/lib/python3.13/site-packages/jax/_src/shard_map.py",
        "/usr/lib/python3/dist-packages/numpy/x.py",
        "/root/.pyenv/versions/3.11.9/lib/python3.11/runpy.py",
        "C:\\Users\\me\\AppData\\Local\\Programs\\Python\\Python313\\Lib\\runpy.py",
        "<frozen importlib._bootstrap>",
        "/home/me/jax/jax/_src/core.py",
        "../../venv/lib/python3.12/site-packages/flax/x.py",
    ],
)
def test_frames_that_are_not_the_users(path: str) -> None:
    assert not Frame(path, 1).is_users


@pytest.mark.parametrize(
    "path", ["train.py", "/home/me/jax/train.py", "/srv/lib/python_utils/x.py", "C:\\jaxlab\\x.py", "Cell In[3]"]
)
def test_frames_that_are_the_users(path: str) -> None:
    assert Frame(path, 1).is_users


def test_reading_keeps_the_chain() -> None:
    text = TWO_MODULES[: TWO_MODULES.index("-----")]
    (error,) = read_errors(
        text
        + "\nDuring handling of the above exception, another exception occurred:\n\n"
        + text.replace("main.py", "b.py")
    )
    assert len(error.chain) == 2
    assert error.frames[0].path == "/srv/train/b.py"


# ---------------------------------------------------------------------------------------------- sources


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    for name in ("lib/steps.py", "other/lib/steps.py", "other/steps.py", "main.py", ".venv/lib/steps.py"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("a = 1\nb = 2\n")
    return tmp_path


def relative(found: tuple[Path, ...], tree: Path) -> list[str]:
    return [path.relative_to(tree).as_posix() for path in found]


def test_source_of_a_relative_path(tree: Path) -> None:
    assert relative(find_source(Frame("lib/steps.py", 1), tree), tree) == ["lib/steps.py"]


def test_source_by_the_longest_suffix(tree: Path) -> None:
    assert relative(find_source(Frame("/srv/train/other/lib/steps.py", 1), tree), tree) == ["other/lib/steps.py"]
    assert relative(find_source(Frame("C:\\train\\main.py", 1), tree), tree) == ["main.py"]


def test_several_sources_that_fit_equally_well(tree: Path) -> None:
    assert relative(find_source(Frame("/srv/train/lib/steps.py", 1), tree), tree) == [
        "lib/steps.py",
        "other/lib/steps.py",
    ]


def test_the_source_line_decides(tree: Path) -> None:
    (tree / "other/lib/steps.py").write_text("a = 1\nc = 3\n")
    assert relative(find_source(Frame("/srv/train/lib/steps.py", 2, "", "c = 3"), tree), tree) == ["other/lib/steps.py"]


def test_no_source(tree: Path) -> None:
    assert find_source(Frame("/srv/gone.py", 1), tree) == ()
    assert find_source(Frame("Cell In[3]", 1), tree) == ()
    assert find_source(Frame("<string>", 1), tree) == ()
