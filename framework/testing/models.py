"""Laws of deployable models: loaded ones answer as before, and forged ones are refused."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pandas as pd

from framework.errors import DAMAGED, InputError
from framework.models.files import ModelFiles, read_digests
from framework.models.model import DeployableModel
from framework.testing.tools import expect

_FORGED: tuple[Any, ...] = (None, True, -1, 2.5, 10**30, "x", "../x", [], [None], {}, {"x": []})


def answers_survive_saving(model: DeployableModel, frame: pd.DataFrame, folder: Path) -> None:
    """A loaded model answers to the bit as the saved one: a row per record, with the same index."""
    before = model.predict_table(frame)
    expect(before.index.equals(frame.index), "expected answers indexed as the table, found others")
    again, _ = _round_trip(model, folder)
    after = again.predict_table(frame)
    expect(after.equals(before), f"expected the same answers after loading, found\n{after}")


def columns_are_found_by_name(model: DeployableModel, frame: pd.DataFrame, folder: Path) -> None:
    """Further columns, the order of columns and blanks around names change no answer."""
    if getattr(model, "feature_names_in_", None) is None:
        return
    wide = frame.assign(**{"a further column": "x"})
    other = wide[wide.columns[::-1]].rename(columns=" {} ".format)
    before, after = model.predict_table(frame), model.predict_table(other)
    expect(after.equals(before), f"expected the answers to {frame}, found\n{after}")
    if hasattr(model, "predict"):  # scikit-learn demands the features in the order of fit
        labels = model.predict(wide).tolist() == model.predict(frame).tolist()
        expect(labels, "expected predict to leave out further columns, found other labels")


def cards_are_texts(model: DeployableModel, frame: pd.DataFrame, folder: Path) -> None:
    """The card consists of texts, and its title is a single line."""
    card = model.card()
    expect(all(isinstance(text, str) and text for text in card), "expected texts in the card")
    expect("\n" not in card.title, f"expected a title of one line, found {card.title!r}")


def forged_descriptions_end_in_a_sentence(
    model: DeployableModel, frame: pd.DataFrame, folder: Path
) -> None:
    """A forged description ends in a model that answers, or in one of the expected errors."""
    _, description = _round_trip(model, folder)
    files = ModelFiles(folder, read_digests(folder))
    for place, forged in _forgeries(description):
        try:
            loaded = type(model).load_from(files, forged)
        except (InputError, *DAMAGED):
            continue
        try:
            loaded.predict_table(frame)
        except InputError:
            continue
        except Exception as error:
            raise AssertionError(
                f"expected what is forged at {place} to be refused when it is loaded, or InputError"
                f" when it is asked, found {type(error).__name__}: {error}"
            ) from error


MODEL_LAWS = (
    answers_survive_saving,
    columns_are_found_by_name,
    cards_are_texts,
    forged_descriptions_end_in_a_sentence,
)


def check_model(model: DeployableModel, frame: pd.DataFrame) -> None:
    """Check every law on a fitted model.

    Parameters
    ----------
    model : DeployableModel
    frame : DataFrame
        Some records that it can answer.

    Raises
    ------
    AssertionError
        A law is broken.
    """
    for law in MODEL_LAWS:
        with tempfile.TemporaryDirectory() as folder:
            law(model, frame, Path(folder))


def _round_trip(model: DeployableModel, folder: Path) -> tuple[DeployableModel, Mapping[str, Any]]:
    files = ModelFiles(folder)
    description = json.loads(json.dumps(dict(model.save_into(files)), allow_nan=False))
    files.write_digests()
    return type(model).load_from(ModelFiles(folder, read_digests(folder)), description), description


def _forgeries(plain: Mapping[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield descriptions with one value replaced or left out, also within nested mappings."""
    for key, value in plain.items():
        yield key, {k: v for k, v in plain.items() if k != key}
        for forged in _FORGED:
            yield key, {**plain, key: forged}
        if isinstance(value, Mapping):
            yield from ((f"{key}.{k}", {**plain, key: v}) for k, v in _forgeries(value))
        elif isinstance(value, list):
            for forged in _FORGED if value else ():
                yield f"{key}.0", {**plain, key: [forged, *value[1:]]}
            yield key, {**plain, key: value * 2}
