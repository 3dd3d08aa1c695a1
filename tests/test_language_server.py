"""The language server as an editor has it: the installed command, spoken to over its standard input and output."""

from __future__ import annotations

import asyncio
import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import pytest
import pytest_lsp
from lsprotocol import types
from lsprotocol.types import Position, Range
from pytest_lsp import ClientServerConfig, LanguageClient, client_capabilities
from test_language_features import edited

Command = Callable[..., "conftest.Run"]  # type: ignore[name-defined]  # noqa: F821

BIN = Path(sys.executable).parent
PUBLISHED = types.TEXT_DOCUMENT_PUBLISH_DIAGNOSTICS
OLD = "import jax\nx = jax.tree_map(abs, 1)\n"
NEW = OLD.replace("tree_map", "tree.map")

NOISY = """
import os, sys
from shardfix.editor import server
analyse = server._Server._analyse
def noisy(*arguments):
    print("printed by a codemod")
    os.system("echo printed by a child")
    return analyse(*arguments)
server._Server._analyse = noisy
from shardfix.cli import main
sys.exit(main(["--lsp"]))
"""

pytestmark = pytest.mark.asyncio


async def begin(client: LanguageClient, folder: Path, editor: str = "visual_studio_code") -> types.InitializeResult:
    """Begin a session with an editor that has ``folder`` open."""
    client.watched = []  # type: ignore[attr-defined]

    @client.feature(types.CLIENT_REGISTER_CAPABILITY)
    def register(params: types.RegistrationParams) -> None:
        client.watched.extend(params.registrations)  # type: ignore[attr-defined]

    capabilities = client_capabilities(editor)
    folders = [types.WorkspaceFolder(folder.as_uri(), "here")]
    return await client.initialize_session(types.InitializeParams(capabilities, workspace_folders=folders))


@pytest_lsp.fixture(config=ClientServerConfig(server_command=[str(BIN / "shardfix"), "--lsp"]))
async def client(lsp_client: LanguageClient, tmp_path: Path) -> AsyncIterator[None]:
    await begin(lsp_client, tmp_path)
    yield
    await lsp_client.shutdown_session()


@pytest_lsp.fixture(config=ClientServerConfig(server_command=[sys.executable, "-c", NOISY]))
async def noisy_client(lsp_client: LanguageClient, tmp_path: Path) -> AsyncIterator[None]:
    await begin(lsp_client, tmp_path)
    yield
    await lsp_client.shutdown_session()


@pytest_lsp.fixture(config=ClientServerConfig(server_command=[str(BIN / "shardfix"), "--lsp", "--ignore", "renames"]))
async def choosy_client(lsp_client: LanguageClient, tmp_path: Path) -> AsyncIterator[None]:
    await begin(lsp_client, tmp_path, "neovim@v0.11.0")
    yield
    await lsp_client.shutdown_session()


async def published(client: LanguageClient, uri: str) -> list[types.Diagnostic]:
    """The findings that the next notification for ``uri`` brings."""
    while True:
        params = await asyncio.wait_for(client.wait_for_notification(PUBLISHED), 60)
        if params.uri == uri:
            return list(params.diagnostics)


async def opened(client: LanguageClient, path: Path, text: str) -> list[types.Diagnostic]:
    document = types.TextDocumentItem(path.as_uri(), "python", 1, text)
    client.text_document_did_open(types.DidOpenTextDocumentParams(document))
    return await published(client, path.as_uri())


def change(client: LanguageClient, path: Path, version: int, text: str) -> None:
    document = types.VersionedTextDocumentIdentifier(uri=path.as_uri(), version=version)
    changes = [types.TextDocumentContentChangeWholeDocument(text)]
    client.text_document_did_change(types.DidChangeTextDocumentParams(document, changes))


def save(client: LanguageClient, path: Path) -> None:
    client.text_document_did_save(types.DidSaveTextDocumentParams(types.TextDocumentIdentifier(path.as_uri())))


async def actions(client: LanguageClient, path: Path, place: Range, *only: str) -> list[types.CodeAction]:
    context = types.CodeActionContext(diagnostics=[], only=list(only) or None)
    params = types.CodeActionParams(types.TextDocumentIdentifier(path.as_uri()), place, context)
    return list(await client.text_document_code_action_async(params) or [])


async def test_a_session(client: LanguageClient, tmp_path: Path) -> None:
    path = tmp_path / "train.py"
    text = "import jax\n\nx = ('\U0001f600', jax.tree_map(abs, 1))\n"
    (found,) = await opened(client, path, text)
    assert (found.code, found.severity) == ("renames", types.DiagnosticSeverity.Warning)
    assert found.range == Range(Position(2, 11), Position(2, 23))

    repair, everything, ignore = await actions(client, path, found.range)
    assert edited(text, repair.edit.changes[path.as_uri()]) == text.replace("tree_map", "tree.map")
    assert [one.range for one in repair.diagnostics] == [found.range]
    assert everything.kind == "source.fixAll.shardfix"
    assert edited(text, ignore.edit.changes[path.as_uri()]).endswith("# shardfix: ignore[renames]\n")
    assert [one.kind for one in await actions(client, path, found.range, "source.fixAll")] == [everything.kind]

    place = types.HoverParams(types.TextDocumentIdentifier(path.as_uri()), Position(2, 12))
    shown = await client.text_document_hover_async(place)
    assert shown.contents.value.startswith("**renames**: jax.tree_map is gone")

    change(client, path, 2, text.replace("tree_map", "tree.map"))
    assert await published(client, path.as_uri()) == []
    change(client, path, 3, text + "jax.tree_map(abs, 2)\n")
    assert [one.range.start.line for one in await published(client, path.as_uri())] == [2, 3]
    client.text_document_did_close(types.DidCloseTextDocumentParams(types.TextDocumentIdentifier(path.as_uri())))
    assert await published(client, path.as_uri()) == []
    assert not path.exists()


async def test_what_is_typed_in_a_row_is_looked_at_once(client: LanguageClient, tmp_path: Path) -> None:
    path = tmp_path / "train.py"
    await opened(client, path, "import jax\n")
    seen: list[int | None] = []
    for version in range(2, 12):
        change(client, path, version, OLD[: len(OLD) * version // 11])
    params = await asyncio.wait_for(client.wait_for_notification(PUBLISHED), 60)
    seen.append(params.version)
    assert seen == [11]
    assert len(params.diagnostics) == 1


async def test_in_the_middle_of_typing_nothing_changes_and_there_is_no_action(
    client: LanguageClient, tmp_path: Path
) -> None:
    path = tmp_path / "train.py"
    await opened(client, path, OLD)
    change(client, path, 2, OLD + "def f(\n")
    everywhere = Range(Position(0, 0), Position(3, 0))
    assert await actions(client, path, everywhere) == []
    await asyncio.sleep(0.6)
    assert len(client.diagnostics[path.as_uri()]) == 1
    change(client, path, 3, OLD)
    assert len(await actions(client, path, everywhere)) == 3, "actions are of the text as it is, without waiting"


async def test_all_repairs_make_the_file_that_the_command_line_writes(
    client: LanguageClient, tmp_path: Path, shardfix_command: Command
) -> None:
    text = (Path(__file__).parent.parent / "examples" / "train.py").read_text()
    path = tmp_path / "train.py"
    path.write_text(text)
    await opened(client, path, text)
    (everything,) = await actions(client, path, Range(Position(0, 0), Position(0, 0)), "source.fixAll.shardfix")
    assert shardfix_command("--write", path).code == 0
    assert edited(text, everything.edit.changes[path.as_uri()]) == path.read_text() != text


async def test_what_other_files_say_counts_as_it_is_open_and_else_as_it_is_on_disk(
    client: LanguageClient, tmp_path: Path
) -> None:
    (tmp_path / "pyproject.toml").touch()
    sums, maps = tmp_path / "sums.py", tmp_path / "maps.py"
    right, wrong = "def f(x):\n    return x * 2\n", "def f(x):\n    return x.sum()\n"
    program = (
        "import jax\nfrom jax.sharding import PartitionSpec as P\nfrom sums import f\n\n"
        "g = jax.shard_map(f, mesh=jax.make_mesh((8,), ('i',)), in_specs=P('i'), out_specs=P('i'))\n"
    )
    sums.write_text(right)
    assert await opened(client, maps, program) == []
    await opened(client, sums, right)
    change(client, sums, 2, wrong)
    save(client, maps)
    assert [one.code for one in await published(client, maps.as_uri())] == ["rank0-outputs"]
    assert sums.read_text() == right


async def test_the_nearest_configuration_holds_and_is_read_again(client: LanguageClient, tmp_path: Path) -> None:
    path, configuration = tmp_path / "train.py", tmp_path / "pyproject.toml"
    configuration.write_text("[tool.shardfix]\nignore = ['renames']\n")
    assert await opened(client, path, OLD) == []
    assert client.watched[0].method == types.WORKSPACE_DID_CHANGE_WATCHED_FILES  # type: ignore[attr-defined]

    configuration.write_text("[tool.shardfix]\nignore = ['renamed']\n")
    event = types.FileEvent(configuration.as_uri(), types.FileChangeType.Changed)
    message = asyncio.ensure_future(client.wait_for_notification(types.WINDOW_SHOW_MESSAGE))
    client.workspace_did_change_watched_files(types.DidChangeWatchedFilesParams([event]))
    shown = await asyncio.wait_for(message, 60)
    assert "unknown codemod 'renamed'; did you mean 'renames'?" in shown.message

    configuration.write_text("[project]\ndependencies = ['jax>=0.4.20']\n")
    save(client, path)
    (found,) = await published(client, path.as_uri())
    assert "jax.tree_util.tree_map takes its place" in found.message, (
        "jax.tree is younger than what the project declares"
    )


async def test_what_the_configuration_excludes_and_what_others_wrote_is_left_alone(
    client: LanguageClient, tmp_path: Path
) -> None:
    (tmp_path / "pyproject.toml").write_text("[tool.shardfix]\nexclude = ['legacy/']\n")
    for folder in ("legacy", ".venv/lib", "site-packages/jax"):
        assert await opened(client, tmp_path / folder / "train.py", OLD) == [], folder
    assert await opened(client, tmp_path / "train.ipynb", OLD) == []
    assert len(await opened(client, tmp_path / "train.py", OLD)) == 1


async def test_the_command_line_chooses_codemods(choosy_client: LanguageClient, tmp_path: Path) -> None:
    text = OLD + "y = ('\U0001f600', jax.lax.pvary(x, 'i'))\n"
    (found,) = await opened(choosy_client, tmp_path / "train.py", text)
    assert found.code == "pvary"
    assert found.range.start == Position(2, 13), "in UTF-8, which this editor prefers"


async def test_what_is_printed_does_not_come_between_the_messages(noisy_client: LanguageClient, tmp_path: Path) -> None:
    for number in range(3):
        assert len(await opened(noisy_client, tmp_path / f"{number}.py", OLD)) == 1
    assert noisy_client.error is None


async def test_the_server_ends_with_its_editor() -> None:
    process = subprocess.Popen([BIN / "shardfix", "--lsp"], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    out, _ = process.communicate(timeout=60)  # which closes stdin
    assert (process.returncode, out) == (0, b"")
    process = subprocess.Popen([BIN / "shardfix", "--lsp"], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert process.stdin is not None
    assert process.stdout is not None
    try:
        hello = b'{"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {"capabilities": {}}}'
        process.stdin.write(b"Content-Length: %d\r\n\r\n%b" % (len(hello), hello))
        process.stdin.flush()
        assert process.stdout.readline().startswith(b"Content-Length")
        process.terminate()
        assert process.wait(timeout=60) == -signal.SIGTERM
    finally:
        process.kill()


async def test_wrong_uses(monkeypatch: pytest.MonkeyPatch, shardfix_command: Command) -> None:
    for arguments in (["train.py"], ["--write"], ["--check"]):
        done = shardfix_command("--lsp", *arguments)
        assert (done.code, done.out) == (2, b"")
        assert done.err == "shardfix: --lsp takes no PATHS, and goes with the choice of codemods only\n"
    monkeypatch.delitem(sys.modules, "shardfix.editor.server")
    monkeypatch.setitem(sys.modules, "pygls", None)
    monkeypatch.setitem(sys.modules, "pygls.capabilities", None)
    done = shardfix_command("--lsp")
    assert (done.code, done.err) == (2, "shardfix: --lsp needs the extra: pip install 'shardfix[lsp]'\n")
