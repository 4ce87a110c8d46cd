"""Stages that decide by the costs of errors: bits, metrics, searches and models against twins."""

import itertools

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression

from algorithms.multistage.decision import StageDecisionConfig, decision_of
from algorithms.multistage.emsco import EMSCO
from algorithms.multistage.estimator import ParetoMultiStage
from algorithms.multistage.model import MultiStageClassifier
from framework.errors import InputError
from framework.estimators.search import roles_for
from framework.models.store import load_model, save_model
from tests import searching
from tests.conftest import covering
from tests.multistage.data import patients

ERRORS = {"shock": 50, "sepsis": {"ok": 5, "shock": 2.5}}
DECISION = {"errors": ERRORS, "no_answer": 2, "thresholds": [0.3, 0.8, 1.5]}
COSTS = {"a": 0.1, "b": 2.0, "c": 12.0}
OBJECTIVES = [["risk", "cost"], ["total_cost"], ["risk", "cost", "coverage"]]


def searched(n=400, **more):
    """Search on a hold-out: a deployed model then answers the records that were scored."""
    setting = {"costs": COSTS, "decision": DECISION, "remove_features": True, "measure": "holdout"}
    return ParetoMultiStage(**setting | more).fit(*patients(n))


@pytest.fixture(scope="module", params=[False, True], ids=["one threshold", "per stage"])
def fitted(request):
    decision = DECISION | {"per_stage": request.param}
    return searched(decision=decision, max_stages=3, algorithm="grid", budget=100_000)


def walked(problem, x):
    """Return said, answered and paid of each validation record, by the deployed model."""
    model = problem.decode(x)
    held = problem.data.held[:-1, : problem.data.n_validation].T
    errors, no_answer = model.decision_.errors, model.decision_.no_answer
    paid, loss = np.zeros(len(held)), np.zeros(len(held))
    for i, record in enumerate(held):
        for stage, classifier in enumerate(model.classifiers_):
            have = np.sort(np.concatenate(model.stages_[: stage + 1]))
            p = classifier.predict_proba(record[None, model.encoder_.columns_of(have)])[0]
            expected = [sum(p[t] * errors[t, c] for t in range(3)) for c in range(3)]
            last = stage == len(model.classifiers_) - 1
            limit = no_answer if last else model.decision["thresholds"][stage]
            if min(expected) <= limit + 1e-9:
                loss[i] = errors[problem.data.y_held[i], int(np.argmin(expected))]
                break
        else:
            loss[i] = no_answer
        paid[i] = sum(COSTS["abc"[f]] for f in have)
    return loss.mean(), paid.mean()


def test_metrics_are_those_of_the_deployed_model_record_by_record(fitted):
    problem, rng = fitted.problem_, np.random.default_rng(0)
    X = problem.space.sample(rng, 12)
    values = problem.evaluate(X)
    for i, x in enumerate(X):
        risk, cost = walked(problem, x)
        assert values["risk"][i] == pytest.approx(risk, abs=1e-9)
        assert values["cost"][i] == pytest.approx(cost, abs=1e-9)
        assert values["total_cost"][i] == pytest.approx(risk + cost, abs=1e-9)
    rows = problem.outcomes(X).metrics(np.ones((problem.data.n_validation, 1)))
    for name, column in values.items():
        assert rows[name][:, 0] == pytest.approx(column, abs=1e-12), name


@pytest.mark.quick(2)
@pytest.mark.parametrize(
    ("stages", "per_stage", "objectives"),
    [*covering([2, 3, 1], [False], OBJECTIVES), *covering([3, 1, 2], [True], OBJECTIVES)],
)
def test_the_exact_front_is_that_of_all_designs(objectives, per_stage, stages):
    X, y = patients(240, seed=stages)
    decision = DECISION | {"per_stage": per_stage}
    setting = {"costs": COSTS, "decision": decision, "max_stages": stages, "calibration": "none"}
    setting["stage_cost"] = 0.5 * (stages - 1)
    found = []
    for algorithm in ("exact", "grid"):
        front = ParetoMultiStage(
            objectives=objectives, algorithm=algorithm, budget=100_000, **setting
        ).fit(X, y)
        found.append(front.front_[objectives].drop_duplicates().sort_values(objectives))
    assert np.array_equal(found[0].to_numpy(), found[1].to_numpy())


def test_exact_says_what_it_cannot_do():
    X, y = patients(120)
    setting = {"costs": COSTS, "decision": DECISION, "budget": 10}
    with pytest.raises(InputError, match="exact knows risk, total_cost, cost, coverage"):
        ParetoMultiStage(algorithm="exact", objectives=["accuracy"], **setting).fit(X, y)
    for options in ({"method": "enumeration"}, {"bounds": True}):
        with pytest.raises(InputError, match=r"a dynamic programme alone where problem\.decision"):
            ParetoMultiStage(algorithm={"kind": "exact", **options}, **setting).fit(X, y)


def test_emsco_finds_nearly_all_of_a_small_front(fitted):
    problem = fitted.problem_
    roles = roles_for(problem, ["risk", "cost"])
    _, front, _ = searching.searched(EMSCO, problem, roles, 4000, population=60, memetic=0.3)
    best = set(map(tuple, fitted.front_[["risk", "cost"]].to_numpy()))
    own = set(map(tuple, np.column_stack([front.rows.values[m] for m in ("risk", "cost")])))
    assert len(best & own) >= 0.8 * len(best)


def test_a_grid_goes_through_every_threshold(fitted):
    problem = fitted.problem_
    levels = problem.space.levels
    assert levels == (2 if fitted.decision["per_stage"] else 1)
    assert problem.gene_names[3:] == (
        ("threshold_1", "threshold_2")[:levels] if levels > 1 else ("threshold",)
    )
    values = itertools.product(range(3), repeat=levels)
    stages = np.array([0, 1, 2])
    X = np.array([[*stages, *value] for value in values], dtype=problem.space.dtype)
    assert problem.space.contains(X).all()
    costs = problem.evaluate(X)["cost"]
    assert costs[0] > costs[-1]  # whoever stops sooner pays less


def test_files_keep_costs_and_thresholds(fitted, tmp_path):
    X, _ = patients(50, seed=9)
    model = fitted.choose(best="risk")
    save_model(model, tmp_path / "model")
    again = load_model(tmp_path / "model")
    found, loaded = model.predict_table(X), again.predict_table(X)
    assert found.equals(loaded)
    assert list(found.columns)[-1] == "risk"
    risks = model.decision_.said(model.predict_proba(X))[1]
    assert found["risk"].to_numpy() == pytest.approx(risks)
    assert "No answer costs 2" in (tmp_path / "model" / "README.md").read_text()
    assert (risks[(found["label"] != "inconclusive").to_numpy()] <= 2 + 1e-7).all()
    step = again.next_features(X.iloc[0].to_dict())
    assert step["label"] == found["label"].iloc[0] or step["status"] == "inconclusive"
    assert step["risk"] == pytest.approx(found["risk"].iloc[0])


def test_what_a_walk_advises_is_no_threshold_of_confidence(fitted):
    walk = fitted.problem_.walk(fitted.choose(best="risk"))
    assert walk.by_cost
    assert walk._advice(walk.stages[0]) == "try another problem.calibration"
    assert type(walk).from_json(walk.to_json()) == walk


@pytest.mark.parametrize(
    ("no_answer", "greatest"),
    [(1000.0, 2**0.5), (1.5, 2**0.5), (1.4, 0.5**0.5), (0.8, 0.5**0.5), (0.5, 0.5)],
)
def test_thresholds_halve_on_both_sides_of_the_risk_of_the_best_constant_answer(
    no_answer, greatest
):
    """Costs of no answer, and the greatest threshold, as multiples of that risk."""
    y = np.repeat([0, 1], [90, 10])  # always "well": 10% are ill, at 5 each
    config = StageDecisionConfig(errors={"ill": 5}, no_answer=0.5 * no_answer)
    _, grid = decision_of(config, ["well", "ill"], y, "decision")
    assert grid[-1] == pytest.approx(0.5 * greatest)
    assert grid[1:] / grid[:-1] == pytest.approx(np.full(6, 2.0))
    assert np.abs(np.log2(grid / 0.5)).min() > 0.49


def test_of_a_stage_that_knows_nothing_all_records_leave_or_none():
    """Their risks are about that of the best constant answer, near which is no threshold."""
    X, _ = patients(1000)
    X["b"] = np.random.default_rng(1).permutation(X["b"])
    y = np.where(X["a"] + X["c"] > 1.5, "shock", "ok")
    decision = {"errors": {"shock": 20}, "no_answer": 100}
    problem = ParetoMultiStage(costs=COSTS, decision=decision, budget=5).fit(X, y).problem_
    X = np.array([[1, 0, 1, level] for level in range(7)], dtype=problem.space.dtype)
    assert problem.evaluate(X)["cost"] == pytest.approx(np.array([14.1] * 6 + [2.0]))


def test_an_estimator_of_given_stages_decides_by_costs():
    X, y = patients()
    decision = {"errors": ERRORS, "no_answer": 2, "thresholds": 0.5}
    model = MultiStageClassifier([["a"], ["b", "c"]], decision=decision).fit(X, y)
    plain = MultiStageClassifier([["a"], ["b", "c"]], threshold=0.5).fit(X, y)
    rare = y == "shock"
    assert (model.predict(X)[rare] == "shock").mean() > (plain.predict(X)[rare] == "shock").mean()
    assert (model.risk(X)[model.stage_of(X) == 1] <= 0.5 + 1e-6).all()
    with pytest.raises(InputError, match="found decision=None"):
        plain.risk(X)


def by_cost(**change):
    return {"decision": DECISION | change}


def weighed(weight):
    return {"classifier": {"kind": "logistic_regression", "class_weight": weight}}


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        (by_cost(errors={"shok": 5}), r"decision\.errors: expected a class of the data"),
        (by_cost(errors={"shock": -5}), r"decision\.errors\.shock"),
        (by_cost(no_answer=-1), r"decision\.no_answer"),
        (by_cost(thresholds=[5]), "risks of at most 2, what no answer costs, found 5"),
        (by_cost(thresholds=[]), r"decision\.thresholds"),
        (by_cost() | {"threshold": 0.9}, "a threshold or a decision by costs, found both"),
        ({"threshold": []}, "threshold: expected"),
        ({"threshold": [0.5, 1.5]}, "threshold: expected confidences above 0"),
        ({"threshold": 1.5}, "threshold: expected confidences above 0"),
        ({"threshold": 0.8, "threshold_per_stage": True}, "several values of threshold"),
        (weighed("even"), "expected balanced, or a weight by label, found 'even'"),
        (weighed({"shock": 0}), "expected a finite weight above 0 for 'shock', found 0"),
        (weighed({"shok": 2}), r"class_weight: expected a class of the data .*found 'shok'"),
    ],
)
def test_costs_thresholds_and_weights_that_mean_nothing_are_refused(parameters, message):
    with pytest.raises(InputError, match=message):
        ParetoMultiStage(**parameters, budget=5).fit(*patients(60))


@pytest.mark.parametrize(
    ("thresholds", "message"),
    [
        ([1, 1], "one for each stage but the last, found 2"),
        ([-1], "expected finite numbers from 0"),
        ([float("nan")], "expected finite numbers from 0"),
        (["1"], "expected numbers, found"),
    ],
)
def test_thresholds_of_a_model_that_mean_nothing_are_refused(thresholds, message):
    X, y = patients(60)
    decision = {"errors": ERRORS, "no_answer": 2, "thresholds": thresholds}
    with pytest.raises(InputError, match=rf"decision\.thresholds: .*{message}"):
        MultiStageClassifier([["a"], ["b"]], decision=decision).fit(X, y)


@pytest.mark.parametrize("weight", ["balanced", {"shock": 20, "sepsis": 5}])
@pytest.mark.parametrize("calibration", ["none", "softmax"])
def test_class_weights_are_those_of_scikit_learn(weight, calibration):
    more = weighed(weight) | {"calibration": calibration, "remove_features": False}
    problem = searched(decision=None, threshold=0.75, budget=5, **more).problem_
    model = problem.decode(np.zeros(3, dtype=problem.space.dtype))
    by_code = weight
    if weight != "balanced":
        by_code = {["ok", "sepsis", "shock"].index(label): w for label, w in weight.items()}
    theirs = LogisticRegression(solver="newton-cholesky", tol=1e-10, class_weight=by_code)
    theirs.fit(problem.data.design[:-1].T, problem.data.y)
    ours = getattr(model.classifiers_[0], "base", model.classifiers_[0])
    held = problem.data.held[:-1].T
    assert np.allclose(ours.predict_proba(held), theirs.predict_proba(held), atol=1e-6)


@pytest.mark.parametrize("algorithm", ["local_search", "emsco"])
def test_a_front_is_never_worse_than_one_classifier_on_what_money_allows(algorithm):
    kind = {"kind": algorithm, {"emsco": "population"}.get(algorithm, "batch"): 4}
    search = searched(200, algorithm=kind, objectives=["risk", "cost"], budget=4)
    problem = search.problem_
    starts = problem.starts()
    assert starts[:, :3].tolist() == [[0, -1, -1], [0, 0, -1], [0, 0, 0]]
    found, values = search.front_, problem.evaluate(starts)
    for risk, cost in zip(values["risk"], values["cost"], strict=True):
        assert ((found["risk"] <= risk) & (found["cost"] <= cost)).any()
    plain = ParetoMultiStage(threshold=0.75, measure="holdout", budget=4, max_stages=2)
    plain.fit(*patients(200))
    assert len(plain.problem_.starts()) == 0


def test_an_estimator_is_chosen_from_with_other_costs_shares_and_prices(fitted):
    """As the problem that had them from the start scores the designs that were evaluated."""
    errors, prices = {"shock": 80, "sepsis": 3}, {"c": 0.5}
    decision = fitted.decision | {"errors": errors, "no_answer": 2}
    twin = searched(
        costs=COSTS | prices, decision=decision, max_stages=3, algorithm="grid", budget=1
    )
    designs = np.concatenate([batch.X for batch in fitted._evaluated])
    truth, labels = twin.problem_.truth()
    alone = (truth[:, None] == np.arange(3)).astype(float)
    outcomes = twin.problem_.outcomes(designs)
    share = {"ok": 0.5, "sepsis": 0.3, "shock": 0.2}
    shares = np.array([share[label] for label in labels])
    total = outcomes.metrics(np.ones((len(truth), 1)))["total_cost"][:, 0]
    weighed = outcomes.metrics(alone)["total_cost"] @ shares
    words = {"costs": errors, "prices": prices}
    assert fitted.expected(**words)["total_cost"].claimed == total.min()
    claimed = fitted.expected(prior=share, **words)["total_cost"].claimed
    assert claimed == pytest.approx(weighed.min(), rel=1e-5)
    model = fitted.choose(**words)
    assert model.decision_.errors[list(model.classes_).index("shock")].max() == 80
    assert model.costs_.tolist() == [0.1, 2.0, 0.5]
    with pytest.raises(InputError, match="costs: expected a class of the data"):
        fitted.choose(costs={"fever": 3})


def test_other_costs_keep_what_genes_mean(fitted):
    problem = fitted.problem_
    section = {"kind": "multistage", "decision": DECISION}
    assert problem.with_errors(section, {"shock": 80})["decision"] == {
        "errors": {"ok": 1.0, "sepsis": 1.0, "shock": 80.0},
        "no_answer": 2,
        "thresholds": problem.decision.thresholds.tolist(),
    }
