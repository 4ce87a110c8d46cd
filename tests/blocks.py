"""The blocks between fences of a page, and whether what was printed is what is shown.

A block is Python, YAML, TOML, a drawing (``text``), or without a language: then it is commands, or
what the block before printed. Comments in the lines above it say what is special about it:

``<!-- not run: WHY -->``        it is not run here, and what it prints is not compared
``<!-- needs PARETOLAB_DATA -->``  the same where no folder of data is named
``<!-- machine -->``             the words are compared, and that numbers stand where numbers are
``<!-- goes on -->``             Python that needs what the Python before it has made
``<!-- first: COMMAND -->``      a command that makes what the block is about
``<!-- exit code: 2 -->``        of the commands, where it is not 0
``<!-- an empty folder -->``     from here on another folder, as the text says
"""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

ROOT = Path(__file__).parents[1]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]

_BLOCK = re.compile(r"((?:^<!-- [^\n]* -->\n)*)^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_NOTE = re.compile(r"<!-- ([^:]*?)(?:: (.*))? -->")
_COMMANDS = re.compile(
    r"(paretolab|python3?|pip|make|head|grep|curl|ray|mlflow|optuna-dashboard|[A-Z_]+=)\b"
)
_MACHINE = re.compile(r"[\d,.]+/s\b|\b[\d,.]+ (s|[kMG]B)\b")  # depends on the machine


class Block(NamedTuple):
    """A block of a page.

    Attributes
    ----------
    line : int
        Where it begins.
    kind : str
        Its language, or ``commands`` or ``output``.
    text : str
    notes : dict
        What the comments above it say, by their first words.
    """

    line: int
    kind: str
    text: str
    notes: dict[str, list[str]]


def blocks(page: Path) -> Iterator[Block]:
    """Yield the blocks of a page in their order."""
    content = page.read_text(encoding="utf-8")
    for found in _BLOCK.finditer(content):
        notes: dict[str, list[str]] = {}
        for name, value in _NOTE.findall(found[1]):
            notes.setdefault(name, []).append(value)
        plain = "commands" if _COMMANDS.match(found[3]) else "output"
        kind = {"": plain, "bash": "commands"}.get(found[2], found[2])
        yield Block(content.count("\n", 0, found.start()) + 1, kind, found[3], notes)


def missing(shown: str, printed: str, *, machine: bool = False) -> str:
    """Return the first words shown that are not printed in this order, if any.

    With ``machine`` any number stands for any other, and any line of a table may have the star.
    """
    found = iter(_words(printed))
    expected = [word for word in _words(shown) if not (machine and word == "*")]
    for at, word in enumerate(expected):
        if not any(_same(word, candidate, machine) for candidate in found):
            return " ".join(expected[max(0, at - 8) : at + 1])
    return ""


def _words(text: str) -> list[str]:
    """Return what is printed without frames, line ends and what depends on the machine."""
    return re.sub(r"[\u2500-\u257f]", " ", _MACHINE.sub("", text)).split()


def _same(shown: str, printed: str, machine: bool) -> bool:
    """Compare two words: numbers to a thousandth; an ellipsis stands for anything."""
    try:
        one, other = (float(word.replace(",", "")) for word in (shown, printed))
    except ValueError:
        cells, others = shown.split(","), printed.split(",")
        if 1 < len(cells) == len(others):  # a line of a CSV file
            return all(_same(*pair, machine) for pair in zip(cells, others, strict=True))
        return re.fullmatch(re.escape(shown).replace("…", ".*"), printed) is not None
    return machine or one == pytest.approx(other, rel=1e-3)
