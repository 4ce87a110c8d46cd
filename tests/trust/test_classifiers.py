"""Classifiers that a configuration names: known ones only, and nothing that calls."""

import os
import sys

import pytest

from framework.errors import InputError
from framework.models.classifiers import PATHS, classifier_class, make_estimator
from framework.security import trust, trusted

MINE = """
from pathlib import Path
from sklearn.naive_bayes import GaussianNB

Path("imported").write_text("yes")

class Mine(GaussianNB):
    pass
"""


@pytest.mark.parametrize("kind", PATHS)
def test_the_table_is_right(kind):
    pytest.importorskip(PATHS[kind].partition(".")[0])
    assert hasattr(classifier_class(kind), "fit")


@pytest.mark.parametrize(
    "kind",
    [
        "os.system",
        "subprocess.Popen",
        "builtins.eval",
        "sklearn.base.attrgetter",
        "sklearn.pipeline.Pipeline",
        "sklearn.preprocessing.FunctionTransformer",
        "sklearn.ensemble.os.system",
        "lightgbm.basic.Booster",
        "../../x",
        "mine.Mine",
        "",
        "random",
    ],
)
def test_what_is_not_in_the_table_is_never_imported(kind, tmp_path, monkeypatch):
    (tmp_path / "mine.py").write_text(MINE)
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(InputError, match=r"^expected one of logistic_regression, adaboost"):
        make_estimator(kind, {})
    assert not (tmp_path / "imported").exists()


def test_trust_lets_a_class_of_the_users_be_imported(tmp_path, monkeypatch):
    (tmp_path / "mine.py").write_text(MINE)
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setenv("PARETOLAB_TRUST", "")
    trust(["mine.Mine"])
    assert trusted() == ["mine.Mine"]
    assert os.environ["PARETOLAB_TRUST"] == "mine.Mine"  # for processes started from here
    try:
        assert type(make_estimator("mine.Mine", {})).__name__ == "Mine"
    finally:
        sys.modules.pop("mine", None)
    with pytest.raises(InputError, match="expected a class such as"):
        trust(["os; rm"])


@pytest.mark.parametrize(
    ("kind", "parameters"),
    [
        ("lightgbm", {"boosting_type": "gbdt num_machines=2 machines=10.0.0.1:80"}),
        ("lightgbm", {"kwargs": {"machines": "x"}}),
        ("lightgbm", {"machines": "10.0.0.1"}),
        ("random_forest", {"criterion": {"x": {"y": "z"}}}),
        ("random_forest", {"criterion": print}),
        ("random_forest", {"criterion": "/etc/passwd"}),
        ("random_forest", {"n_estimators": [1] * 2000}),
        ("sklearn.svm.SVC", {"args": 1}),
    ],
)
def test_parameters_are_numbers_and_words(kind, parameters):
    with pytest.raises(InputError, match=r"expected a (number|parameter)"):
        make_estimator(kind, parameters)
