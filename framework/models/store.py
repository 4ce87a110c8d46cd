"""Save and load fitted models in a directory of open formats: JSON, ``.npy``, ``.skops``.

``model.json`` describes the model, ``SHA256SUMS`` holds the digest of every other file,
``README.md`` is for people (description, costs, how to use it), ``example.csv`` has some records to
try the model on; the other files depend on the kind of model. Loading runs no code from the
directory, and refuses files that were changed.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from importlib.metadata import version
from pathlib import Path
from typing import Any

import pandas as pd

from framework import registry
from framework.data.table_files import GAPS, FileOptions, csv_text, parse_csv
from framework.errors import InputError, damaged
from framework.files import whole_folder
from framework.models.files import ModelFiles, read_digests
from framework.models.model import Card, DeployableModel
from framework.models.walk import Walk
from framework.security import check_no_links, markdown_text, read_json

FORMAT = 2
MODEL_FILE = "model.json"
README_FILE = "README.md"
EXAMPLE_FILE = "example.csv"

_LIBRARIES = ("numpy", "pandas", "scikit-learn", "skops")
# types of columns by NumPy's kind, with the names of the standard Table Schema
_TYPES = {"b": "boolean", "i": "integer", "u": "integer", "f": "number"}
_TEXT_TYPE, _ANY_TYPE = "string", "any"
_TEXT = """\
# {card.title}

{card.text}

## Use

From the command line, on a table with the features' columns (order and further columns do not
matter); the answers have {card.answers}:

```
paretolab predict DIR data.csv
```

In Python:

```python
import pandas as pd
import paretolab

model = paretolab.load_model("DIR")
print(model.predict_table(pd.read_csv("data.csv"{dtype})))
```

`model` is {card.methods}. Loading unpickles nothing: `*.json` are JSON, `*.npy` plain arrays,
`*.skops` are read only with known classes of scikit-learn and LightGBM, and `SHA256SUMS` holds the
digest of every file.
"""

_WALK = """
## Where records leave

Of {records} {kind}, which the search has seen, {rejected} leave without an answer.{fitted}
If the mean confidence of a stage's answers is far from the share that is right, its confidences are
wrong; p is the p-value of the binomial test that they are right. Calibration: {calibration}.

{table}
{warnings}{confusions}"""
_COLUMNS = (
    *("stage", "records that reach it", "answered", "mean confidence", "share right"),
    *("calibration error", "p"),
)

_FITTED = """
Each was answered by classifiers fitted without it; the model was then fitted on all of them."""

_REFITTED = """
Its figures are {measured}: each was answered by models fitted without it. This
model was then fitted on all of them.
"""

_CONFUSION = """
Answers to the {part} records, one row per true class:

{table}
"""


def save_model(
    model: DeployableModel,
    directory: str | os.PathLike[str],
    about: Mapping[str, Any] | None = None,
    walk: Walk | None = None,
    example: pd.DataFrame | None = None,
) -> None:
    """Write a fitted model to a directory, whole or not at all.

    Parameters
    ----------
    model : DeployableModel
    directory : path-like
        Created, or replaced if it holds a model; a directory with other content is refused.
    about : mapping of JSON values, optional
        Where the model comes from and how good it is; shown in the README.
    walk : Walk, optional
        How records go through it; shown in the README.
    example : DataFrame, optional
        Some records to try it on, written as ``example.csv``.

    Raises
    ------
    InputError
        The directory holds something else or cannot be written; a part has no open format;
        ``about`` is not JSON; the model is of no registered kind.
    """
    if not isinstance(model, DeployableModel):
        raise InputError(
            f"model: expected a deployable model ({', '.join(registry.names('models'))}), found "
            f"{type(model).__name__}"
        )
    target = Path(directory).absolute()
    check_target(target)
    with ExitStack() as stack:
        try:
            folder = stack.enter_context(whole_folder(target))
        except OSError as error:
            raise InputError(
                f"{target}: expected a place to write a model, found: {error.strerror}"
            ) from error
        _write(model, folder, dict(about or {}), walk, example)


def load_model(directory: str | os.PathLike[str]) -> Any:
    """Return the model of any kind that ``save_model`` wrote; nothing is unpickled.

    Every file is checked against its digest.

    Raises
    ------
    InputError
        A file is missing, damaged or was changed; the format is not supported; the model holds
        types that are not trusted.
    """
    with _checked(Path(directory)) as (files, plain), damaged(MODEL_FILE, "what save_model wrote"):
        model = registry.load("models", plain["kind"]).load_from(files, plain["model"])
        model.keeps = _checked_keeps(plain.get("keeps", []))
    return model


def example_of(
    directory: str | os.PathLike[str],
) -> tuple[pd.DataFrame | None, dict[str, str]]:
    """Return a model's example records, and the type of each column of its answers to them.

    None, and no types, where the model has no example or refuses it. Types are named as in Table
    Schema: boolean, integer, number, string, any. The model is not loaded, which would import what
    it is made of, but each of its files is checked against its digest.

    Raises
    ------
    InputError
        A file is missing, damaged or was changed; the format is not supported.
    """
    with _checked(Path(directory)) as (files, plain), damaged(MODEL_FILE, "what save_model wrote"):
        types, texts = plain.get("answers") or {}, plain.get("texts") or {}
        if {*types.values()} - {*_TYPES.values(), _TEXT_TYPE, _ANY_TYPE}:
            raise ValueError("answers: a column of another type")
        options = FileOptions(categories={name: {*gaps} for name, gaps in texts.items()})
        if not types or EXAMPLE_FILE not in files:
            return None, {}
        place = Path(directory) / EXAMPLE_FILE
        example = parse_csv(csv_text(files.read(EXAMPLE_FILE), place), place, options)
    return example, dict(types)


@contextmanager
def _checked(folder: Path) -> Iterator[tuple[ModelFiles, dict[str, Any]]]:
    """Give a model's files and its description; at the end, check the files that were not read."""
    check_no_links(folder, "a model")
    plain = _description(folder)
    try:
        files = ModelFiles(folder, read_digests(folder))
        if files.read_json(MODEL_FILE) != plain:
            raise InputError(f"{MODEL_FILE}: changed while it was read")
        yield files, plain
        files.check_rest()
    except InputError as error:
        raise InputError(f"{folder}: {error}") from error


def _description(folder: Path) -> dict[str, Any]:
    """Return the content of ``model.json``, after checks of its format and kind."""
    path = folder / MODEL_FILE
    plain = read_json(path, "a model's description")
    stamp = plain.get("format") if isinstance(plain, dict) else None
    if stamp != FORMAT:
        raise InputError(
            f"{path}: expected a model of format {FORMAT}, found format {stamp!r}; export it again "
            "with this version of paretolab"
        )
    kinds = registry.names("models")
    if plain.get("kind") not in kinds:
        raise InputError(
            f"{path}: expected a kind of model that is installed ({', '.join(kinds)}), found "
            f"{plain.get('kind')!r}"
        )
    return dict(plain)


def _checked_keeps(names: Any) -> tuple[str, ...]:
    plain = isinstance(names, list) and all(isinstance(name, str) for name in names)
    if not plain or len(set(names)) < len(names):
        raise InputError("keeps: expected a list of different names of columns, found another")
    return tuple(names)


def check_target(target: Path) -> None:
    """Check that a directory is new, is empty, or holds a model, which may be replaced.

    Raises
    ------
    InputError
        There is something else.
    """
    if target.is_dir():
        if not any(target.iterdir()) or (target / MODEL_FILE).is_file():
            return
        content = "a directory with other files"
    elif target.exists() or target.is_symlink():
        content = "a file"
    else:
        return
    raise InputError(
        f"{target}: expected a new directory or one with a model, found {content}; move that "
        "away, or give another"
    )


def _write(
    model: DeployableModel,
    folder: Path,
    about: dict[str, Any],
    walk: Walk | None,
    example: pd.DataFrame | None,
) -> None:
    files, texts = ModelFiles(folder), model.file_options.categories
    example = None if example is None or example.empty else example
    plain = {
        "format": FORMAT,
        "kind": model.kind,
        "model": dict(model.save_into(files)),
        "versions": {name: version(name) for name in _LIBRARIES},
        "about": about,
        "keeps": list(model.keeps),
        "answers": None if example is None else _types(model, example),
        "texts": {name: sorted(GAPS.intersection(of)) for name, of in texts.items()},
        "walk": walk.to_json() if walk is not None else None,
    }
    files.write_json(MODEL_FILE, plain)
    files.write(README_FILE, card_text(model.card(), about, walk, [*texts]).encode())
    if example is not None:
        files.write(EXAMPLE_FILE, example.to_csv(index=False).encode())
    files.write_digests()


def _types(model: DeployableModel, example: pd.DataFrame) -> dict[str, str] | None:
    """Return the types of the columns of a model's answers; None if it refuses its example."""
    try:
        table = model.answers(example)
    except InputError:
        return None
    kinds = {name: table[name].dtype.kind for name in table.columns}
    return {n: _TYPES.get(kind) or _of_objects(table[n]) for n, kind in kinds.items()}


def _of_objects(column: pd.Series[Any]) -> str:
    """Return the type of a column of texts, or of labels and what stands for none."""
    return _TEXT_TYPE if all(isinstance(value, str) for value in column.dropna()) else _ANY_TYPE


def card_text(
    card: Card, about: Mapping[str, Any], walk: Walk | None = None, texts: Sequence[str] = ()
) -> str:
    """Return the README of a model; ``about`` becomes a table, and so does ``walk``.

    ``texts`` are columns that pandas must not read as numbers, whatever a file holds.
    """
    text = _TEXT.format(card=card, dtype=f", dtype=dict.fromkeys({texts}, str)" if texts else "")
    if walk is not None:
        text += _walk(walk)
    if about:
        data = about.get("data")
        measured = str(data.get("measured", "")) if isinstance(data, Mapping) else ""
        if walk is not None:
            about = {walk.part_name(key): value for key, value in about.items()}
        elif measured.startswith("out-of-fold"):
            about = {"out-of-fold" if k == "validation" else k: v for k, v in about.items()}
            text += _REFITTED.format(measured=measured)
        rows = ((cell(key), cell(value)) for key, value in _flat(about))
        text += f"\n## About\n\n{markdown_table(('what', 'value'), rows)}\n"
    return text


def cell(value: object) -> str:
    """Return a value as text for a cell of a Markdown table."""
    if isinstance(value, float):
        return f"{value:.6g}"
    return markdown_text(str(value))


def markdown_table(headings: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Return a table in Markdown, whose texts are those of :func:`cell` if strangers chose them."""
    lines = [headings, ["---"] * len(headings), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def _walk(walk: Walk) -> str:
    rows = []
    for number, stage in enumerate(walk.stages, start=1):
        shares = (stage.confidence, stage.accuracy, stage.calibration_error)
        counts = f"{number}", f"{stage.entering:,}", f"{stage.leaving:,}"
        rows.append([*counts, *(f"{share:.3f}" for share in shares), f"{stage.p_value:.2g}"])
    warnings = [f"\nBeware, {cell(sentence)}.\n" for sentence in walk.warnings()]
    return _WALK.format(
        records=f"{walk.records:,}",
        kind=walk.kind,
        fitted=_FITTED if walk.out_of_fold else "",
        table=markdown_table(_COLUMNS, rows),
        rejected=f"{walk.rejected:,}",
        calibration=walk.calibration,
        warnings="".join(warnings),
        confusions="".join(_confusion(walk, part) for part in walk.confusions),
    )


def _confusion(walk: Walk, part: str) -> str:
    names = [cell(name) for name in walk.classes]
    rows = [
        [name, *(f"{count:,}" for count in row)]
        for name, row in zip(names, walk.confusions[part], strict=True)
    ]
    table = markdown_table(["class", *names, "no answer"], rows)
    return _CONFUSION.format(part=walk.part_name(part), table=table)


def _flat(about: Mapping[str, Any]) -> Iterator[tuple[str, object]]:
    """Yield keys and values; keys of nested mappings are joined by a space."""
    for key, value in about.items():
        if isinstance(value, Mapping):
            yield from ((f"{key} {inner}", leaf) for inner, leaf in _flat(value))
        else:
            yield key, value
