"""The style of figures: colours, fonts for names in any script, axes, and how they are saved.

Matplotlib is imported in functions, since other modules only need the colours.
"""

from __future__ import annotations

import re
import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from framework.files import write_whole
from framework.roles import Objective, Roles

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

# Okabe and Ito's palette: distinguishable with every kind of colour vision
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000", "#8C6D31")
BLUE, ORANGE, PURPLE, GREY = "#0072B2", "#D55E00", "#CC79A7", "#9AA0A6"
ARROWS = {"min": "↓", "max": "↑"}  # by sense: the direction of better values

_DPI = 150
_NO_GLYPHS = "Last Resort"  # a font in which every character is a box
_TICK = re.compile(  # texts of ticks that matplotlib itself writes as formulas
    r"\$\\mathdefault\{[-\u2212]?[0-9.]*(\\times)?(10\^\{[-\u2212]?[0-9.]+\})?\}\$"
)


def display_name(metric: str) -> str:
    """Return the name of a metric for readers."""
    return metric.replace("_", " ")


def axis_label(roles: Roles, objective: Objective) -> str:
    """Return an axis label: the objective's name, its unit, and which way is better."""
    unit = roles.metrics[objective.metric].unit
    name = f"{display_name(objective.metric)}{f' ({unit})' if unit else ''}"
    return f"{name}  {ARROWS[objective.sense]} better"


def titled(title: str, subtitle: str, width: float, height: float) -> Figure:
    """Return an empty figure with a title and a line under it; its size is in inches."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(width, height), layout="constrained")
    figure.suptitle(f"{title}\n", x=0.012, ha="left", fontsize=13, fontweight="bold")
    figure.text(0.012, 1 - 0.32 / height, subtitle, fontsize=8.5, color="#444444", va="top")
    return figure


def plain_axes(axes: Axes, x: str | None = None, y: str | None = None, size: float = 9) -> None:
    """Label the axes and remove needless lines; ``size`` is the font size of the ticks' labels."""
    if x is not None:
        axes.set_xlabel(x)
    if y is not None:
        axes.set_ylabel(y)
    axes.grid(color="#E5E7EB", linewidth=0.7)
    axes.set_axisbelow(True)
    axes.spines[["top", "right"]].set_visible(False)
    axes.tick_params(labelsize=size)


def save(figure: Figure, path: Path) -> None:
    """Write a figure as PNG; the file appears complete or not at all."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from PIL import Image

    figure.set_dpi(_DPI)
    canvas: Any = FigureCanvasAgg(figure)  # it has no type hints
    with readable(figure):
        canvas.draw()  # savefig would draw twice, the first time only for the layout
    content = BytesIO()
    Image.fromarray(np.asarray(canvas.buffer_rgba())).save(content, "PNG", dpi=(_DPI, _DPI))
    write_whole(path, content.getvalue())


@contextmanager
def readable(figure: Figure) -> Iterator[None]:
    """Prepare the texts of a figure, which is drawn within the block.

    Dollar signs in names do not start formulas. Further fonts are used for characters that the
    usual font does not have. If no font of this machine has a character, a box is drawn, and a
    warning is printed once.
    """
    from matplotlib import font_manager
    from matplotlib.text import Text

    for axes in figure.axes:  # makes the texts of ticks
        axes.get_xticklabels(), axes.get_yticklabels()
    texts_of_figure = figure.findobj(Text)
    for text in texts_of_figure:
        if "$" in text.get_text() and not _TICK.fullmatch(text.get_text()):
            text.set_parse_math(False)
    texts = [text for text in texts_of_figure if not text.get_text().isascii()]
    usual = _glyphs(font_manager.findfont(font_manager.FontProperties()))
    wanted = frozenset("".join(text.get_text() for text in texts)) - usual - {"\n"}
    if wanted:
        families, missing = _fonts_for(wanted)
        for text in texts:
            text.set_fontfamily([*text.get_fontfamily(), *families])
        if missing:
            _warn_missing(missing)
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Glyph .* missing")
        yield


@cache
def _fonts_for(wanted: frozenset[str]) -> tuple[list[str], str]:
    """Return a few font families that cover some characters, and the characters that none has."""
    from matplotlib import font_manager
    from matplotlib.ft2font import FT2Font

    listed = {str(entry.fname) for entry in font_manager.fontManager.ttflist}
    families, missing = [], set(wanted)
    for path in sorted({*font_manager.findSystemFonts(), *listed}):
        if not missing:
            break
        try:
            covered = missing & _glyphs(path)
            name = FT2Font(path).family_name
        except (OSError, RuntimeError):  # not a font that can be read
            continue
        if covered and not name.startswith(_NO_GLYPHS):
            font_manager.fontManager.addfont(path)
            families.append(name)
            missing -= covered
    return families, "".join(sorted(missing))


@cache
def _glyphs(path: str) -> frozenset[str]:
    from matplotlib.ft2font import FT2Font

    return frozenset(map(chr, FT2Font(path).get_charmap()))


@cache
def _warn_missing(missing: str) -> None:
    print(
        f"paretolab: pictures have boxes for {missing[:20]!r}: expected a font with these "
        "characters, found none on this machine; install one, such as Noto (the pages are right)",
        file=sys.stderr,
    )
