"""A classifier of one label: what it answers, and what problems say that it scores."""

import pandas as pd
import pytest

from framework.errors import InputError
from framework.models.constant import ConstantClassifier
from framework.models.store import load_model, save_model
from framework.testing import MODEL_LAWS
from tests.conftest import multistage, network, pruning

FRAME = pd.DataFrame({"age": [1.0, 2.0, 3.0]}, index=[4, 5, 6])


@pytest.mark.parametrize("law", MODEL_LAWS, ids=lambda law: law.__name__)
@pytest.mark.parametrize("classes", [("no", "yes"), (0, 1), (False, True)])
def test_it_keeps_the_laws(classes, law, tmp_path):
    law(ConstantClassifier.from_label(classes[1], classes, note="cheap"), FRAME, tmp_path)


def test_it_answers_one_label(tmp_path):
    model = ConstantClassifier.from_label("yes", ["no", "yes"], note="It costs | least.")
    save_model(model, tmp_path / "model")
    loaded = load_model(tmp_path / "model")
    assert loaded.predict(FRAME).tolist() == ["yes"] * 3
    assert loaded.predict_proba(FRAME.to_numpy()).tolist() == [[0.0, 1.0]] * 3
    assert loaded.predict_table(FRAME).index.tolist() == [4, 5, 6]
    assert "It costs" in (tmp_path / "model" / "README.md").read_text(encoding="utf-8")


@pytest.mark.parametrize("label", ["maybe", None, 1])
def test_another_label_is_refused(label):
    with pytest.raises(InputError, match="label: expected one of the classes"):
        ConstantClassifier.from_label(label, ["no", "yes"])


@pytest.mark.parametrize("made", ["network", "pruning", "multistage"])
def test_problems_know_what_a_constant_scores(made):
    """The rates by definition, and the rest from the labels of the records."""
    if made == "network":
        problem = network()
        labels = problem.validation.positive
    elif made == "pruning":
        problem = pruning()
        labels = problem.library.y_validation == problem.positive
    else:
        problem = multistage()
        labels = problem.data.y_held[: problem.data.n_validation] == problem.data.positive
    negative, positive = problem.trivial_classifiers()
    for one, code in ((negative, 0), (positive, 1)):
        assert set(one.values) == set(problem.metric_names)
        assert one.values["false_positive_rate"] == code
        assert one.values["false_negative_rate"] == 1 - code
        assert one.values["accuracy"] == pytest.approx((labels == code).mean())
        assert one.label in list(one.classes)
        assert one.name == f"always {'positive' if code else 'negative'}"
