"""The section ``library`` of a configuration that imports a library."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar, Literal

from pydantic import Field, model_validator

from framework.data.labels import Label
from framework.settings import PlacedPath, Section


class ArraysConfig(Section):
    """Predictions, labels and costs in files: ``.npy``, ``.csv``, ``.csv.gz`` or ``.parquet``.

    validation, test : arrays (K, N) or (K, N, C); or tables with a row a record and a column a
        model (``ID``; ``ID:CLASS`` for several classes).
    y_validation, y_test : arrays (N,), or tables of one column.
    classes : in the order of the probabilities; none for regression.
    ids : of the models; else those of the costs, else of the tables' columns.
    costs : a table with a column ``id`` and one a cost.
    units : of costs, by name.
    configs : JSON, a mapping of id to config.
    normalise : divide the probabilities of each record by their sum.
    """

    validation: PlacedPath
    y_validation: PlacedPath
    test: PlacedPath | None = None
    y_test: PlacedPath | None = None
    classes: tuple[Label, ...] | None = None
    ids: tuple[str, ...] | None = None
    costs: PlacedPath | None = None
    units: dict[str, str] = Field(default_factory=dict)
    configs: PlacedPath | None = None
    normalise: bool = False


class ModelsConfig(Section):
    """Fitted scikit-learn models and tables of records that they were not fitted on.

    folder : holds ``ID.skops`` or ``ID/model.skops`` files.
    validation, test : tables with the features' columns and the target's.
    costs, units : as for arrays, beside those that are measured.
    """

    renamed: ClassVar[Mapping[str, str]] = {"trusted": "--trust"}

    folder: PlacedPath
    validation: PlacedPath
    test: PlacedPath | None = None
    target: str = "target"
    costs: PlacedPath | None = None
    units: dict[str, str] = Field(default_factory=dict)


class TabRepoConfig(Section):
    """One data set and fold of a context that lies on disk in TabRepo's layout.

    folder : of the context, with ``configs.parquet`` and ``model_predictions/``.
    missing : what to do with models without a measured time: leave them out, or take the mean.
    costs : a table with a column ``id`` and further costs.
    configs : JSON, a mapping of model to hyperparameters.
    """

    folder: PlacedPath
    dataset: str
    fold: int = Field(default=0, ge=0)
    missing: Literal["drop", "mean"] = "drop"
    costs: PlacedPath | None = None
    configs: PlacedPath | None = None
    normalise: bool = True


class ImportConfig(Section):
    """The name of a library, and exactly one source to import it from."""

    name: str
    arrays: ArraysConfig | None = None
    models: ModelsConfig | None = None
    tabrepo: TabRepoConfig | None = None

    @model_validator(mode="after")
    def _one_place(self) -> ImportConfig:
        given: list[Any] = [self.arrays, self.models, self.tabrepo]
        if sum(place is not None for place in given) != 1:
            raise ValueError("expected exactly one of arrays, models, tabrepo")
        return self
