"""What it costs to acquire each feature."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from importlib.metadata import version
from pathlib import Path
from typing import Annotated, Any, Literal

import numpy as np
import pandas as pd
from pydantic import Discriminator, Field, Tag, model_validator

from framework.arrays import Array, FloatArray, IntArray, is_number
from framework.components import Components, ComponentStore, is_put_off
from framework.data.encoding import Encoder
from framework.data.table_files import read_rows
from framework.errors import InputError, first_few, listed, quoted
from framework.machine import cache_dir
from framework.registry import nearest
from framework.settings import PlacedPath, Section

_SOURCES = ("classes", "values", "path", "by_importance")
_TREES = 200
_LONGEST_SCALE = 10**6
_BINARY_SCALE = 2**20
_LEAST_UNITS = 500  # of a cost, so that rounding changes it by at most a thousandth
_LARGEST_SUM = 2**62
_LISTED = 8  # the most features of a price, and the most prices, that are listed


def _form(value: Any) -> str:
    return "[map]" if isinstance(value, Mapping) else "[list]"


_Class = Annotated[int, Field(ge=0, strict=True)]
_Cost = Annotated[float, Field(ge=0, strict=True)]
_Classes = Annotated[
    Annotated[dict[str, _Class], Tag("[map]")] | Annotated[list[_Class], Tag("[list]")],
    Discriminator(_form),
]
_Costs = Annotated[
    Annotated[dict[str, _Cost], Tag("[map]")] | Annotated[list[_Cost], Tag("[list]")],
    Discriminator(_form),
]


class PanelConfig(Section):
    """Features that come together, and what is paid once for all of them.

    cost : what is paid with the first of them, in addition to their own costs.
    features : names of the features that come together.
    """

    cost: float = Field(ge=0)
    features: tuple[str, ...] = Field(min_length=1)


class CostsConfig(Section):
    """The costs of the features; at most one of the first four keys is given.

    classes : cost class of each feature, a list in the features' order or a mapping.
    values : cost of each feature, likewise.
    path : a CSV file with columns ``feature`` and ``cost``, relative to the configuration's
        folder.
    by_importance : number of cost classes of equal frequency, by the mean decrease in impurity
        in a random forest on the training part; the most important features cost most.
    scale, factor : of class T the cost is ``factor * T`` (linear) or ``factor ** T`` (power);
        linear and 10 unless given; only with classes and by_importance.
    default : cost of each feature that the source leaves out, or of all without a source.
    panels : what is paid once for features that come together, such as a blood panel of five
        values, by a name of yours; it is paid with the first of them, in addition to their own
        costs, which are 0 where neither the source nor ``default`` gives them.
    """

    classes: _Classes | None = None
    values: _Costs | None = None
    path: PlacedPath | None = None
    by_importance: int | None = Field(default=None, ge=1)
    scale: Literal["linear", "power"] | None = None
    factor: float | None = Field(default=None, gt=0)
    default: float | None = Field(default=None, ge=0)
    panels: dict[str, PanelConfig] = Field(default_factory=dict)

    @model_validator(mode="before")
    @classmethod
    def _scaled(cls, raw: Any) -> Any:
        """Fill in scale and factor where costs have classes."""
        if not isinstance(raw, Mapping):
            return raw
        filled = {key: value for key, value in raw.items() if value is not None}
        if "classes" in filled or "by_importance" in filled:
            return {"scale": "linear", "factor": 10.0, **filled}
        return filled

    @model_validator(mode="after")
    def _one_source(self) -> CostsConfig:
        sources = [key for key in _SOURCES if getattr(self, key) is not None]
        alone = not sources and (self.default is not None or self.panels)
        if len(sources) != 1 and not alone:
            raise ValueError(
                f"expected exactly one of {', '.join(_SOURCES)}; found "
                f"{' and '.join(sources) or 'none'}"
            )
        scaled = self.classes is not None or self.by_importance is not None
        if not scaled and (self.scale is not None or self.factor is not None):
            raise ValueError(
                "expected scale and factor only with classes or by_importance, found "
                f"{sources[0] if sources else 'neither'}"
            )
        return self


def feature_costs(
    config: CostsConfig | None,
    names: Sequence[str],
    X_train: pd.DataFrame | None = None,
    y_train: IntArray | None = None,
    where: str = "problem.costs",
    left_out: Sequence[str] = (),
) -> FloatArray:
    """Return the cost of each feature.

    Parameters
    ----------
    config : CostsConfig or None
        None: each feature costs 1.
    names : sequence of n names
    X_train, y_train : DataFrame (m, n) and int64 (m,), optional
        The training part; needed by ``by_importance`` only.
    where : str
        Key of the section, for messages.
    left_out : sequence of str
        Columns of the table that are no features; their costs are ignored.

    Returns
    -------
    float64 (n,), finite, not negative; not all zero, unless a panel costs something

    Raises
    ------
    InputError
        A feature has no cost or two, a cost is of an unknown feature or cannot be used, or all are
        zero.
    """
    if config is None:
        return np.ones(len(names))
    shared = {name for panel in config.panels.values() for name in panel.features}
    optional = shared if config.default is None else names

    def in_order(costs: Mapping[str, float] | Sequence[float], place: str) -> FloatArray:
        return _in_order(costs, names, place, left_out, optional)

    if config.by_importance is not None:
        if X_train is None or y_train is None:
            raise InputError(f"{where}.by_importance: expected training records, found none")
        costs = _scale(importance_classes(X_train, y_train, config.by_importance), config)
    elif config.values is not None:
        costs = in_order(config.values, f"{where}.values")
    elif config.path is not None:
        costs = in_order(_read_costs(config.path), str(config.path))
    elif config.classes is not None:
        costs = _scale(in_order(config.classes, f"{where}.classes"), config)
    else:
        costs = np.full(len(names), np.nan)
    usual = config.default
    of_missing = [float(name not in shared) if usual is None else usual for name in names]
    costs = np.where(np.isnan(costs), of_missing, costs)
    if not np.isfinite(costs).all():
        name = names[int(np.argmin(np.isfinite(costs)))]
        raise InputError(f"{where}: expected finite costs, found one too large for {name!r}")
    if not costs.any() and not any(panel.cost for panel in config.panels.values()):
        raise InputError(f"{where}: expected a cost above zero, found all {len(names)} zero")
    return costs


def _in_order(
    costs: Mapping[str, float] | Sequence[float],
    names: Sequence[str],
    where: str,
    left_out: Sequence[str],
    optional: Collection[str],
) -> FloatArray:
    """Return one entry for each feature, NaN for an optional one that is missing."""
    if not isinstance(costs, Mapping):
        if len(costs) != len(names):
            verb = "is not one" if len(left_out) == 1 else "are not"
            without = f" ({', '.join(map(repr, left_out))} {verb})" if left_out else ""
            raise InputError(
                f"{where}: expected {len(names)} entries, one a feature{without}, found "
                f"{len(costs)}"
            )
        return np.array(costs, dtype=np.float64)
    check_features([name for name in costs if name not in left_out], names, where)
    missing = [name for name in names if name not in costs and name not in optional]
    if missing:
        raise InputError(
            f"{where}: expected an entry for each feature, found none for {listed(missing)}; "
            "give them, or a default for the rest; drop what is no feature"
        )
    return np.array([costs.get(name, np.nan) for name in names], dtype=np.float64)


def check_features(features: Sequence[str], names: Sequence[str], where: str) -> None:
    """Refuse names that are no features, all in one sentence."""
    unknown = [name for name in features if name not in names]
    if unknown:
        texts = ", ".join(map(repr, unknown))
        raise InputError(
            f"{where}: expected names of features, found {texts}{nearest(unknown, names)}"
        )


def _scale(classes: FloatArray | IntArray, config: CostsConfig) -> FloatArray:
    assert config.factor is not None  # filled in with classes and by_importance
    numbers = np.asarray(classes, dtype=np.float64)
    if config.scale == "linear":
        return config.factor * numbers
    with np.errstate(over="ignore"):
        return np.power(config.factor, numbers)


def _read_costs(path: Path) -> dict[str, float]:
    rows = read_rows(path)
    _, header = next(rows)
    if [name.lower() for name in header] != ["feature", "cost"]:
        raise InputError(f"{path}: expected the header feature,cost; found {','.join(header)}")
    costs: dict[str, float] = {}
    for line, (feature, text) in rows:
        if feature in costs:
            raise InputError(
                f"{path}: line {line}: expected each feature once, found {feature!r} again"
            )
        costs[feature] = float(text) if is_number(text) else math.nan
        if not 0 <= costs[feature] < math.inf:
            raise InputError(
                f"{path}: line {line}: expected a cost, a number from 0, found {text!r}"
            )
    return costs


def importance_classes(X: pd.DataFrame, y: IntArray, levels: int) -> IntArray:
    """Return the cost class (n,), 1 to ``levels``, of each feature, by its importance.

    The feature of rank r among n (1 = least important) has class ``ceil(levels * r / n)``; of
    equally important ones the earlier has the lower rank. Importance is the mean decrease in Gini
    impurity (Hamilton and Fulp, Section 4.1.3).
    """
    importances = _importances(X, y)
    ranks = np.empty(len(importances), dtype=np.int64)
    ranks[np.argsort(importances, kind="stable")] = np.arange(1, len(importances) + 1)
    return -(-levels * ranks // len(ranks))


def _importances(X: pd.DataFrame, y: IntArray) -> FloatArray:
    """Return the importance of each feature, shape (n,), stored on disk by the records' content.

    If they are not stored, and nothing expensive may be built now, all are 0.
    """
    encoder = Encoder.fit(X)
    design = encoder.transform(X)
    store, key = None, np.zeros((1, 1), dtype=np.uint64)
    folder = cache_dir()
    if folder is not None:
        widths = [len(span) for span in encoder.spans]
        content = hashlib.sha256(f"{_TREES} {version('scikit-learn')} {widths}".encode())
        for array in (design, y):
            content.update(np.ascontiguousarray(array).data)
        store = ComponentStore(
            folder, content.hexdigest(), 1, len(widths), "importances of features"
        )
        stored = store.get(key)
        if len(stored):
            return np.asarray(stored.bits[0, 0].view(np.float64))
    if is_put_off("the importance of features for their costs (a random forest, kept afterwards)"):
        return np.zeros(len(encoder.spans))
    from sklearn.ensemble import RandomForestClassifier

    # the number of jobs changes nothing but the time: each tree has a stream of its own
    forest = RandomForestClassifier(n_estimators=_TREES, random_state=0, n_jobs=-1)
    forest.fit(design, y)
    importances = np.array([forest.feature_importances_[span].sum() for span in encoder.spans])
    if store is not None:
        store.put(Components(key, importances.view(np.uint64)[np.newaxis, np.newaxis], [b""]))
    return importances


def exact_costs(costs: FloatArray, records: int = 1) -> tuple[IntArray, int]:
    """Return costs as integers over a common scale, so that sums are exact in any order.

    Parameters
    ----------
    costs : float64 (n,)
        Not negative.
    records : int
        Number of records whose costs will be summed; any such sum fits in int64.

    Returns
    -------
    units : int64 (n,)
    scale : int
        ``costs == units / scale``. This is exact if the costs have a common denominator of at most
        10**6. Otherwise the scale is 2**20, or the first higher power of two with which rounding
        changes no cost by more than a thousandth.

    Raises
    ------
    InputError
        A sum over so many records might reach 2**62.
    """
    exact = [Fraction(repr(float(cost))) for cost in costs]  # of the decimals that a user writes
    total = float(min(sum(exact), 10**308))  # for messages; a float ends soon after
    scale = math.lcm(*(cost.denominator for cost in exact))
    if scale > _LONGEST_SCALE:
        scale, smallest = _BINARY_SCALE, min(cost for cost in exact if cost)
        while smallest * scale < _LEAST_UNITS:
            scale *= 2
        if scale > _BINARY_SCALE and max(sum(exact), 1) * scale * records >= _LARGEST_SUM:
            least = _LEAST_UNITS * max(sum(exact), 1) * records / _LARGEST_SUM
            raise InputError(
                f"costs: expected 0 or at least {float(2 * least):.3g} each, for {records} records "
                f"and costs of {total:.3g} in all, found {float(smallest):.3g}; make "
                "it 0 or larger"
            )
    units = [round(cost * scale) for cost in exact]
    if sum(units) * records >= _LARGEST_SUM:
        raise InputError(
            f"costs: expected a sum below {_LARGEST_SUM / scale / records:.3g} for {records} "
            f"records, found {total:.3g}; give costs in a larger unit"
        )
    return np.array(units, dtype=np.int64), scale


@dataclass(frozen=True)
class Panels:
    """Panels of features; the cost of a panel is paid with the first feature of it.

    Attributes
    ----------
    of : int64 (n,)
        The panel of each feature, from 0; -1 where it has none.
    costs : float64 (m,)
    names : tuple of m str
    """

    of: IntArray
    costs: FloatArray
    names: tuple[str, ...] = ()

    def __len__(self) -> int:
        return len(self.costs)

    @classmethod
    def none(cls, n: int) -> Panels:
        """Return no panels, of ``n`` features."""
        return cls(np.full(n, -1, dtype=np.int64), np.zeros(0))

    def begun_at(self, steps: Sequence[Iterable[int]]) -> list[list[int]]:
        """Return the panels whose first feature is acquired in each step."""
        met: set[int] = set()
        begun = []
        for step in steps:
            new = sorted({int(self.of[i]) for i in step} - met - {-1})
            met.update(new)
            begun.append(new)
        return begun

    def to_json(self) -> dict[str, Any]:
        """Return the panels as JSON values."""
        return {"of": self.of.tolist(), "costs": self.costs.tolist(), "names": list(self.names)}

    @classmethod
    def from_json(cls, plain: Mapping[str, Any], n: int) -> Panels:
        """Return what ``to_json`` wrote, of ``n`` features; raises ValueError for others."""
        of, costs = np.asarray(plain["of"]), np.asarray(plain["costs"], dtype=np.float64)
        names = tuple(map(str, plain["names"]))
        if of.dtype != np.int64 or of.shape != (n,) or costs.shape != (len(names),):
            raise ValueError("panels of features")
        if of.min(initial=-1) < -1 or of.max(initial=-1) >= len(names):
            raise ValueError("numbers of panels")
        if not (np.isfinite(costs).all() and (costs >= 0).all()):
            raise ValueError("costs of panels")
        return cls(of, costs, names)


def cost_texts(names: Sequence[str], costs: FloatArray, panels: Panels) -> list[str]:
    """Return lines on what features cost: by price, by panel, and for a full record.

    Parameters
    ----------
    names : sequence of str
        Of the n features.
    costs : numpy.ndarray of float64, shape (n,)
    panels : Panels
    """

    def some(positions: Array) -> str:
        return first_few([quoted(names[i]) for i in positions])

    texts = [f"{price:g}: {some(np.flatnonzero(costs == price))}" for price in np.unique(costs)]
    if len(texts) > _LISTED:
        texts = [f"{costs.min():g} to {costs.max():g} for each of {len(costs)} features"]
    for number, (name, price) in enumerate(zip(panels.names, panels.costs, strict=True)):
        texts.append(f"{price:g} once for {some(np.flatnonzero(panels.of == number))} ({name})")
    texts.append(f"{costs.sum() + panels.costs.sum():g} for a full record")
    return texts


def panels_of(
    config: CostsConfig | None,
    names: Sequence[str],
    where: str = "problem.costs",
    left_out: Sequence[str] = (),
) -> Panels:
    """Return the panels that a configuration names.

    Parameters
    ----------
    config, names, where, left_out
        See :func:`feature_costs`.

    Raises
    ------
    InputError
        A panel names something that is not a feature, or a feature is in two panels.
    """
    panels = Panels.none(len(names))
    if config is None or not config.panels:
        return panels
    of = panels.of.copy()
    for number, (name, panel) in enumerate(config.panels.items()):
        place = f"{where}.panels.{name}"
        features = [feature for feature in panel.features if feature not in left_out]
        check_features(features, names, place)
        for feature in features:
            i = list(names).index(feature)
            if of[i] >= 0:
                raise InputError(
                    f"{place}: expected each feature in one panel, found {feature!r} again"
                )
            of[i] = number
    costs = np.array([panel.cost for panel in config.panels.values()], dtype=np.float64)
    return Panels(of, costs, tuple(config.panels))
