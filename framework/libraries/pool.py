"""A heterogeneous pool of models: families, and random parameters of each model from one seed.

The first model of a family has the parameters below; the others vary them. A model depends only on
the seed, its family and its number in it, so that a smaller pool is the beginning of a larger one.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from importlib import import_module
from typing import Any, NamedTuple

import numpy as np

from framework.streams import stream

_STREAM = 83  # keeps these draws apart from other streams of the same seed
_ALWAYS = 10**9

DRAWN = "drawn_features"
"""Parameter of models that are trained on a bootstrap sample and this share of the features."""

Draw = Callable[[np.random.Generator], Any]


class PoolPlan(NamedTuple):
    """A model to train: its id, family, parameters (JSON values) and own seed."""

    id: str
    family: str
    parameters: Mapping[str, Any]
    seed: int

    @property
    def config(self) -> dict[str, Any]:
        """What the library keeps of it."""
        return {"family": self.family, **self.parameters, "seed": self.seed}


@dataclass(frozen=True)
class Family:
    """How to make the models of a family.

    Attributes
    ----------
    classifier, regressor : 'module:class', None where there is none.
    draws : the parameters that vary, each with its distribution; drawn in this order.
    first : parameters of the first model.
    fixed : parameters that all models share.
    seeded : whether the estimator takes a ``random_state``.
    most : number of models after which those of other families are taken first, as this family has
        few different ones.
    records : number of training records above which it is too slow to be used unless it is named.
    """

    classifier: str | None = None
    regressor: str | None = None
    draws: Mapping[str, Draw] = field(default_factory=dict)
    first: Mapping[str, Any] = field(default_factory=dict)
    fixed: Mapping[str, Any] = field(default_factory=dict)
    seeded: bool = True
    most: int = _ALWAYS
    records: int = _ALWAYS

    def fits(self, task: str) -> bool:
        """Return whether the family has a model for ``classification`` or ``regression``."""
        return self._class(task) is not None

    def make(self, plan: PoolPlan, task: str) -> Any:
        """Return the unfitted estimator."""
        module, _, name = str(self._class(task)).partition(":")
        seed = {"random_state": plan.seed} if self.seeded else {}
        parameters = {key: value for key, value in plan.parameters.items() if key != DRAWN}
        model = getattr(import_module(module), name)(**self.fixed, **parameters, **seed)
        if DRAWN not in plan.parameters:
            return model
        from sklearn.ensemble import BaggingClassifier, BaggingRegressor

        bagging = BaggingClassifier if task == "classification" else BaggingRegressor
        return bagging(
            model, n_estimators=1, max_features=plan.parameters[DRAWN], random_state=plan.seed
        )

    def _class(self, task: str) -> str | None:
        return self.classifier if task == "classification" else self.regressor


def plans(
    families: Sequence[str] | None,
    models: int,
    seed: int,
    task: str,
    records: int,
    balanced: bool = False,
) -> list[PoolPlan]:
    """Return the models of a pool: families in turn, each with its next parameters.

    Parameters
    ----------
    families : sequence of str, optional
        All that suit the task and ``records`` training records if None.
    balanced : bool
        Whether every family has its turn each time, also one with few different models; these then
        vary by what they are trained on.
    """
    chosen = families or [
        name for name, f in FAMILIES.items() if f.fits(task) and records <= f.records
    ]
    order = sorted(
        (number >= FAMILIES[name].most and not balanced, number, place)
        for place, name in enumerate(chosen)
        for number in range(models)
    )
    return [_plan(chosen[place], number, seed, balanced) for _, number, place in order[:models]]


def _plan(name: str, number: int, seed: int, balanced: bool) -> PoolPlan:
    family = FAMILIES[name]
    # each model has a stream of its own: its parameters do not depend on how many others there are
    rng = stream(seed, _STREAM, list(FAMILIES).index(name), number)
    model_seed = int(rng.integers(2**31 - 1))
    parameters = dict(family.first)
    if number > 0:
        parameters = {parameter: draw(rng) for parameter, draw in family.draws.items()}
    if balanced and number > 0 and family.most < _ALWAYS:
        parameters[DRAWN] = round(float(rng.uniform(0.5, 1.0)), 3)
    return PoolPlan(f"{name}_{number + 1}", name, parameters, model_seed)


def svm_classifier(**parameters: Any) -> Any:
    """Return a support vector machine whose scores become probabilities by Platt's sigmoid."""
    from sklearn.calibration import CalibratedClassifierCV
    from sklearn.svm import SVC

    return CalibratedClassifierCV(SVC(**parameters), ensemble=False, cv=3)


def svm_regressor(**parameters: Any) -> Any:
    """Return a support vector regressor that sees a standardised target."""
    from sklearn.svm import SVR

    return _standardised(SVR(**parameters))


def network_classifier(hidden_layer_sizes: Sequence[int], **parameters: Any) -> Any:
    """Return a multi-layer perceptron; JSON keeps its layers as a list."""
    from sklearn.neural_network import MLPClassifier

    return MLPClassifier(hidden_layer_sizes=tuple(hidden_layer_sizes), **parameters)


def network_regressor(hidden_layer_sizes: Sequence[int], **parameters: Any) -> Any:
    """Return a multi-layer perceptron that sees a standardised target."""
    from sklearn.neural_network import MLPRegressor

    return _standardised(MLPRegressor(hidden_layer_sizes=tuple(hidden_layer_sizes), **parameters))


def _standardised(regressor: Any) -> Any:
    """Return a regressor that is fitted to the standardised target; it needs one around zero."""
    from sklearn.compose import TransformedTargetRegressor
    from sklearn.preprocessing import StandardScaler

    return TransformedTargetRegressor(regressor, transformer=StandardScaler())


def _log(low: float, high: float) -> Callable[[np.random.Generator], float]:
    """Draw log-uniformly; three digits are enough."""
    return lambda rng: float(f"{np.exp(rng.uniform(np.log(low), np.log(high))):.3g}")


def _integer(low: int, high: int) -> Callable[[np.random.Generator], int]:
    """Draw an integer log-uniformly."""
    draw = _log(low, high)
    return lambda rng: round(draw(rng))


def _one_of(*values: Any) -> Draw:
    """Draw one of some values; one that is listed twice comes twice as often."""
    return lambda rng: values[int(rng.integers(len(values)))]


_FOREST: dict[str, Draw] = {
    "n_estimators": _integer(10, 300),
    "max_features": _one_of("sqrt", 0.25, 0.5, 0.75, 1.0),
    "min_samples_leaf": _integer(1, 30),
    "max_depth": _one_of(None, None, 4, 8, 16),
}
_FIRST_FOREST = {"n_estimators": 100, "max_features": "sqrt", "min_samples_leaf": 1}
_HERE = "framework.libraries.pool"

FAMILIES: dict[str, Family] = {
    "logistic_regression": Family(
        classifier="sklearn.linear_model:LogisticRegression",
        draws={"C": _log(1e-4, 1e3)},
        first={"C": 1.0},
        fixed={"max_iter": 500},
        seeded=False,
        most=6,
    ),
    "ridge": Family(
        regressor="sklearn.linear_model:Ridge",
        draws={"alpha": _log(1e-3, 1e3)},
        first={"alpha": 1.0},
        seeded=False,
        most=6,
    ),
    "lasso": Family(
        regressor="sklearn.linear_model:Lasso",
        draws={"alpha": _log(1e-3, 10)},
        first={"alpha": 0.1},
        seeded=False,
        most=4,
    ),
    "lda": Family(
        classifier="sklearn.discriminant_analysis:LinearDiscriminantAnalysis",
        draws={"shrinkage": _log(0.01, 1.0)},
        first={"shrinkage": "auto"},
        fixed={"solver": "lsqr"},
        seeded=False,
        most=3,
    ),
    "qda": Family(
        classifier="sklearn.discriminant_analysis:QuadraticDiscriminantAnalysis",
        draws={"reg_param": _log(0.01, 1.0)},
        first={"reg_param": 0.1},
        seeded=False,
        most=3,
    ),
    "naive_bayes": Family(
        classifier="sklearn.naive_bayes:GaussianNB",
        draws={"var_smoothing": _log(1e-9, 0.3)},
        first={"var_smoothing": 1e-9},
        seeded=False,
        most=2,
    ),
    "knn": Family(
        classifier="sklearn.neighbors:KNeighborsClassifier",
        regressor="sklearn.neighbors:KNeighborsRegressor",
        draws={
            "n_neighbors": _integer(1, 60),
            "weights": _one_of("uniform", "distance"),
            "p": _one_of(1, 2),
        },
        first={"n_neighbors": 5, "weights": "uniform", "p": 2},
        seeded=False,
        records=50_000,
    ),
    "svm": Family(
        classifier=f"{_HERE}:svm_classifier",
        regressor=f"{_HERE}:svm_regressor",
        draws={"C": _log(0.05, 100), "gamma": _log(1e-3, 0.3)},
        first={"C": 1.0, "gamma": "scale"},
        seeded=False,
        records=3_000,
    ),
    "decision_tree": Family(
        classifier="sklearn.tree:DecisionTreeClassifier",
        regressor="sklearn.tree:DecisionTreeRegressor",
        draws={
            "max_depth": _integer(2, 20),
            "min_samples_leaf": _integer(1, 50),
            "max_features": _one_of(None, 0.5, 0.75),
        },
        first={"max_depth": None, "min_samples_leaf": 5, "max_features": None},
        most=6,
    ),
    "random_forest": Family(
        classifier="sklearn.ensemble:RandomForestClassifier",
        regressor="sklearn.ensemble:RandomForestRegressor",
        draws=_FOREST,
        first=_FIRST_FOREST,
    ),
    "extra_trees": Family(
        classifier="sklearn.ensemble:ExtraTreesClassifier",
        regressor="sklearn.ensemble:ExtraTreesRegressor",
        draws=_FOREST,
        first=_FIRST_FOREST,
    ),
    "gradient_boosting": Family(
        classifier="sklearn.ensemble:GradientBoostingClassifier",
        regressor="sklearn.ensemble:GradientBoostingRegressor",
        draws={
            "n_estimators": _integer(20, 150),
            "learning_rate": _log(0.02, 0.3),
            "max_depth": _integer(1, 6),
            "subsample": _one_of(0.5, 0.75, 1.0),
        },
        first={"n_estimators": 100, "learning_rate": 0.1, "max_depth": 3},
        fixed={"max_features": "sqrt"},
        records=10_000,
    ),
    "hist_gradient_boosting": Family(
        classifier="sklearn.ensemble:HistGradientBoostingClassifier",
        regressor="sklearn.ensemble:HistGradientBoostingRegressor",
        draws={
            "max_iter": _integer(20, 300),
            "learning_rate": _log(0.02, 0.3),
            "max_leaf_nodes": _integer(4, 64),
            "min_samples_leaf": _integer(5, 50),
            "l2_regularization": _one_of(0.0, 0.1, 1.0, 10.0),
        },
        first={"max_iter": 100, "learning_rate": 0.1, "max_leaf_nodes": 31},
        fixed={"early_stopping": False},
    ),
    "mlp": Family(
        classifier=f"{_HERE}:network_classifier",
        regressor=f"{_HERE}:network_regressor",
        draws={
            "hidden_layer_sizes": lambda rng: [_integer(8, 128)(rng)] * _one_of(1, 1, 2)(rng),
            "alpha": _log(1e-5, 1.0),
            "learning_rate_init": _log(3e-4, 1e-2),
            "activation": _one_of("relu", "tanh"),
        },
        first={"hidden_layer_sizes": [64], "alpha": 1e-4},
        fixed={"max_iter": 150},
    ),
    "lightgbm": Family(
        classifier="lightgbm:LGBMClassifier",
        regressor="lightgbm:LGBMRegressor",
        draws={
            "n_estimators": _integer(20, 300),
            "learning_rate": _log(0.02, 0.3),
            "num_leaves": _integer(4, 64),
            "min_child_samples": _integer(5, 50),
            "colsample_bytree": _one_of(0.5, 0.75, 1.0),
            "extra_trees": _one_of(False, False, True),
        },
        first={"n_estimators": 100, "learning_rate": 0.1, "num_leaves": 31},
        fixed={"n_jobs": 1, "verbose": -1, "deterministic": True, "force_row_wise": True},
    ),
}
