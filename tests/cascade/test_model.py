"""Deployable cascades: lazy, the same as the table says, and the same as the reference."""

import asyncio
import json
import sys
import time
from functools import cache

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.datasets import make_classification
from sklearn.linear_model import LogisticRegression
from sklearn.tree import DecisionTreeClassifier

from algorithms.cascade import reference
from algorithms.cascade.calling import CalledModel
from algorithms.cascade.estimator import ParetoCascade
from algorithms.cascade.model import CascadeClassifier, CascadePolicy
from algorithms.cascade.policy import Policy
from algorithms.cascade.problem import CascadeProblem
from framework.analysis.resamples import Resamples
from framework.errors import InputError
from framework.libraries.calls import CallTable
from framework.libraries.importing import from_models
from framework.models.mixture import MixtureClassifier
from framework.models.store import load_model, save_model
from framework.testing import check_model
from tests.cascade.tables import calls_of, made_up
from tests.command import run_program

COSTS = {"stump": 1, "linear": 3, "tree": 9}


@cache
def fitted(classes=3):
    X, y = make_classification(500, 8, n_informative=5, n_classes=classes, random_state=0)
    models = {
        "stump": DecisionTreeClassifier(max_depth=2),
        "linear": LogisticRegression(max_iter=500),
        "tree": DecisionTreeClassifier(max_depth=6),
    }
    for model in models.values():
        model.fit(X[:250], y[:250])
    return X, y, models


def unfitted(models):
    return {name: clone(model) for name, model in models.items()}


def deployed(problem, x, models, classes):
    bare = problem.policy(x)
    chosen = {name: models[name] for name in bare.policy.models}
    return CascadeClassifier.of_policy(chosen, bare.policy, classes, cases=bare.cases)


def test_all_missing_columns_of_a_table_of_calls_are_named():
    policy = CascadePolicy(Policy(tuple("abc"), (0.7, 0.8, -np.inf), (None, 0.4, None)))
    with pytest.raises(InputError, match="columns 'a:confidence', 'c:answer' and 'c:confidence'"):
        policy.predict_table(pd.DataFrame(columns=["a:correct", "b:answer", "b:confidence"]))


@pytest.mark.quick(4)
@pytest.mark.parametrize("classes", [2, 3])
@pytest.mark.parametrize(
    ("answer", "said"),
    [("own", "A model's answer"), ("cumulative_mean", "mean"), ("vote", "most of the models")],
)
@pytest.mark.parametrize("abstain", ["no", "early"])
def test_a_deployed_cascade_does_what_its_table_says(classes, answer, said, abstain):
    X, y, models = fitted(classes)
    library = from_models(models, X[250:], y[250:], costs={"cost": [1, 3, 9]})
    problem = CascadeProblem(CallTable.of(library), answer=answer, abstain=abstain)
    for x in problem.space.sample(np.random.default_rng(1), 12):
        model = deployed(problem, x, models, library.classes)
        found = model.predict_table(pd.DataFrame(X[250:]))
        values = {name: v[0] for name, v in problem.evaluate(x[None]).items()}
        answered = found["label"].notna()
        assert answered.mean() == values["coverage"]
        assert (found["label"] == y[250:]).mean() == values["accuracy"]
        assert found["calls"].mean() == values["models_asked"]
        assert model.policy_.promises["accuracy"]["claimed"] == values["accuracy"]
    assert said in model.card().text


@pytest.mark.quick(3)
@pytest.mark.parametrize("answer", ["own", "cumulative_mean", "vote"])
@pytest.mark.parametrize("abstain", ["no", "last", "early"])
def test_the_reference_evaluator_agrees_with_the_kernel(answer, abstain):
    tied = answer == "own"
    table = made_up(3, 60, 4, tied=tied)
    problem = CascadeProblem(table, answer=answer, abstain=abstain)
    for x in problem.space.sample(np.random.default_rng(2), 20):
        policy = problem.policy(x).policy
        plain = policy.to_json()
        right = asked = answered = 0
        for r in range(table.n):
            label, _, _, names = reference.decide(plain, calls_of(table, answer, r))
            right += label == table.labels[table.truth[r]]
            answered += label is not None
            asked += len(names)
        values = problem.evaluate(x[None])
        assert right / table.n == values["accuracy"][0]
        assert answered / table.n == values["coverage"][0]
        assert asked / table.n == values["models_asked"][0]


class Counting(DecisionTreeClassifier):
    """Notes which records it was asked for; raises where it is told to."""

    def predict_proba(self, X, check_input=True):
        self.seen = getattr(self, "seen", 0) + len(X)
        if getattr(self, "broken", False):
            raise RuntimeError("no connection")
        return super().predict_proba(X, check_input)[getattr(self, "cut", slice(None))]


def counted():
    """Return a cascade of two models that count, these models, and records."""
    X, y, _ = fitted()
    models = {n: Counting(max_depth=d).fit(X[:250], y[:250]) for n, d in (("a", 2), ("b", 8))}
    policy = Policy(("a", "b"), (0.7, -np.inf), (None, None))
    return CascadeClassifier.of_policy(models, policy, [0, 1, 2]), models, X


def test_a_later_model_is_asked_only_for_the_records_that_went_on():
    model, models, X = counted()
    calls = model.calls(X[250:])
    assert models["a"].seen == 250
    assert 0 < models["b"].seen == (calls == 2).sum() < 250
    assert calls.sum() == models["a"].seen + models["b"].seen


def test_a_model_that_fails_is_passed_over_and_counted():
    model, models, X = counted()
    models["a"].broken = True
    np.testing.assert_array_equal(model.predict(X[250:]), models["b"].predict(X[250:]))
    assert model.failures() == model.failures_ == {"a": 250, "b": 0}
    models["a"].broken, models["b"].broken = False, True  # what was heard before stands
    np.testing.assert_array_equal(model.predict(X[250:]), models["a"].predict(X[250:]))
    assert model.failures_["b"] > 0
    models["b"].broken, model.failures_["a"] = False, 0
    models["a"].cut = slice(1)  # one row, which numpy would repeat over the records
    np.testing.assert_array_equal(model.predict(X[250:]), models["b"].predict(X[250:]))
    assert model.failures_["a"] == 250


@pytest.mark.parametrize("rule", ["own", "cumulative_mean"])
def test_a_bare_policy_counts_the_calls_that_failed(rule):
    policy = CascadePolicy(Policy(("a", "b"), (0.7, -np.inf), (None, None), rule, classes=(0, 1)))
    table = {f"{name}:answer": [1, 1, 1] for name in "ab"}
    sure = {"a": [np.nan, 0.9, 0.6], "b": [np.nan, np.nan, 0.8]}  # b is not asked about the second
    table |= {f"{name}:confidence": column for name, column in sure.items()}
    table |= {f"{name}:probability:1": column for name, column in sure.items()}
    table |= {f"{name}:probability:0": 1 - np.array(column) for name, column in sure.items()}
    assert policy.failures() == {"a": 0, "b": 0}
    assert policy.predict_table(pd.DataFrame(table))["calls"].tolist() == [2, 1, 2]
    assert policy.failures() == {"a": 1, "b": 1}


@pytest.mark.parametrize("names", [[0, 1, 2], ["red", "green", "blue"]])
def test_a_mixture_keeps_what_its_cascades_do_not_answer(names):
    X, y, _ = fitted()
    X, y = pd.DataFrame(X).add_prefix("x"), np.array(names)[y]
    models = {n: Counting(max_depth=d).fit(X, y) for n, d in (("a", 2), ("b", 4))}
    policies = [
        Policy(("a", "b"), (0.7, last), (None, None), abstains=True) for last in (-np.inf, 0.9)
    ]
    classes = models["a"].classes_
    members = [CascadeClassifier.of_policy(models, policy, classes) for policy in policies]
    mixture = MixtureClassifier.from_fitted(members, [0.5, 0.5], seed=1)
    found = mixture.predict_table(X)
    told = [member.predict(X) for member in members]
    wanted = [told[m][r] for r, m in enumerate(found["member"])]
    assert None in wanted
    assert mixture.predict(X).tolist() == wanted
    assert [None if pd.isna(label) else label for label in found["label"]] == wanted
    models["a"].broken = True
    before = mixture.failures()
    mixture.predict(X)
    assert before == {}
    assert mixture.failures() == {"a": len(X)}


def test_models_survive_saving_and_nothing_forged_gets_through(tmp_path):
    X, y, models = fitted()
    library = from_models(models, X[250:], y[250:], costs={"cost": [1, 3, 9]})
    problem = CascadeProblem(CallTable.of(library), abstain="early")
    x = problem.space.sample(np.random.default_rng(3), 1)[0]
    check_model(deployed(problem, x, models, library.classes), pd.DataFrame(X[:5]))
    bare = problem.policy(x)
    check_model(bare, pd.DataFrame(problem.example()))
    save_model(bare, tmp_path / "policy")
    assert load_model(tmp_path / "policy").policy.to_json() == bare.policy.to_json()
    plain = json.loads((tmp_path / "policy" / "cascade.json").read_text())
    wrong = [("accept", ["x"]), ("models", []), ("answer", "eval"), ("refuse", 3)]
    wrong += [("enter", [0.5] * len(plain["models"]))]  # what a reader does not know decides, too
    for key, value in wrong:
        with pytest.raises((InputError, KeyError, TypeError, ValueError)):
            Policy.from_json({**plain, key: value})


def test_the_exported_evaluator_runs_alone(tmp_path):
    problem = CascadeProblem(made_up(3, 60, 4))
    save_model(problem.decode(np.array([20, 0, 1])), tmp_path / "m")
    command = [sys.executable, "-I", "-S", "cascade.py"]
    done = run_program(command, cwd=tmp_path / "m")
    assert done.stdout == "all cases agree\n", done.stderr
    cases = json.loads((tmp_path / "m" / "conformance.json").read_text())
    assert len(cases) > 10
    cases[0]["expected"]["asked"] = ["nobody"]
    (tmp_path / "m" / "conformance.json").write_text(json.dumps(cases))
    assert run_program(command, cwd=tmp_path / "m").returncode == 1


def test_the_estimator_cross_fits_and_keeps_to_a_budget():
    X, y, models = fitted()
    names = np.array(["red", "green", "blue"])
    cascade = ParetoCascade(unfitted(models), COSTS, folds=3).fit(X, names[y])
    assert cascade.front_["calibrated_accuracy"].is_monotonic_decreasing
    assert cascade.set_budget(2.5).model_.policy_.promises["cost"]["claimed"] <= 2.5
    assert set(cascade.predict(X)) <= set(names)
    assert cascade.predict_proba(X).shape == (500, 3)
    with pytest.raises(InputError, match=r"where cost<=0\.5: no solution is left"):
        cascade.set_budget(0.5)
    # out-of-fold: a tree that learned the records by heart would be right on nearly all of them
    seen = cascade.models_["tree"].score(X, names[y])
    assert cascade.calls_.right.mean(axis=1).max() < seen - 0.05


def test_estimators_say_what_is_wrong():
    X, y, models = fitted()
    with pytest.raises(InputError, match="none of 'tree'"):
        ParetoCascade(models, {"stump": 1, "linear": 3}).fit(X, y)
    with pytest.raises(InputError, match="folds: expected two training records or more"):
        ParetoCascade(unfitted(models), [1, 2, 3], folds=1000).fit(X, y)
    with pytest.raises(InputError, match="two models"):
        ParetoCascade({"one": models["tree"]}, [1]).fit(X, y)


@pytest.mark.parametrize("word", ["order", "answer", "abstain", "calibrate"])
def test_a_word_that_is_none_of_its_key_is_refused(word):
    with pytest.raises(InputError, match=f"^{word}: expected one of .*; found True$"):
        CascadeProblem(made_up(2, 9, 0), **{word: True})


@pytest.mark.parametrize("abstain", ["last", "early"])
def test_an_estimator_that_may_abstain_does_and_scores_its_answers(abstain):
    X, y, models = fitted(2)
    names = np.array(["red", "green"])[y]
    cascade = ParetoCascade(unfitted(models), COSTS, abstain=abstain).fit(
        X[250:400], names[250:400]
    )
    front = cascade.front_
    assert front["coverage"].min() < 0.8 < front["coverage"].max()
    assert front["conclusive_accuracy"].max() > front["accuracy"].max()
    model = cascade.choose("coverage<=0.8", "conclusive_accuracy")
    said, weights = model.predict(X[400:]), np.arange(100) % 3
    answered = said != None  # noqa: E711
    assert 0 < answered.sum() < 100
    right = (said == names[400:]) * weights
    assert model.score(X[400:], names[400:], weights) == right.sum() / weights[answered].sum()


def _functions(models):
    """Return the models as functions: one that is quick, one that is async and slower."""

    def quick(records):
        return models["stump"].predict_proba(np.asarray(records))

    async def slow(records):
        await asyncio.sleep(0.02)
        return models["tree"].predict_proba(np.asarray(records))

    return quick, slow


def test_functions_are_models():
    X, y, models = fitted()
    quick, slow = _functions(models)
    given = {"quick": quick, "slow": CalledModel(slow, batch=100)}
    cascade = ParetoCascade(given, {"quick": 1, "slow": 9}).fit(X[250:], y[250:])
    known = {"quick": models["stump"], "slow": models["tree"]}
    twin = ParetoCascade(known, {"quick": 1, "slow": 9}).fit(X[250:], y[250:])
    pd.testing.assert_frame_equal(cascade.front_, twin.front_)
    np.testing.assert_array_equal(cascade.predict(X), twin.predict(X))
    assert cascade.model_.bare().policy == cascade.model_.policy_
    with pytest.raises(InputError, match="what a call of each model costs"):
        ParetoCascade(given, folds=2).fit(X, y)


def test_a_call_that_fails_or_is_late_is_made_again_and_then_left():
    X, _, models = fitted()
    tries = []

    def failing(records):
        tries.append(len(records))
        if len(tries) % 2:
            raise ConnectionError
        return models["tree"].predict_proba(records)

    model = CalledModel(failing, [0, 1, 2], retries=1, batch=100, at_once=1)
    np.testing.assert_array_equal(model.predict_proba(X), models["tree"].predict_proba(X))
    assert tries == [100] * 10

    def stuck(records):
        if records[0, 0] == X[100, 0]:
            time.sleep(20)
        return models["tree"].predict_proba(records)

    start = time.perf_counter()
    late = CalledModel(stuck, [0, 1, 2], retries=1, batch=100, timeout=0.3)
    found = late.predict_proba(X)
    assert time.perf_counter() - start < 10
    assert np.isnan(found).all(axis=1).nonzero()[0].tolist() == list(range(100, 200))
    with pytest.raises(InputError, match="100 failed"):
        late.predict(X)


@pytest.mark.parametrize(
    ("answer", "reason"),
    [
        (ConnectionError("401 no such key"), "ConnectionError: 401 no such key"),
        (SystemExit(), r"RuntimeError: SystemExit\(\)"),
        (asyncio.CancelledError(), "CancelledError"),
        ([[0.9, 0.9, 0.9]], "probabilities from 0 to 1 that add up to 1, found others"),
        ([[0.5, 0.5]], r"of shape \(\d+, 2\) where \(\d+, 3\) was"),
    ],
)
@pytest.mark.parametrize("waits", [True, False])
def test_a_fit_ends_at_the_first_call_that_fails_and_says_why(answer, reason, waits):
    X, y, models = fitted()
    tries = []

    def call(records):
        tries.append(len(records))
        if isinstance(answer, BaseException):
            raise answer
        return answer * len(records)

    async def slow_call(records):
        await asyncio.sleep(0.01)
        return call(records)

    if waits and isinstance(answer, SystemExit):
        pytest.skip("it ends an event loop")
    model = CalledModel(slow_call if waits else call, retries=2, batch=10, at_once=2)
    cascade = ParetoCascade({"stump": models["stump"], "called": model}, {"stump": 1, "called": 9})
    with pytest.raises(InputError, match=rf"'called': .* a call failed 3 times, .*{reason}"):
        cascade.fit(X[250:], y[250:])
    assert len(tries) <= 12  # of three tries of each of the 20 batches of a fold or more


def test_an_object_or_a_function_that_returns_a_coroutine_is_awaited():
    class Client:
        async def __call__(self, records):
            return [[0.25, 0.75]] * len(records)

    for call in (Client(), lambda records: Client()(records)):
        answers = CalledModel(call, [0, 1]).predict_proba(np.zeros((2, 1)))
        assert answers.tolist() == [[0.25, 0.75]] * 2


@pytest.mark.parametrize("answer", ["own", "cumulative_mean", "vote"])
def test_records_whose_calls_failed_go_to_the_next_model(answer):
    """Against the reference evaluator, record by record; failures are counted as calls."""
    X, _, models = fitted()
    lost = {"a": {1, 5, 6}, "b": {0, 5}, "c": {5, 7}}
    parts = dict(zip("abc", models.values(), strict=True))

    def of(name):
        def call(records):
            if int(records[0, -1]) in lost[name]:
                raise ConnectionError
            return parts[name].predict_proba(records[:, :-1])

        return CalledModel(call, [0, 1, 2], retries=0, batch=1)

    records = np.column_stack([X[:40], np.arange(40)])
    policy = Policy(tuple("abc"), (0.7, 0.8, -np.inf), (None, 0.4, None), answer, classes=(0, 1, 2))
    model = CascadeClassifier.of_policy(
        {n: of(n).fit(X, [0, 1, 2]) for n in "abc"}, policy, [0, 1, 2]
    )
    found = model.predict_table(pd.DataFrame(records))
    failed = dict.fromkeys("abc", 0)
    for r, row in enumerate(found.itertuples()):

        def ask(name, r=r):
            if r in lost[name]:
                failed[name] += 1
                return None
            p = parts[name].predict_proba(X[r : r + 1])[0].astype(np.float32).astype(float).tolist()
            return p if answer == "cumulative_mean" else (int(np.argmax(p)), max(p))

        label, _, _, asked = reference.decide(policy.to_json(), ask)
        assert (label is None and pd.isna(row.label)) or label == row.label
        assert row.calls == len(asked)
    assert model.failures_ == failed
    assert failed["a"] == 3


def test_a_budget_is_kept_in_so_many_resamples():
    X, y, models = fitted()
    cascade = ParetoCascade(unfitted(models), COSTS, folds=3).fit(X, y)
    problem = cascade.problem_
    level = problem.stages[0,].level
    X = np.array([[cut, 0, 1] for cut in range(1, level.max() + 2)])
    weights = Resamples(problem.outcomes(X), 0).weights
    for budget in (2.1, 4.0, 5.6):  # just above what one costs
        costs = np.array([1 + 9 * (level < cut) for cut in X[:, 0]])
        often = (costs @ weights / len(level) <= budget).mean(axis=1)
        kept = [problem.policy(x).policy.promises["cost"]["budget"] <= budget for x in X]
        np.testing.assert_array_equal(kept, often >= 0.95)
        assert 0 < sum(kept) < (costs.mean(axis=1) <= budget).sum()
    plain = cascade.set_budget(4).model_.policy_.promises["cost"]["claimed"]
    assert cascade.set_budget(4, sure=95).model_.policy_.promises["cost"]["claimed"] <= plain <= 4
    with pytest.raises(InputError, match=r"sure: no solution meets cost<=0\.5 .* is cost<=1"):
        cascade.set_budget(0.5, sure=95)
    with pytest.raises(InputError, match="between 0 and 100"):
        cascade.set_budget(3, sure=100)


@pytest.mark.slow
def test_latency_is_what_was_promised():
    """One record a call: the 95% quantile that the policy promises, and what a clock says."""
    X, y, models = fitted()

    def after(name, seconds):
        async def call(records):
            await asyncio.sleep(seconds)
            return models[name].predict_proba(records)

        return CalledModel(call, [0, 1, 2])

    given = {"stump": after("stump", 0.02), "tree": after("tree", 0.1)}
    cascade = ParetoCascade(given, {"stump": 20, "tree": 100})
    cascade.fit(X[250:], y[250:])
    half = len(cascade.problem_.stages[0,].cuts) // 2
    cascade.model_ = cascade._model_of(np.array([half + 1, 1]), cascade.problem_)
    taken = []
    for r in range(60):
        start = time.perf_counter()
        cascade.predict(X[r : r + 1])
        taken.append(1000 * (time.perf_counter() - start))
    promised = cascade.model_.policy_.promises["p95_cost"]["claimed"]
    assert promised <= np.quantile(taken, 0.95) <= 1.5 * promised
