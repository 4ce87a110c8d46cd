"""Names in any script: fonts of this machine for what the usual one has no glyphs for."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache

from matplotlib import font_manager
from matplotlib.figure import Figure
from matplotlib.ft2font import FT2Font
from matplotlib.text import Text

_NO_GLYPHS = "Last Resort"  # a font that has a box for everything


@contextmanager
def readable(figure: Figure) -> Iterator[None]:
    """Have a figure's texts drawn with further fonts where the usual one lacks a glyph.

    Where no font of this machine has one, that is said once, and a box is drawn.
    """
    for axes in figure.axes:  # the texts of ticks are made when they are asked for
        axes.get_xticklabels(), axes.get_yticklabels()
    texts = [text for text in figure.findobj(Text) if not text.get_text().isascii()]
    usual = _glyphs(font_manager.findfont(font_manager.FontProperties()))
    wanted = frozenset("".join(text.get_text() for text in texts)) - usual - {"\n"}
    if wanted:
        families, lacking = _fonts_for(wanted)
        for text in texts:
            text.set_fontfamily([*text.get_fontfamily(), *families])
        if lacking:
            _say(lacking)
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Glyph .* missing")
        yield


@cache
def _fonts_for(wanted: frozenset[str]) -> tuple[list[str], str]:
    """Return families that have some characters, few of them, and the characters that none has."""
    families, lacking = [], set(wanted)
    for path in sorted({*font_manager.findSystemFonts(), *_known()}):
        if not lacking:
            break
        try:
            found = lacking & _glyphs(path)
            name = FT2Font(path).family_name
        except (OSError, RuntimeError):  # no font that can be read
            continue
        if found and not name.startswith(_NO_GLYPHS):
            font_manager.fontManager.addfont(path)
            families.append(name)
            lacking -= found
    return families, "".join(sorted(lacking))


def _known() -> list[str]:
    return [str(entry.fname) for entry in font_manager.fontManager.ttflist]


@cache
def _glyphs(path: str) -> frozenset[str]:
    return frozenset(map(chr, FT2Font(path).get_charmap()))


@cache
def _say(lacking: str) -> None:
    print(
        f"paretolab: pictures have boxes for {lacking[:20]!r}: expected a font with these "
        "characters, found none on this machine; install one, such as Noto (the pages are right)",
        file=sys.stderr,
    )
