"""Consoles on which no text from elsewhere is a command to the terminal."""

from __future__ import annotations

import os
from collections.abc import Iterable
from typing import Any

from rich.console import Console, ConsoleOptions, RenderableType
from rich.segment import Segment

from framework.security import terminal_text

_WIDTH = 160  # of what goes to a file or a pipe, where COLUMNS does not say another
_ASCII = str.maketrans({"↑": "^", "↓": "v", "·": "|", "±": "+-", "…": "..."})


class PlainConsole(Console):
    """A console that shows control characters as their codes, and a text as it is.

    What is in brackets or between colons is no markup: names of columns may have such. A notebook
    has what a file would have.
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
        """Let the command end as it does wherever the reader of its output has left."""
        raise

    def words(self, text: str) -> str:
        """Return a text with signs that the encoding of the terminal has."""
        return text if self.encoding.startswith("utf") else text.translate(_ASCII)

    def say(self, text: str) -> None:
        """Print a text that the terminal may fold, and nothing else does."""
        self.print(self.words(text), soft_wrap=True)


def console(*, stderr: bool = False) -> PlainConsole:
    """Return a console, as wide as the terminal; 160 columns where the output is none."""
    made = PlainConsole(stderr=stderr)
    if made.is_terminal or "COLUMNS" in os.environ:
        return made
    return PlainConsole(stderr=stderr, width=_WIDTH)
