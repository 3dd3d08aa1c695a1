"""Comments `# shardfix: ignore` that keep no finding back.

What shardfix says
    a.py:7:31: unused-suppressions: no finding of renames is kept back here [safe]

Why
    A comment that ignores nothing hides the next finding at its place, which nobody has looked at. A comment is judged only
    for codemods that run: with `--select pvary` nothing is said of `# shardfix: ignore[renames]`.

Before
    import jax

    print(jax.device_count())  # shardfix: ignore[renames]

After
    import jax

    print(jax.device_count())

When it does not fix
    A comment `# shardfix: skip-file` is never judged. To keep all comments: `--ignore unused-suppressions`.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, ClassVar

from shardfix.codemod import Codemod, Finding, Fix, all_codemods
from shardfix.edits import ReplaceComment
from shardfix.settings import did_you_mean

if TYPE_CHECKING:
    from shardfix.semantics.module import Module


class UnusedSuppressions(Codemod):
    """Removes the comments."""

    triggers: ClassVar[tuple[bytes, ...]] = (rb"#\s*shardfix:",)
    judges_suppressions = True

    def findings(self, module: Module) -> Iterator[Finding]:
        for unused in module.unused_suppressions:
            sentences = [self._sentence(name) for name in unused.unused]
            title = "take out what is unused" if unused.rest else "remove the comment"
            place = unused.suppression.range
            yield self.finding(place, "; ".join(sentences), fix=Fix((ReplaceComment(place, unused.rest),), title=title))

    def _sentence(self, name: str) -> str:
        if not name:
            return "no finding is kept back here"
        available = all_codemods()
        if name in available:
            return f"no finding of {name} is kept back here"
        return f"unknown codemod '{name}'{did_you_mean(name, available)}"
