"""The settings of multi-stage problems, as configurations have them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Literal

import numpy as np
from pydantic import Field, model_validator

from algorithms.multistage.decision import StageDecisionConfig, confidences_of
from framework.arrays import FloatArray
from framework.data.costs import CostsConfig
from framework.data.datasets import DatasetConfig
from framework.data.splits import MeasureConfig, SplitConfig
from framework.measures import Rates
from framework.models.classifiers import CalibrationMethod, ClassifierConfig
from framework.settings import Section

MissingPolicy = Literal["impute", "ask", "inconclusive"]
Label = str | int | float | bool
Grid = Annotated[tuple[float, ...], Field(min_length=1, max_length=127)]


class DataConfig(Section):
    """Where the records are.

    dataset : where the records come from, and how they are read.
    """

    dataset: DatasetConfig


class RecordsConfig(Section):
    """How records are split, and what their features cost.

    split : shares of the records to train on, to search on and to test on, and what divides them.
    costs : what each feature costs; 1 each if None.
    """

    split: SplitConfig = SplitConfig.model_validate({})
    costs: CostsConfig | None = None


class MultiStageSettings(RecordsConfig):
    """What a multi-stage problem needs to know besides the records.

    threshold : confidence that an answer needs: one value, one by label, or several, of which the
        search chooses one for each candidate (nine from 0.5 to 0.99 if None, lower ones too with
        more than two classes); labels left out need 0.5.
    threshold_per_stage : whether each stage of a candidate has a threshold of its own.
    stage_cost : what each record that reaches a stage pays for its classifier, besides features; a
        number, since times differ from run to run.
    measure : whether candidates are measured out-of-fold on training and validation records
        together, or on the validation records.
    max_stages : the paper's k; min(ceil(n / 2), 10) unless given, never above n.
    remove_features : whether candidates may leave features out, genes of -1 (the paper's future
        work).
    error_costs : what a wrong answer costs, by the label of the true class; labels left out cost 1.
    decision : costs by which stages decide, in place of the threshold: each picks the class of
        least expected cost, and stops where that is low enough.
    subgroup : column that tells subgroups apart; metrics compare them. It stays a feature if it is
        one.
    weights : column of weights of records, in any unit, in training and in every metric; it is no
        feature.
        Records of weight 0 are left out.
    missing : what a model does where a value is missing in a stage that is reached: take the
        median, stop and ask for it, or give no answer. A record that stops there has no answer and
        does not pay for that stage, in all figures.
    classifier : what is trained for each stage.
    calibration : how confidences are calibrated, by cross-validation within the training records;
        softmax with a decision by costs, none otherwise, unless given.
    """

    threshold: float | dict[Label, float] | Grid | None = None
    threshold_per_stage: bool = False
    stage_cost: Annotated[float, Field(ge=0)] = 0.0
    measure: MeasureConfig = MeasureConfig()
    max_stages: int | None = Field(default=None, ge=1)
    remove_features: bool = False
    error_costs: dict[Label, Annotated[float, Field(ge=0)]] | None = None
    decision: StageDecisionConfig | None = None
    rates: Rates = ()
    subgroup: str | None = None
    weights: str | None = None
    missing: MissingPolicy = "impute"
    classifier: ClassifierConfig = ClassifierConfig()
    calibration: CalibrationMethod = "none"

    @model_validator(mode="before")
    @classmethod
    def _calibrated(cls, raw: Any) -> Any:
        """Calibrate where stages decide by costs, unless the configuration says otherwise."""
        if isinstance(raw, Mapping) and raw.get("decision") is not None:
            return {"calibration": "softmax", **raw}
        return raw

    @model_validator(mode="after")
    def _one_rule(self) -> MultiStageSettings:
        if self.threshold_per_stage and not len(self.confidences(2)):  # or any number of classes
            raise ValueError(
                "threshold_per_stage: expected several values of threshold to choose from, found "
                f"{'a decision by costs' if self.decision else self.threshold}; leave it out"
            )
        if self.decision is None:
            return self
        if self.threshold is not None:
            raise ValueError("expected a threshold or a decision by costs, found both")
        if self.error_costs is not None:
            raise ValueError(
                "expected error_costs or a decision by costs, found both; the metric risk has the "
                "costs of the decision"
            )
        return self

    def confidences(self, classes: int) -> FloatArray:
        """Return the thresholds that a search chooses from, ascending; none if it has no choice."""
        if self.decision is None and self.threshold is None:
            return confidences_of(classes)
        values = self.threshold
        if self.decision is not None or not isinstance(values, tuple) or len(set(values)) == 1:
            return np.zeros(0)
        return np.unique(values)


class MultiStageConfig(MultiStageSettings, DataConfig):  # in this order the data set comes first
    """The ``problem`` section of kind ``multistage``: a data set and its settings."""
