"""The language server: what an editor opens, changes and saves is looked at, and the editor is told what is found."""

from __future__ import annotations

import asyncio
import itertools
import os
import signal
import sys
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from lsprotocol import types
from pygls.capabilities import get_capability
from pygls.lsp.server import LanguageServer
from pygls.uris import to_fs_path

from shardfix import __version__, files
from shardfix.api import fix_source
from shardfix.editor import features
from shardfix.editor.features import FIX_ALL, Analysis
from shardfix.fixer import Result
from shardfix.outcomes import ExitCode
from shardfix.runner import Worker
from shardfix.semantics.project import Project
from shardfix.settings import UsageProblem
from shardfix.target import declared_jax

if TYPE_CHECKING:
    from shardfix.configuration import Configurations

__all__ = ["serve"]

DEBOUNCE = 0.3
"""Seconds without a change after which a text is looked at."""
MOST_FILES = 20_000
"""Files of a folder that are searched for users of what an open file defines."""


def serve(configurations: Callable[[], Configurations]) -> ExitCode:
    """Serve the editor at stdin and stdout until it says goodbye.

    Args:
        configurations: reads the configuration anew, as it may have changed.
    """
    # Whatever prints (a codemod of others) must not come between the messages.
    messages = os.fdopen(os.dup(sys.stdout.fileno()), "wb")
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
    signal.signal(signal.SIGTERM, signal.SIG_DFL)  # an exception would wait for the thread that reads stdin
    _server(configurations).start_io(sys.stdin.buffer, messages)
    return ExitCode.CLEAN


class _Server(LanguageServer):
    """Open texts and what was found in them."""

    def __init__(self, configurations: Callable[[], Configurations]) -> None:
        # Whole texts: pygls also ends lines at form feeds and the like, where the protocol does not.
        super().__init__("shardfix", __version__, types.TextDocumentSyncKind.Full)
        self._configurations = configurations
        self._analyses: dict[str, Analysis] = {}
        self._alarms: dict[str, asyncio.TimerHandle] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._analysing = asyncio.Lock()
        self._files: dict[str, tuple[str, ...]] = {}
        self._worker = Worker()
        self._complaint = ""

    # What happens when

    def look_at(self, uri: str, delay: float = 0.0) -> None:
        """Publish what is found in a text, ``delay`` seconds after the last call for it."""
        if uri in self._alarms:
            self._alarms[uri].cancel()
        self._alarms[uri] = asyncio.get_running_loop().call_later(delay, self._begin, uri)

    def look_at_all(self, delay: float = 0.0) -> None:
        """As :meth:`look_at` for every open text, after files or settings have changed."""
        self._analyses.clear()
        self._files.clear()
        declared_jax.cache_clear()
        for uri in self.workspace.text_documents:
            self.look_at(uri, delay)

    def forget(self, uri: str) -> None:
        """The text was closed."""
        self._analyses.pop(uri, None)
        if alarm := self._alarms.pop(uri, None):
            alarm.cancel()
        self.text_document_publish_diagnostics(types.PublishDiagnosticsParams(uri, []))

    def _begin(self, uri: str) -> None:
        task = asyncio.ensure_future(self._publish(uri))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _publish(self, uri: str) -> None:
        analysis = await self.analysis(uri)
        document = self.workspace.text_documents.get(uri)
        if analysis is not None and document is not None and document.source == analysis.source:
            found = features.diagnostics(analysis)
            self.text_document_publish_diagnostics(types.PublishDiagnosticsParams(uri, found, document.version))

    # Analysis

    async def analysis(self, uri: str) -> Analysis | None:
        """What is found in the text as it stands; None where that cannot be told, as in the middle of typing."""
        async with self._analysing:
            documents = self.workspace.text_documents
            if uri not in documents:
                return None
            source = documents[uri].source
            known = self._analyses.get(uri)
            if known is not None and known.source == source:
                return known
            paths = {other: to_fs_path(other) for other in documents}
            sources = {path: documents[other].source for other, path in paths.items() if path is not None}
            path = paths[uri]
            if path is None:
                return None
            try:
                result = await asyncio.to_thread(self._analyse, source, path, sources)
            except UsageProblem as problem:
                self._complain(str(problem))
                return None
            if result is None:
                return None
            for failure in result.failures:
                self.window_log_message(types.LogMessageParams(types.MessageType.Error, f"{path}: {failure}"))
            encoding = self.workspace.position_encoding or types.PositionEncodingKind.Utf16
            analysis = self._analyses[uri] = Analysis(uri, source, result, encoding)
            return analysis

    def _analyse(self, source: str, path: str, sources: Mapping[str, str]) -> Result | None:
        """What is found in ``source``; None where it cannot be parsed."""
        nothing = Result((), source)
        configurations = self._configurations()
        if path.endswith(files.NOTEBOOK_SUFFIX):
            return nothing  # what an editor opens as text is JSON to it
        if self._is_of_others(path) or configurations.excludes(os.path.realpath(path)):
            return nothing
        settings = configurations.settings_for(path)
        if not self._worker.team(settings).prefilter.passes(source.encode(errors="replace")):
            return nothing
        project = Project(self._files_around(path, configurations), sources=sources)
        try:
            return fix_source(source, path, settings, project)
        except (SyntaxError, ValueError, RecursionError, MemoryError):
            return None

    def _files_around(self, path: str, configurations: Configurations) -> tuple[str, ...]:
        """The files of the folder that is open in the editor, where ``path`` lies in one."""
        root = self._folder_of(path)
        if root is None:
            return ()
        if root not in self._files:
            found = itertools.islice(files.discover([root], configurations.excludes), MOST_FILES)
            self._files[root] = tuple(one.path for one in found if one.problem is None)
        return self._files[root]

    def _folder_of(self, path: str) -> str | None:
        """The innermost folder of the editor that holds ``path``."""
        folders = [to_fs_path(uri) for uri in self.workspace.folders] or [self.workspace.root_path]
        holding = [folder for folder in folders if folder and path.startswith(folder.rstrip(os.sep) + os.sep)]
        return max(holding, key=len, default=None)

    def _is_of_others(self, path: str) -> bool:
        """Whether ``path`` lies where a run on the folder would not look, as what is installed does."""
        folder = self._folder_of(path)
        if folder is None:
            return "site-packages" in path.split(os.sep)
        return not files.SKIPPED_FOLDERS.isdisjoint(os.path.relpath(path, folder).split(os.sep))

    def _complain(self, sentence: str) -> None:
        """Show what is wrong with the configuration, once."""
        if sentence != self._complaint:
            self._complaint = sentence
            self.window_show_message(types.ShowMessageParams(types.MessageType.Error, f"shardfix: {sentence}"))


def _server(configurations: Callable[[], Configurations]) -> _Server:
    """The server with what it can do."""
    server = _Server(configurations)

    @server.feature(types.INITIALIZED)
    async def initialized(params: types.InitializedParams) -> None:
        """Ask to be told of files that change on disk."""
        capability = "workspace.did_change_watched_files.dynamic_registration"
        if get_capability(server.client_capabilities, capability, False):
            watchers = [types.FileSystemWatcher(pattern) for pattern in ("**/*.py", "**/pyproject.toml")]
            options = types.DidChangeWatchedFilesRegistrationOptions(watchers)
            registration = types.Registration("files", types.WORKSPACE_DID_CHANGE_WATCHED_FILES, options)
            await server.client_register_capability_async(types.RegistrationParams([registration]))

    @server.feature(types.WORKSPACE_DID_CHANGE_WATCHED_FILES)
    def files_changed(params: types.DidChangeWatchedFilesParams) -> None:
        server.look_at_all(DEBOUNCE)

    @server.feature(types.TEXT_DOCUMENT_DID_OPEN)
    def opened(params: types.DidOpenTextDocumentParams) -> None:
        server.look_at(params.text_document.uri)

    @server.feature(types.TEXT_DOCUMENT_DID_CHANGE)
    def changed(params: types.DidChangeTextDocumentParams) -> None:
        server.look_at(params.text_document.uri, DEBOUNCE)

    @server.feature(types.TEXT_DOCUMENT_DID_SAVE)
    def saved(params: types.DidSaveTextDocumentParams) -> None:
        server.look_at_all()

    @server.feature(types.TEXT_DOCUMENT_DID_CLOSE)
    def closed(params: types.DidCloseTextDocumentParams) -> None:
        server.forget(params.text_document.uri)

    @server.feature(
        types.TEXT_DOCUMENT_CODE_ACTION,
        types.CodeActionOptions(code_action_kinds=[types.CodeActionKind.QuickFix, FIX_ALL]),
    )
    async def code_action(params: types.CodeActionParams) -> list[types.CodeAction]:
        analysis = await server.analysis(params.text_document.uri)
        if analysis is None:
            return []
        return features.code_actions(analysis, params.range, params.context.only)

    @server.feature(types.TEXT_DOCUMENT_HOVER)
    async def hover(params: types.HoverParams) -> types.Hover | None:
        analysis = await server.analysis(params.text_document.uri)
        return None if analysis is None else features.hover(analysis, params.position)

    return server
