"""Escape names that strangers chose, so that a terminal, Markdown or a spreadsheet shows text."""

from __future__ import annotations

import re
import sys
import unicodedata
from typing import TextIO

_MARKDOWN = re.compile(r"([\\`*\[\]|~])")  # not _, which has no meaning within a word
_MARKS = {"&": "&amp;", "<": "&lt;", ">": "&gt;"}
_CONTROLS = {"Cc", "Cf", "Cs", "Co", "Zl", "Zp"}  # Unicode categories that are not shown as text
_FORMULA = tuple("=+-@\t\r\n\uff1d\uff0b\uff0d\uff20")  # full-width signs count in some countries


def terminal_text(text: str) -> str:
    """Return a text with the characters that a terminal would obey shown as codes.

    So are the marks that reverse the direction of writing, since they can make a text look like
    another one. Line breaks and tabs stay.
    """
    if text.isascii() and text.isprintable():
        return text
    return "".join(
        char if char in "\n\t" or unicodedata.category(char) not in _CONTROLS else _code(char)
        for char in text
    )


def line_text(text: str) -> str:
    """Return a text for a terminal in one line, so that it cannot stand for further lines."""
    return terminal_text(text).replace("\n", "\\n").replace("\t", "\\t")


def say(text: str, stream: TextIO | None = None) -> None:
    """Print a line that may contain names from strangers; by default on standard output."""
    print(terminal_text(text), file=sys.stdout if stream is None else stream, flush=True)


def _code(char: str) -> str:
    if char in "\u200c\u200d":  # joiners of Persian, Hindi and emoji
        return char
    return f"\\x{ord(char):02x}" if ord(char) < 256 else f"\\u{ord(char):04x}"


def markdown_text(text: str) -> str:
    """Return a text in one line that Markdown shows literally: no HTML, links, images or code."""
    plain = terminal_text(text).replace("\n", " ").replace("\t", " ")
    for mark, shown in _MARKS.items():
        plain = plain.replace(mark, shown)
    return _MARKDOWN.sub(r"\\\1", plain)


def csv_text_value(text: str) -> str:
    """Return a text that no spreadsheet takes for a formula, if need be with ' in front."""
    return f"'{text}" if text.startswith(_FORMULA) else text
