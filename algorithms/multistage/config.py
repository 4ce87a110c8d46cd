"""The ``problem`` section of multi-stage problems."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from framework.data.costs import CostsConfig
from framework.data.datasets import DatasetConfig
from framework.data.splits import SplitConfig
from framework.models.classifiers import CalibrationMethod, ClassifierConfig
from framework.settings import Section

MissingPolicy = Literal["impute", "ask", "inconclusive"]


class MultiStageSettings(Section):
    """What a multi-stage problem needs to know besides the records.

    split : shares of the records to train on, to search on and to test on.
    costs : what each feature costs; 1 each if None.
    threshold : confidence that a prediction needs, for all classes or by label (the paper's
        future work); labels left out need 0.5.
    max_stages : the paper's k; min(ceil(n / 2), 10) unless given, never above n.
    remove_features : let a gene be -1, the feature is never acquired (the paper's future work).
    error_costs : what a wrong answer costs, by the label of the true class; labels left out cost 1.
    missing : what a model does where a value is missing in a stage that is reached: take the
        median, stop and ask for it, or give no answer.
    classifier : what is trained for each stage.
    calibration : how confidences are calibrated, by cross-validation within the training records.
    """

    split: SplitConfig = SplitConfig.model_validate({})
    costs: CostsConfig | None = None
    threshold: float | dict[str | int | float | bool, float] = 0.75
    max_stages: int | None = Field(default=None, ge=1)
    remove_features: bool = False
    error_costs: dict[str | int | float | bool, Annotated[float, Field(ge=0)]] | None = None
    missing: MissingPolicy = "impute"
    classifier: ClassifierConfig = ClassifierConfig()
    calibration: CalibrationMethod = "none"


class _Dataset(Section):
    dataset: DatasetConfig


class MultiStageConfig(MultiStageSettings, _Dataset):  # in this order the data set comes first
    """The ``problem`` section of kind ``multistage``: a data set and its settings."""
