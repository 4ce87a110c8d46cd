"""The README of a saved model: its description, its costs, and how to use it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from framework.models.model import Card
from framework.models.routing import Walk

_TEXT = """\
# {card.title}

{card.text}

## Use

From the command line, on a table with the features' columns (order and further columns do not
matter), written out with {card.answers}:

```
paretolab predict DIR data.csv
```

In Python:

```python
import pandas as pd
import paretolab

model = paretolab.load_model("DIR")
print(model.predict_table(pd.read_csv("data.csv")))
```

`model` is {card.methods}. Loading unpickles nothing: `*.json` are JSON, `*.npy` plain arrays,
`*.skops` are read with known classes of scikit-learn and LightGBM alone, and `SHA256SUMS` holds the
digest of every file.
"""

_WALK = """
## Where records leave

Of {records} validation records, which the search has seen, {rejected} leave without an answer.
Where the mean confidence of a stage's answers is far from the share that is right, its confidences
do not mean what they say; p is of the binomial test that they do. Calibration: {calibration}.

| stage | records that reach it | answered | mean confidence | share right | calibration error | p |
| --- | --- | --- | --- | --- | --- | --- |
{rows}
{warnings}{confusions}"""

_CONFUSION = """
Answers to the {part} records, a row a true class:

| class | {names} | no answer |
| --- |{rule} --- |
{rows}
"""


def card_text(card: Card, about: Mapping[str, Any], walk: Walk | None = None) -> str:
    """Return the README of a model; ``about`` becomes a table, and so does ``walk``."""
    text = _TEXT.format(card=card)
    if walk is not None:
        text += _walk(walk)
    if about:
        rows = "\n".join(f"| {cell(key)} | {cell(value)} |" for key, value in _flat(about))
        text += f"\n## About\n\n| what | value |\n| --- | --- |\n{rows}\n"
    return text


def cell(value: object) -> str:
    """Return a value as it reads in a cell of a Markdown table."""
    if isinstance(value, float):
        return f"{value:.6g}"
    return str(value).replace("|", "\\|").replace("\n", " ")


def _walk(walk: Walk) -> str:
    rows = [
        f"| {number} | {stage.entering:,} | {stage.leaving:,} | {stage.confidence:.3f} | "
        f"{stage.accuracy:.3f} | {stage.calibration_error:.3f} | {stage.p_value:.2g} |"
        for number, stage in enumerate(walk.stages, start=1)
    ]
    warnings = [f"\nBeware, {sentence}.\n" for sentence in walk.warnings()]
    return _WALK.format(
        records=f"{walk.records:,}",
        rows="\n".join(rows),
        rejected=f"{walk.rejected:,}",
        calibration=walk.calibration,
        warnings="".join(warnings),
        confusions="".join(_confusion(walk, part) for part in walk.confusions),
    )


def _confusion(walk: Walk, part: str) -> str:
    rows = [
        f"| {cell(name)} | {' | '.join(f'{count:,}' for count in row)} |"
        for name, row in zip(walk.classes, walk.confusions[part], strict=True)
    ]
    names = " | ".join(map(cell, walk.classes))
    return _CONFUSION.format(
        part=part, names=names, rule=" --- |" * len(walk.classes), rows="\n".join(rows)
    )


def _flat(about: Mapping[str, Any]) -> Iterator[tuple[str, object]]:
    """Yield keys and values, those of mappings within joined by a space."""
    for key, value in about.items():
        if isinstance(value, Mapping):
            yield from ((f"{key} {inner}", found) for inner, found in _flat(value))
        else:
            yield key, value
