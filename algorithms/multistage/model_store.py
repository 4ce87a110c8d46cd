"""Multi-stage classifiers as files: each stage's classifier, and a description of the rest."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, get_args

from algorithms.multistage.cascade import Staged
from algorithms.multistage.config import MissingPolicy
from framework.data.costs import CostGroups
from framework.data.encoding import Encoder
from framework.errors import InputError
from framework.models.checks import is_label, stored_labels
from framework.models.classifier_files import read_classifier, write_classifier
from framework.models.files import ModelFiles


def write(model: Staged, files: ModelFiles) -> dict[str, Any]:
    """Write the classifiers and return the description of the rest, plain JSON values."""
    numbered = enumerate(model.classifiers_, start=1)
    names = [write_classifier(files, f"stage_{number}", c) for number, c in numbered]
    return {
        "classes": model.classes_.tolist(),
        "reject_label": model.reject_label,
        "thresholds": model.thresholds_.tolist(),
        "costs": model.costs_.tolist(),
        "missing": model.missing,
        "cost_groups": None if model.cost_groups is None else model.cost_groups.to_json(),
        "stages": [stage.tolist() for stage in model.stages_],
        "classifiers": names,
        "encoder": model.encoder_.to_json(),
    }


def read(cls: Any, files: ModelFiles, plain: Mapping[str, Any]) -> Any:
    """Return the model, of class ``cls``, that ``write`` described.

    Raises
    ------
    InputError
        A description that is damaged, or whose parts do not fit together.
    """
    classes = stored_labels(plain["classes"], "classes")
    reject_label, groups = plain["reject_label"], plain.get("cost_groups")
    if reject_label is not None and not is_label(reject_label):
        raise InputError(f"reject_label: expected a label or null, found {reject_label!r}")
    return cls.from_fitted(
        Encoder.from_json(plain["encoder"]),
        plain["stages"],
        [read_classifier(files, str(name), classes) for name in plain["classifiers"]],
        classes,
        plain["costs"],
        dict(zip(plain["classes"], plain["thresholds"], strict=True)),
        reject_label,
        CostGroups.from_json(groups, len(plain["costs"])) if groups else None,
        _policy(plain.get("missing", "impute")),
    )


def _policy(found: Any) -> MissingPolicy:
    policies: tuple[MissingPolicy, ...] = get_args(MissingPolicy)
    for policy in policies:
        if found == policy:
            return policy
    raise InputError(f"missing: expected one of {', '.join(policies)}, found {found!r}")
