"""How records go through a system: the counts, what is claimed, and when that is not believed."""

import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from algorithms.multistage.config import MultiStageConfig
from algorithms.multistage.problem import MultiStageProblem
from algorithms.multistage.routing import calibration_error
from framework.models.walk import Chosen, StageWalk, Walk, shares
from framework.streams import CandidateStreams


def stage(leaving, right, confidence, p_value=0.5, entering=100, features=("a",)):
    answers = {"no": leaving // 2, "yes": leaving - leaving // 2}
    return StageWalk(features, 1.0, 1.0, entering, answers, right, confidence, 0.0, p_value)


@pytest.fixture(scope="module")
def problem():
    synthetic = {"samples": 600, "features": 6, "informative": 5, "classes": 3, "flip_y": 0.2}
    raw = {"dataset": {"synthetic": synthetic}, "threshold": 0.6, "max_stages": 4}
    raw["measure"] = {"kind": "holdout"}  # the model then answers the records that were scored
    return MultiStageProblem.from_config(MultiStageConfig.model_validate(raw))


def test_a_walk_agrees_with_the_metrics_and_the_model(problem):
    X = problem.space.sample(np.random.default_rng(0), 8)
    values = problem.evaluate(X, CandidateStreams(0, np.arange(8)))
    data, n = problem.data, problem.data.n_validation
    for i, x in enumerate(X):
        model = problem.decode(x)
        walk = problem.walk(model)
        answered = sum(s.leaving for s in walk.stages)
        assert walk.records == n
        assert values["coverage"][i] == answered / n
        assert values["accuracy"][i] == sum(s.right for s in walk.stages) / max(answered, 1)
        paid = sum(s.entering * s.cost for s in walk.stages)
        assert values["cost"][i] == pytest.approx(paid / n)
        assert walk.rejected == n - answered
        waiting = list(range(n))  # the same, a record at a time
        for j, found in enumerate(walk.stages):
            assert found.entering == len(waiting)
            names = {f for s in model.stages_[: j + 1] for f in s.tolist()}
            P = model.classifiers_[j].predict_proba(data.held[sorted(names), :n].T)
            gone = [r for r in waiting if P[r].max() >= 0.6 - 1e-9]
            right = [P[r].argmax() == data.y_held[r] for r in gone]
            assert (found.leaving, found.right) == (len(gone), sum(right))
            if gone:
                assert found.confidence == pytest.approx(np.mean([P[r].max() for r in gone]))
            waiting = [r for r in waiting if r not in set(gone)]
        assert Walk.from_json(json.loads(json.dumps(walk.to_json()))) == walk


@pytest.mark.parametrize("parts", [["test"], ["validation", "x"], ["validation", "test", "x"]])
def test_answers_to_other_records_are_refused(parts):
    table = ((1, 0, 0), (0, 1, 0))
    walk = Walk(2, 2, "none", (stage(2, 1, 0.5, entering=2),), {"validation": table})
    assert Walk.from_json(walk.to_json()).rejected == 0
    plain = walk.to_json() | {"confusions": dict.fromkeys(parts, table)}
    with pytest.raises(ValueError, match="tables of the answers to validation and test records"):
        Walk.from_json(plain)


@given(st.lists(st.tuples(st.floats(0.5, 1), st.booleans()), max_size=50))
def test_calibration_error_is_that_of_its_definition(pairs):
    confidence = np.array([c for c, _ in pairs])
    right = np.array([r for _, r in pairs], dtype=bool)
    want = 0.0
    for low in range(10):
        inside = [(c, r) for c, r in pairs if min(int(c * 10), 9) == low]
        if inside:
            gap = np.mean([c for c, _ in inside]) - np.mean([r for _, r in inside])
            want += abs(gap) * len(inside) / len(pairs)
    assert calibration_error(confidence, right) == pytest.approx(want)


def test_a_significant_gap_is_told_with_the_key_that_helps():
    walk = Walk(300, 500, "none", (stage(100, 90, 0.9), stage(120, 94, 0.91, 1e-5)))
    (sentence,) = walk.warnings()
    assert sentence == (
        "stage 2: answers claim 0.91 and are right in 0.78 of 120 cases (p = 1e-05); "
        "set problem.calibration: sigmoid"
    )
    assert "isotonic" in Walk(300, 5000, "none", walk.stages).warnings()[0]
    assert "raise problem.threshold" in Walk(300, 500, "sigmoid", walk.stages).warnings()[0]


@pytest.mark.parametrize(("never", "sentences"), [(1, 1), (5, 5), (6, 1), (40, 1)])
def test_classes_that_are_never_answered_are_told_in_few_sentences(never, sentences):
    names = [f"c{i}" for i in range(never + 1)]
    answers = dict.fromkeys(names, 0) | {"c0": 60}
    rows = [[1 + 2 * (i == 0), *[0] * never, 1] for i in range(never + 1)]
    counts = StageWalk(("a",), 1.0, 1.0, 100, answers, 50, 0.83, 0.0, 0.5)
    walk = Walk(100, 500, "none", (counts,), {"validation": tuple(map(tuple, rows))})
    found = walk.warnings()
    assert len(found) == sentences
    if sentences < never:
        assert found[0] == (
            f"classes c1, c2, c3, c4, c5, and {never - 5} more: no record is answered so; of their "
            f"{2 * never} validation records {never} get another answer and {never} none"
        )


def test_a_class_that_is_seldom_right_is_told():
    counts = StageWalk(("a",), 1.0, 1.0, 64, {"mild": 41, "severe": 7}, 44, 0.9, 0.0, 0.5)
    rows = {"validation": ((31, 3, 1), (10, 4, 15))}
    (sentence,) = Walk(64, 500, "none", (counts,), rows).warnings()
    assert sentence == (
        "class severe: of its 29 validation records 14 are answered, and only 4 of them as severe"
    )


@pytest.mark.parametrize(
    "found",
    [
        stage(0, 0, 0.0),
        stage(120, 94, 0.91, 0.02),  # may be chance
        stage(100, 90, 0.905, 1e-9),  # too small to matter
    ],
)
def test_what_is_no_reason_to_warn(found):
    assert Walk(300, 500, "none", (found,)).warnings() == []


def test_calibrated_confidences_are_believed_and_loud_ones_are_not():
    """A gaussian naive Bayes on redundant features is the textbook's overconfident classifier."""

    def warnings(method):
        synthetic = {"samples": 4000, "features": 12, "informative": 2, "redundant": 10}
        raw = {"dataset": {"synthetic": synthetic | {"flip_y": 0.3}}, "threshold": 0.75}
        raw |= {"classifier": {"kind": "gaussian_nb"}, "calibration": method}
        problem = MultiStageProblem.from_config(MultiStageConfig.model_validate(raw))
        x = np.zeros(12, dtype=problem.space.dtype)
        return problem.walk(problem.decode(x)).warnings()

    assert "set problem.calibration: isotonic" in warnings("none")[0]
    assert warnings("isotonic") == []
    assert warnings("sigmoid") == []


def test_shares_put_rare_answers_together():
    answers = {"a": 10, "b": 0, "c": 5, "d": 1}
    one = StageWalk(("x",), 1, 1, 20, answers, 12, 0.8, 0, 1)
    walk = Walk(20, 20, "none", (one,))
    assert shares(walk, 4) == (["a", "b", "c", "d"], [[0.5, 0, 0.25, 0.05]])
    names, (row,) = shares(walk, 3)
    assert names == ["a", "c", "others"]
    assert row == pytest.approx([0.5, 0.25, 0.05])


def test_a_directory_without_a_walk_has_no_chosen_one(tmp_path):
    assert Chosen.read(tmp_path) is None
    (tmp_path / "model.json").write_text('{"about": {"solution": 3}, "walk": null}')
    assert Chosen.read(tmp_path) is None
