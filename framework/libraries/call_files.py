"""Tables of calls in files: wide and long tables.

A ``wide`` table has one row per record and columns ``MODEL:correct`` (or ``MODEL:answer``, and a
column ``truth``), ``MODEL:confidence`` (0 for all if there is none) and costs, which are all other
columns ``MODEL:NAME``, such as ``MODEL:cost`` and ``MODEL:latency_ms``. A ``long`` table has one
row per call and columns ``record``, ``model``, ``correct`` (or ``answer`` and ``truth``),
``confidence``, and all others as costs. In both, columns ``record`` and ``group`` name the records,
and the groups of records that belong together.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pandas as pd

from framework.arrays import category_text
from framework.data.table_files import FileOptions, read_frame
from framework.errors import InputError
from framework.libraries.calls import CallTable, refuse_gaps
from framework.registry import require_columns, require_labels

CallFormat = Literal["wide", "long"]

_RIGHT, _SURE, _ANSWER = "correct", "confidence", "answer"
_RECORD, _MODEL, _TRUTH, _GROUP = "record", "model", "truth", "group"
_DECIMAL = re.compile(r"-?\d{1,15}\.\d*")


def read_calls(
    path: Path,
    layout: CallFormat | None = None,
    prices: Mapping[str, float] | None = None,
) -> CallTable:
    """Return the table of calls in a file.

    Parameters
    ----------
    path : path
        CSV, also gzipped, or Parquet.
    layout : str, optional
        See the module; ``long`` where there are columns ``record`` and ``model``, else ``wide``.
    prices : mapping of str to float, optional
        What each call of a model costs, if the file has no cost named ``cost``.

    Raises
    ------
    InputError
        The file cannot be read, lacks a column or a call, or has a text in place of a number.
    """
    return read_with(path, None, layout, prices)[0]


def read_with(
    path: Path,
    subgroup: str | None,
    layout: CallFormat | None = None,
    prices: Mapping[str, float] | None = None,
) -> tuple[CallTable, pd.Series[Any] | None]:
    """Return the table of calls in a file, and the column of its records' subgroups, if named."""
    if subgroup in (_RECORD, _TRUTH):
        others = f"{_RECORD} and {_TRUTH}"
        raise InputError(f"problem.subgroup: expected a column beside {others}, found {subgroup!r}")
    texts = FileOptions(texts=lambda column: _is_text(column) or column == subgroup)
    frame = read_frame(path, texts)
    if subgroup is not None:
        require_columns([subgroup], frame.columns, f"{path}: problem.subgroup")
    if layout is None:
        layout = "long" if {_RECORD, _MODEL} <= set(frame.columns) else "wide"
    if layout == "long":
        frame = _widened(frame, path, subgroup)
    calls = calls_of(frame, prices=prices, name=path.name, where=str(path))
    if subgroup is not None:
        require_labels(frame[subgroup].isna(), repr(subgroup), str(path))
    return calls, None if subgroup is None else frame[subgroup]


def calls_of(
    frame: pd.DataFrame,
    *,
    prices: Mapping[str, float] | None = None,
    name: str = "calls",
    where: str = "calls",
) -> CallTable:
    """Return the table of calls of a wide table (see the module).

    Raises
    ------
    InputError
        A column or a call is missing, or a value is no number.
    """
    parts = _columns(frame)
    models = list(parts)
    if not models:
        raise InputError(
            f"{where}: expected columns MODEL:correct, MODEL:confidence, MODEL:cost for each "
            f"model, found {', '.join(map(str, frame.columns[:6]))}"
        )
    complete = all(_ANSWER in parts[m] for m in models)
    by_answer = complete and _TRUTH in frame.columns
    if not by_answer:
        _all_have(parts, _RIGHT, where)
    else:
        require_labels(frame[_TRUTH].isna(), repr(_TRUTH), where)
    if _GROUP in frame.columns:
        require_labels(frame[_GROUP].isna(), repr(_GROUP), where)
    has_confidence = any(_SURE in parts[m] for m in models)
    if has_confidence:
        _all_have(parts, _SURE, where)
    named = dict.fromkeys(field for m in models for field in parts[m])
    kinds = [field for field in named if field not in (_RIGHT, _SURE, _ANSWER)]
    kinds.sort(key=lambda kind: kind != "cost")  # models are ordered by the first cost
    costs: dict[str, Any] = {}
    for kind in kinds:
        _all_have(parts, kind, where)
        costs[kind] = _stacked(frame, parts, kind)
    if prices is not None and "cost" not in costs:
        lacks = [m for m in models if m not in prices]
        if lacks:
            raise InputError(
                f"{where}: prices: expected one of each model, found none of {lacks[0]!r}"
            )
        costs = {"cost": np.array([prices[m] for m in models]), **costs}
    right = None if by_answer else _stacked(frame, parts, _RIGHT, _truth_value)
    return CallTable.from_arrays(
        models,
        right,
        _stacked(frame, parts, _SURE) if has_confidence else np.zeros((len(models), len(frame))),
        costs,
        answers=np.stack([_texts(frame[c[_ANSWER]]) for c in parts.values()]) if complete else None,
        truth=_texts(frame[_TRUTH]) if by_answer else None,
        groups=frame[_GROUP].astype(str).to_numpy() if _GROUP in frame.columns else None,
        records=frame[_RECORD].tolist() if _RECORD in frame.columns else None,
        name=name,
    )


def _is_text(column: str) -> bool:
    """Return whether a column has answers, what these are compared with, or names of models."""
    return column.rpartition(":")[2] == _ANSWER or column in (_TRUTH, _MODEL)


def _columns(frame: pd.DataFrame) -> dict[str, dict[str, str]]:
    """Return the columns of each model by what they hold, ``{MODEL: {"cost": "MODEL:cost"}}``."""
    parts: dict[str, dict[str, str]] = {}
    for column in map(str, frame.columns):
        model, mark, field = column.rpartition(":")
        if mark and model:
            parts.setdefault(model, {})[field] = column
    return parts


def _all_have(parts: Mapping[str, Mapping[str, str]], field: str, where: str) -> None:
    columns = [column for columns in parts.values() for column in columns.values()]
    require_columns([f"{model}:{field}" for model in parts], columns, where)


def _stacked(
    frame: pd.DataFrame,
    parts: Mapping[str, Mapping[str, str]],
    field: str,
    turned: Callable[[pd.Series[Any]], pd.Series[Any]] | None = None,
) -> Any:
    columns = [frame[columns_of[field]] for columns_of in parts.values()]
    return np.stack([(turned(c) if turned else c).to_numpy() for c in columns])


def _truth_value(column: pd.Series[Any]) -> pd.Series[Any]:
    """Return a column with 1 and 0 in place of true and false, also where they are texts."""
    words = {"true": 1.0, "false": 0.0}
    if column.dtype == bool:
        return column.astype(float)
    if column.dtype.kind in "ifu":
        return column
    return column.map(lambda v: words.get(str(v).strip().lower(), v))


def _texts(column: pd.Series[Any]) -> Any:
    """Return the one spelling of answers, whatever the other answers in their columns are."""
    return np.array(
        [spelled_answer(v) for v in column.astype(object).where(column.notna(), "")], object
    )


def spelled_answer(value: Any) -> str:
    """Return the one spelling of an answer: 18 of 18.0, True of true."""
    text = category_text(value)
    if _DECIMAL.fullmatch(text):
        text = category_text(float(text))
    return text.capitalize() if text.lower() in ("true", "false") else text


def _widened(frame: pd.DataFrame, path: Path, subgroup: str | None) -> pd.DataFrame:
    """Return a long table as a wide one; a missing call and contradictions are refused."""
    require_columns([_RECORD, _MODEL], frame.columns, path)
    pairs = frame[[_RECORD, _MODEL]]
    if pairs.duplicated().any():
        record, model = pairs[pairs.duplicated()].iloc[0]
        raise InputError(
            f"{path}: expected one call of a model to a record, found two of {model!r} to {record}"
        )
    records = list(dict.fromkeys(frame[_RECORD].tolist()))
    wide: dict[str, Any] = {_RECORD: records}
    about = dict.fromkeys(filter(None, [_TRUTH, _GROUP, subgroup]))
    for column in about:
        if column in frame.columns:
            values = frame[[_RECORD, column]].dropna()
            if column == _TRUTH:
                values[_TRUTH] = _texts(values[_TRUTH])
            values = values.drop_duplicates()
            again = values[_RECORD].duplicated()
            if again.any():
                raise InputError(
                    f"{path}: expected one {column} of each record, found two of "
                    f"{values[_RECORD][again].iloc[0]}"
                )
            wide[column] = values.set_index(_RECORD)[column].reindex(records).to_numpy()
    others = [c for c in frame.columns if c not in {_RECORD, _MODEL, *about}]
    for model in dict.fromkeys(frame[_MODEL].tolist()):
        rows = frame[frame[_MODEL] == model]
        called = np.where(pd.Index(records).isin(rows[_RECORD]), 1.0, np.nan)
        # now, since with gaps a wide table may be far larger than the long one
        refuse_gaps(
            called[None], [model], f"{path}: expected a call of every model to every record"
        )
        placed = rows.set_index(_RECORD).reindex(records)
        for column in others:
            wide[f"{model}:{column}"] = placed[column].to_numpy()
    return pd.DataFrame(wide)
