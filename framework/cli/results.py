"""The results of commands, and how they are shown: on a terminal, as JSON or in a notebook.

A command returns a :class:`Result` with parts for people and fields for programs. With ``--json``,
which a command with a result declares (:func:`json_argument`), the fields are written to standard
output as one object; progress, warnings and messages go to standard error. ``docs/json.md`` lists
the fields.
"""

from __future__ import annotations

import argparse
import json
import math
import re
import sys
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, redirect_stdout
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from framework.errors import ParetolabError
from framework.extras import missing

if TYPE_CHECKING:
    from framework.experiment.run_dir import RunDir
    from framework.front import Front, Promise
    from framework.run.terminal import PlainConsole

_NUMBER = re.compile(r"[-+]?\d[\d,.]*(e[-+]?\d+)?%?( .*)?")
_TEXT_WIDTH = 24  # characters to which a column of text may shrink before a table is cut in two
_FRAME = 3  # characters between two columns


@dataclass(frozen=True)
class Table:
    """A table for people.

    Attributes
    ----------
    title : str
    columns : mapping of str to sequence of str
        The cells of each column by its heading, which may have several lines. A column of which
        all cells begin with a number is aligned to the right.
    dim : collection of str
        Headings of columns that are dimmed.
    """

    title: str
    columns: Mapping[str, Sequence[str]]
    dim: Collection[str] = ()


Part = str | Table | Sequence[tuple[str, str]]
"""A sentence, a table, or lines of a label and a text."""


@dataclass
class Result:
    """The result of a command.

    Attributes
    ----------
    parts : list of str, Table or sequence of (label, text)
        The parts for people, in their order.
    fields : dict
        The fields for programs: numbers, texts, paths, arrays, data frames and named tuples. A
        value may also be a function without arguments, which is only called for ``--json``.
    exit_code : int
    """

    parts: list[Part] = field(default_factory=list)
    fields: dict[str, Any] = field(default_factory=dict)
    exit_code: int = 0

    def add(self, *parts: Part | None, **fields: Any) -> Result:
        """Add the parts that are not empty, and fields; return the result itself."""
        self.parts += [part for part in parts if part]
        self.fields |= fields
        return self

    def show(self, out: PlainConsole | None = None) -> None:
        """Print the parts, by default on standard output."""
        if not self.parts:
            return
        from framework.run.terminal import console

        out = console() if out is None else out
        for part in self.parts:
            if isinstance(part, str):
                out.say(part)
            elif isinstance(part, Table):
                for piece in _pieces(part, out.width):
                    _print_table(piece, out)
            else:
                width = max(len(label) for label, _ in part)
                for label, text in part:
                    out.print(f"{label:<{width}}  ", end="", style="bold")
                    out.say(text)

    def _repr_html_(self) -> str:
        from io import StringIO

        from framework.run.terminal import PlainConsole

        out = PlainConsole(file=StringIO(), record=True, width=120)
        self.show(out)
        return out.export_html(inline_styles=True, code_format="<pre>{code}</pre>")


def _pieces(table: Table, width: int) -> Iterator[Table]:
    """Yield pieces of a table of at most ``width`` characters, each with the first column."""
    first, *others = table.columns
    left, names = width - _width(first, table), [first]
    for name in others:
        left -= _FRAME + _width(name, table)
        if left < _FRAME and len(names) > 1:
            yield _piece(table, names)
            left, names = width - sum(_FRAME + _width(n, table) for n in (first, name)), [first]
            table = replace(table, title="")
        names.append(name)
    yield _piece(table, names)


def _piece(table: Table, names: Iterable[str]) -> Table:
    return replace(table, columns={name: table.columns[name] for name in names})


def _width(name: str, table: Table) -> int:
    lines = [line for text in (name, *table.columns[name]) for line in text.split("\n")]
    widest = max(map(len, lines))
    return widest if _are_numbers(table.columns[name]) else min(widest, _TEXT_WIDTH)


def _are_numbers(cells: Iterable[str]) -> bool:
    return all(_NUMBER.fullmatch(cell) for cell in cells if cell not in ("", "-"))


def _print_table(table: Table, out: PlainConsole) -> None:
    from rich.table import Table as RichTable

    made = RichTable(title=out.words(table.title) or None, title_justify="left", pad_edge=False)
    for name, cells in table.columns.items():
        numbers = _are_numbers(cells)
        made.add_column(
            out.words(name),
            justify="right" if numbers else "left",
            no_wrap=numbers,
            style="dim" if name in table.dim else None,
        )
    for row in zip(*table.columns.values(), strict=True):
        made.add_row(*map(out.words, row))
    out.print(made)


def json_argument(parser: argparse.ArgumentParser) -> None:
    """Add --json."""
    parser.add_argument(
        "--json",
        action="store_true",
        help="print the result as one JSON object, and nothing else, to standard output",
    )


@contextmanager
def answering(command: str, *, as_json: bool) -> Iterator[Callable[[Result], int]]:
    """Yield a function that shows the result of a command and returns its exit code.

    With ``as_json``, other output within the block goes to standard error, and an error is written
    as an object, too.
    """
    stdout, fields = sys.stdout, {"command": command}

    def write(more: Mapping[str, Any]) -> None:  # in ASCII, so that a terminal obeys none of it
        print(json.dumps(fields | plain(more), allow_nan=False, indent=1), file=stdout, flush=True)

    def show(result: Result) -> int:
        if as_json:
            write({"exit_code": result.exit_code, **result.fields})
        else:
            result.show()
            stdout.flush()
        return result.exit_code

    if not as_json:
        yield show
        return
    try:
        with redirect_stdout(sys.stderr):
            yield show
    except (ParetolabError, ModuleNotFoundError, OSError, KeyboardInterrupt) as error:
        reason = missing(error) or error if isinstance(error, ModuleNotFoundError) else error
        code = 130 if isinstance(error, KeyboardInterrupt) else getattr(reason, "exit_code", 2)
        write({"exit_code": code, "error": str(reason)})
        raise


def plain(value: Any) -> Any:
    """Return a value of plain types for JSON; NaN and infinities become None."""
    if isinstance(value, str | bool | int | None):
        return value
    if isinstance(value, float):
        return float(value) if math.isfinite(value) else None
    if isinstance(value, Mapping):
        return {str(key): plain(inner) for key, inner in value.items()}
    if hasattr(value, "to_dict"):  # a data frame
        return plain(value.to_dict("records"))
    if hasattr(value, "_asdict"):
        return plain(value._asdict())
    if hasattr(value, "tolist"):  # an array, or a number of numpy
        return plain(value.tolist())
    if callable(value):
        return plain(value())
    if isinstance(value, Iterable):
        return [plain(inner) for inner in value]
    return str(value)


def records(front: Front) -> list[dict[str, Any]]:
    """Return the rows of ``front.csv``, one mapping per solution."""
    columns = {name: column.tolist() for name, column in front.columns().items()}
    return [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]


def solution(
    front: Front, position: int, promises: Mapping[str, Promise] | None = None
) -> dict[str, Any]:
    """Return the fields of a solution: its id and, by metric, claimed, expected and test values."""
    promises = front.promises(position) if promises is None else promises
    test = front.test or {}
    metrics = {
        name: figures(column[position], promises.get(name), test[name][position] if test else None)
        for name, column in front.rows.values.items()
    }
    return {"solution": front.ids[position], "metrics": metrics}


def figures(claimed: float, promise: Promise | None, test: float | None) -> dict[str, Any]:
    """Return the fields of a metric of a solution; those that are unknown are None."""
    return {
        "claimed": claimed,
        "expected": promise and promise.expected,
        "low": promise and promise.low,
        "high": promise and promise.high,
        "test": test,
    }


def model_of(run_dir: RunDir) -> Path | None:
    """Return the directory of a run's model, if it has one."""
    return run_dir.model if (run_dir.model / "model.json").is_file() else None
