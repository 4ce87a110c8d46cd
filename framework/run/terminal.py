"""Consoles that never pass control characters of a text on to the terminal."""

from __future__ import annotations

import os
from collections.abc import Iterable
from typing import Any

from rich.console import Console, ConsoleOptions, RenderableType
from rich.segment import Segment

from framework.security import terminal_text

_WIDTH = 160  # of output to a file or a pipe, unless COLUMNS is set
_ASCII = str.maketrans({"↑": "^", "↓": "v", "·": "|", "±": "+-", "…": "..."})


class PlainConsole(Console):
    """A console that shows control characters as codes and does not interpret text.

    Text in brackets or between colons is not markup, since names of columns may contain it. In a
    notebook the output is the same as in a file.
    """

    def __init__(self, **options: Any) -> None:
        plain: dict[str, Any] = dict.fromkeys(
            ("markup", "emoji", "highlight", "force_jupyter"), False
        )
        super().__init__(**plain, **options)

    def render(
        self, renderable: RenderableType, options: ConsoleOptions | None = None
    ) -> Iterable[Segment]:
        """See :class:`rich.console.Console`."""
        for part in super().render(renderable, options):
            yield part if part.control else part._replace(text=terminal_text(part.text))

    def on_broken_pipe(self) -> None:
        """Raise the error again, so that the command ends as for any output without a reader."""
        raise

    def words(self, text: str) -> str:
        """Return a text without signs that the terminal's encoding may lack."""
        return text if self.encoding.startswith("utf") else text.translate(_ASCII)

    def say(self, text: str) -> None:
        """Print a text without folding its lines; the terminal may do that."""
        self.print(self.words(text), soft_wrap=True)


def console(*, stderr: bool = False) -> PlainConsole:
    """Return a console as wide as the terminal, or of 160 columns if the output is no terminal."""
    made = PlainConsole(stderr=stderr)
    if made.width and (made.is_terminal or "COLUMNS" in os.environ):
        return made
    return PlainConsole(stderr=stderr, width=_WIDTH)
