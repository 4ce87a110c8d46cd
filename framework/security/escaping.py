"""Write what a stranger named so that it stays text: on a terminal, in Markdown, in a CSV file."""

from __future__ import annotations

import re
import sys
import unicodedata
from typing import TextIO

_MARKDOWN = re.compile(r"([\\`*\[\]|~])")  # a _ within a word means nothing
_MARKS = {"&": "&amp;", "<": "&lt;", ">": "&gt;"}
_OBEYED = {"Cc", "Cf", "Cs", "Co", "Zl", "Zp"}
_FORMULA = tuple("=+-@\t\r\n\uff1d\uff0b\uff0d\uff20")  # the wide signs, too, in some countries


def terminal_text(text: str) -> str:
    """Return a text without what a terminal obeys: escapes and controls are shown as their codes.

    Line breaks and tabs stay. Marks that reverse the direction of writing are shown too, since
    they make a text read as another.
    """
    if text.isascii() and text.isprintable():
        return text
    return "".join(
        char if char in "\n\t" or unicodedata.category(char) not in _OBEYED else _code(char)
        for char in text
    )


def say(text: str, stream: TextIO | None = None) -> None:
    """Print a line, on standard output if no stream is given, that has what strangers named."""
    print(terminal_text(text), file=sys.stdout if stream is None else stream, flush=True)


def _code(char: str) -> str:
    if char in "\u200c\u200d":  # joiners of Persian, Hindi and emoji
        return char
    return f"\\x{ord(char):02x}" if ord(char) < 256 else f"\\u{ord(char):04x}"


def markdown_text(text: str) -> str:
    """Return a text that Markdown shows as it is, in one line: no HTML, links, pictures or code."""
    plain = terminal_text(text).replace("\n", " ").replace("\t", " ")
    for mark, shown in _MARKS.items():
        plain = plain.replace(mark, shown)
    return _MARKDOWN.sub(r"\\\1", plain)


def csv_text_value(text: str) -> str:
    """Return a text that no spreadsheet takes for a formula: with ' in front where it would."""
    return f"'{text}" if text.startswith(_FORMULA) else text
