"""Metrics of cascades against a slow, obvious twin, record by record."""

import itertools
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from algorithms.cascade import reference
from algorithms.cascade.config import CascadeConfig
from algorithms.cascade.problem import CascadeProblem
from algorithms.cascade.stages import calibrated, consensus_of, pool_weights
from framework.analysis.ranges import promised, spreads
from framework.analysis.resamples import Resamples
from framework.errors import InputError
from framework.libraries.calls import CallTable
from framework.outcomes import resample_weights
from tests import made_up_libraries
from tests.cascade.tables import calls_of, cascades, made_up

ERRORS = {"a": {"b": 5.0, "c": 2.0}, "b": {"a": 1.0}}


def twin(problem, table, x, limit):
    """Return the metrics of a genome, asked of a table record by record."""
    policy = problem.decoded(x)
    rows = []
    whole = table.costs["cost"].fixed
    always = 0 if whole is None else sum(whole[table.ids.index(m)] for m in policy.models) / 1e9
    for r in range(table.n):
        asked, paid, late, answered, said = 0, always, 0.0, False, None
        for j, name in enumerate(policy.models):
            m = table.ids.index(name)
            asked += 1
            paid += table.costs["cost"].values[m, r] / 1e9
            late += table.costs["latency_ms"].values[m, r] / 1e9
            sure = table.confidence[m, r]
            if policy.accept[j] == -np.inf or sure >= policy.accept[j]:
                answered, said = True, table.labels[table.answers[m, r]]
                break
            if policy.refuse[j] is not None and not sure >= policy.refuse[j]:
                break
        true = table.labels[table.truth[r]]
        error = ERRORS.get(true, {}).get(said, 0.0) if answered else 0.5
        rows.append((asked, paid, late, answered, said == true, paid > limit, error))
    columns = [np.array(column) for column in zip(*rows, strict=True)]
    n_asked, cost, latency, answers, right, above, errors = columns
    n = table.n
    return {
        "accuracy": right.mean(),
        "conclusive_accuracy": right.sum() / max(answers.sum(), 1),
        "coverage": answers.mean(),
        "models_asked": n_asked.mean(),
        "chain_length": len(policy.models),
        "cost": cost.mean(),
        "latency_ms": latency.mean(),
        "p95_cost": np.sort(cost)[int(np.ceil(0.95 * n)) - 1],
        "over_limit": above.mean(),
        "error_cost": errors.mean(),
    }


FIXED = {"cost": [0.0005, 0.0, 0.002, 0.0013]}


@pytest.mark.parametrize(("order", "fixed"), [("price", None), ("free", None), ("price", FIXED)])
@pytest.mark.parametrize("abstain", ["no", "last", "early"])
@pytest.mark.parametrize("tied", [True, False])
def test_metrics_are_those_of_asking_one_record_at_a_time(tied, order, fixed, abstain):
    """Untied, the confidences of test records lie between those of the others."""
    calls, test = (made_up(4, n, s, tied=tied, fixed=fixed) for n, s in ((50, 1), (33, 2)))
    problem = CascadeProblem(
        calls, test=test, order=order, abstain=abstain, limit=0.006, errors=ERRORS, no_answer=0.5
    )
    X = problem.space.sample(np.random.default_rng(0), 40)
    values, tested = problem.evaluate(X), problem.evaluate_test(X)
    for i, x in enumerate(X):
        for found, table in ((values, calls), (tested, test)):
            for name, wanted in twin(problem, table, x, 0.006).items():
                assert found[name][i] == pytest.approx(wanted, abs=1e-12), name


@pytest.mark.parametrize("limit", [3.0, 3.5, 5.5, 6.0])
def test_a_limit_may_lie_between_multiples_of_the_common_divisor_of_the_costs(limit):
    calls = made_up(3, 30, 0)
    prices = np.array([2, 4, 6], dtype=np.int64)[:, np.newaxis] * 10**9
    flat = calls.costs["cost"]._replace(values=np.broadcast_to(prices, (3, 30)).copy())
    problem = CascadeProblem(replace(calls, costs={"cost": flat}), limit=limit)
    X = problem.space.sample(np.random.default_rng(0), 40)
    found = problem.evaluate(X)
    asked = [problem.answers(x[np.newaxis]).paid["cost"][0] * 2.0 for x in X]
    assert found["over_limit"].tolist() == [float((paid > limit).mean()) for paid in asked]
    assert {0.0, 1.0} & set(found["over_limit"].tolist())


@pytest.mark.parametrize("fixed", [None, FIXED])
def test_prices_by_model_say_what_a_record_can_cost(fixed):
    calls = made_up(3, 30, 0)
    prices = np.broadcast_to(np.array([[10**9], [3 * 10**9], [40 * 10**9]]), (3, 30))
    always = None if fixed is None else np.array([10**9, 0, 5 * 10**9])
    flat = calls.costs["cost"]._replace(values=prices.copy(), fixed=always)
    costs = dict(calls.costs, cost=flat)
    problem = CascadeProblem(replace(calls, costs=costs), errors=ERRORS, no_answer=0.5)
    metrics = {metric.name: metric for metric in problem.metrics}
    assert metrics["latency_ms"].ends == (0.0, np.inf)
    X = problem.space.sample(np.random.default_rng(0), 40)
    answers, ends = problem.answers(X), problem.outcomes(X).ends(np.arange(40))
    assert set(ends) >= {"cost", "models_asked", "error_cost"}
    assert {*zip(*ends["error_cost"], strict=True)} == {(0.0, 5.0)}
    assert "latency_ms" not in ends  # it differs by call
    for i, x in enumerate(X):
        chain = [calls.ids.index(name) for name in problem.decoded(x).models]
        part = 0 if always is None else always[chain].sum()
        least, most = part + prices[chain[0], 0], part + prices[chain, 0].sum()
        assert [end[i] for end in ends["cost"]] == [least / 1e9, most / 1e9]
        assert [end[i] for end in ends["models_asked"]] == [1, len(chain)]
        paid = answers.paid["cost"][i] * answers.scale["cost"]
        assert least / 1e9 <= paid.min() <= paid.max() <= most / 1e9


@pytest.mark.parametrize("n", [100, 400])
def test_what_95_percent_do_not_exceed_may_be_what_those_pay_who_go_on(n):
    """If 3% go on, more than 5% of new records may: a sure limit has to count on it."""
    confidence = np.vstack([np.arange(n) / n, np.full(n, 1.0)])
    prices = {"cost": np.array([[1.0], [25.0]]) * np.ones((2, n))}
    right = np.arange(n) % 10 > 0
    calls = CallTable.from_arrays(["cheap", "dear"], np.vstack([right, ~right]), confidence, prices)
    problem = CascadeProblem(calls)
    X = np.array([[n * 3 // 100 + 1, 1]])
    outcomes = problem.outcomes(X)
    resamples = Resamples(outcomes, 0)
    metrics = {metric.name: metric for metric in problem.metrics}
    drawn = resamples.metrics(np.arange(1))
    (spread,) = spreads(resamples, np.arange(1), drawn, metrics)["p95_cost"]
    claimed = problem.evaluate(X)["p95_cost"].item()
    assert claimed == 1.0
    assert promised(claimed, np.zeros(9), metrics["p95_cost"], spread) == (1.0, 1.0, 1.0, 26.0)


def test_outcomes_under_weights_are_those_of_repeated_records():
    problem = cascades(k=3, n=40, limit=0.004)
    X = problem.space.sample(np.random.default_rng(0), 15)
    weights = resample_weights(np.arange(40), 4, np.random.default_rng(1))
    found = problem.outcomes(X).metrics(weights)
    assert {"accuracy", "cost", "p95_cost", "over_limit"} <= set(found)
    plain = problem.outcomes(X).metrics(np.ones((40, 1)))
    for name, column in problem.evaluate(X).items():
        np.testing.assert_array_equal(plain[name][:, 0], column)
    values = problem.evaluate(X)
    moved = found["accuracy"] - values["accuracy"][:, None]
    np.testing.assert_allclose(
        found["calibrated_accuracy"], values["calibrated_accuracy"][:, None] + moved
    )
    for b in range(4):
        rows = np.repeat(np.arange(40), weights[:, b].astype(int))
        chosen = [problem.decoded(x) for x in X]
        table = problem.calls.take(rows)
        for i, policy in enumerate(chosen):
            paid = np.zeros(len(rows))
            waiting = np.ones(len(rows), dtype=bool)
            for name, accept in zip(policy.models, policy.accept, strict=True):
                m = table.ids.index(name)
                paid += np.where(waiting, table.costs["cost"].values[m] / 1e9, 0)
                waiting &= ~((table.confidence[m] >= accept) | (accept == -np.inf))
            assert found["cost"][i, b] == pytest.approx(paid.mean())
            assert found["p95_cost"][i, b] == pytest.approx(np.sort(paid)[37])


def test_calibrated_outcomes_are_a_logistic_regression_on_the_ranks():
    from scipy.stats import rankdata
    from sklearn.linear_model import LogisticRegression

    table = made_up(4, 200, 3, tied=True)
    ranks = (rankdata(table.confidence, axis=1) - 0.5) / 200
    features = np.log(ranks / (1 - ranks)).T
    for right in table.right:
        model = LogisticRegression(max_iter=2000, tol=1e-9).fit(features, right)
        wanted = 10 * model.predict_proba(features)[:, 1]
        assert abs(calibrated(table.confidence, right) - wanted).max() <= 0.5 + 1e-5
    assert set(calibrated(table.confidence, np.ones(200, bool))) == {10}


def test_a_configuration_makes_it(tmp_path):
    table = made_up(3, 20)
    frame = pd.DataFrame(
        {
            f"{name}:{what}": values
            for m, name in enumerate(table.ids)
            for what, values in (
                ("correct", table.right[m].astype(int)),
                ("confidence", table.confidence[m]),
                ("cost", table.costs["cost"].values[m] / 1e9),
            )
        }
    )
    frame.to_csv(tmp_path / "calls.csv", index=False)
    plain = {"calls": {"path": str(tmp_path / "calls.csv"), "models": ["m2", "m0"]}, "limit": 0.01}
    problem = CascadeProblem.from_config(CascadeConfig.model_validate(plain))
    assert problem.calls.ids == ("m0", "m2")  # by price
    assert "over_limit" in problem.metric_names
    with pytest.raises(ValueError, match="found neither"):
        CascadeConfig.model_validate({"calls": {}})
    with pytest.raises(InputError, match="leave measure out"):
        CascadeProblem.from_config(
            CascadeConfig.model_validate({**plain, "measure": {"kind": "holdout"}})
        )


def test_a_consensus_is_the_best_pool_of_the_other_folds():
    table = made_up(3, 60, 4)
    logs = np.log(np.clip(table.probabilities.astype(float), 0.01, 0.99))
    others = np.arange(60) % 5 != 2

    def loss(weights, bias):
        """Return the penalised loss, spelled out record by record."""
        total = 0.5 * sum((w - 1 / 3) ** 2 for w in weights)
        for r in np.flatnonzero(others):
            sums = [sum(weights[m] * logs[m, r, c] for m in range(3)) + bias[c] for c in range(3)]
            total -= sums[table.truth[r]] - np.log(sum(np.exp(s) for s in sums))
        return total

    weights, bias = pool_weights(logs[:, others], table.truth[others])
    best = loss(weights, bias)
    for move in np.random.default_rng(0).normal(scale=0.02, size=(20, 6)):
        assert loss(weights + move[:3], bias + move[3:]) > best - 1e-6
    found = consensus_of(table.probabilities, table.truth, None)
    sums = np.einsum("m,mc->c", weights, logs[:, 7]) + bias
    np.testing.assert_allclose(found[7], np.exp(sums) / np.exp(sums).sum(), rtol=1e-9)
    np.testing.assert_allclose(found.sum(axis=1), 1)
    # a record's own class, and those of its group, say nothing of it
    truth, groups = table.truth.copy(), np.arange(60) // 6
    truth[6:12] = (truth[6:12] + 1) % 3
    pair = [consensus_of(table.probabilities, y, groups)[6:12] for y in (table.truth, truth)]
    np.testing.assert_array_equal(*pair)
    assert np.isfinite(consensus_of(table.probabilities, table.truth, np.zeros(60, int))).all()


@pytest.mark.parametrize("answer", ["own", "cumulative_mean", "vote"])
def test_answers_count_half_as_they_were_and_half_by_the_consensus(answer):
    table = made_up(3, 50, 2)
    problem = CascadeProblem(table, answer=answer, calibrate="consensus")
    told = consensus_of(table.probabilities, table.truth, None)
    whole = CascadeProblem(table, answer=answer)
    assert problem.fingerprint != whole.fingerprint
    for x in problem.space.sample(np.random.default_rng(0), 6):
        values = problem.evaluate(x[None])
        said = twin_answers(problem, x)
        right = said == table.truth
        wanted = np.rint(5 * (told[np.arange(50), said] + right)).mean() / 10
        assert values["calibrated_accuracy"][0] == pytest.approx(wanted)
        assert values["accuracy"][0] == whole.evaluate(x[None])["accuracy"][0] == right.mean()


def twin_answers(problem, x):
    """Return the position of each record's answer, by the reference evaluator."""
    bare, table = problem.policy(x).policy, problem.calls
    said = []
    for r in range(table.n):
        label = reference.decide(bare.to_json(), calls_of(table, problem.answer, r))[0]
        said.append(table.labels.index(label))
    return np.array(said)


def test_a_library_is_measured_as_the_problem_says(monkeypatch):
    asked = []

    def obtain(section, where):
        asked.append(section.build)
        raise InputError("enough")

    monkeypatch.setattr("framework.libraries.build.obtain_library", obtain)
    build = {"name": "two", "dataset": {"sklearn": "iris"}}
    for measure in ({"kind": "holdout"}, {"kind": "cross_validation", "folds": 3}):
        plain = {"calls": {"library": {"build": build}}, "measure": measure}
        with pytest.raises(InputError, match="enough"):
            CascadeProblem.from_config(CascadeConfig.model_validate(plain))
    assert asked[0].split.validation == 1 / 3
    assert (asked[1].split.validation, asked[1].folds) == (None, 3)


def flat(table, models):
    sure = table.confidence.copy()
    sure[models] = 0.5
    costs = {name: cost.values / 1e9 for name, cost in table.costs.items()}
    return type(table).from_arrays(table.ids, table.right, sure, costs)


def free_and_right(table):
    costs = {name: cost.values / 1e9 for name, cost in table.costs.items()}
    right = table.right.copy()
    right[0], costs["cost"][0] = True, 0
    return type(table).from_arrays(table.ids, right, table.confidence, costs)


@pytest.mark.parametrize(
    ("make", "options", "sentence"),
    [
        (lambda t: t.only(["m1"]), {}, "two models"),
        (lambda t: flat(t, [0, 1]), {}, "all equal within each model but 'm2'"),
        (free_and_right, {}, "'m0' is right on every record"),
        (lambda t: flat(t, []), {"answer": "cumulative_mean"}, "take own"),
        (lambda t: flat(t, []), {"answer": "vote"}, "take own"),
        (lambda t: flat(t, []), {"calibrate": "consensus"}, "take confidences"),
        (lambda t: t, {"errors": {"z": {"a": 1.0}}}, "found 'z'"),
        (lambda t: flat(t, []), {"errors": ERRORS}, "with answers"),
        (lambda t: flat(t, []), {"rates": ["matthews"]}, "problem.rates: .* with answers"),
        (lambda t: t, {"rates": ["recall"]}, "expected recall:CLASS"),
        (lambda t: t, {"rates": ["recall:z"]}, "found 'recall:z'"),
        (lambda t: replace(t, right=~t.right), {"rates": ["matthews"]}, "found 30 records where"),
        (
            lambda t: made_up(3, 30, labels=[*"abc", *range(98)], probabilities=None),
            {"rates": ["matthews"]},
            "up to 100 classes, found 101",
        ),
    ],
)
def test_what_nothing_can_be_chosen_of_is_refused(make, options, sentence):
    with pytest.raises(InputError, match=sentence):
        CascadeProblem(make(made_up(3, 30)), **options)


def test_every_gene_means_what_its_threshold_says():
    """A gene of 1 always answers, one above the number of confidences never does."""
    problem = cascades(k=2, n=25, abstain="last")
    never = len(problem.stages[0,].cuts) + 1
    X = np.array(list(itertools.product([1, never], [1])), dtype=np.int32)
    assert problem.evaluate(X)["models_asked"].tolist() == [1.0, 2.0]
    assert problem.decoded(X[1]).accept[1] == -np.inf


@pytest.mark.parametrize("more", [{"errors": {"a": {"b": 1e8}}}, {"errors": {}, "no_answer": 1e12}])
def test_costs_of_errors_whose_sum_has_no_room_are_refused(more):
    with pytest.raises(
        InputError, match=r"problem\..*expected a cost from 0 to 5\.76e\+07.*found 1e"
    ):
        cascades(**more)
    assert cascades(errors={"a": {"b": 5e7}}).metrics[-1].high == 5e7


def test_answers_that_only_test_records_have_are_no_missing_ones():
    calls = made_up(3, 30, 0)
    others = made_up(3, 30, 1, answers=np.full((3, 30), "z"), labels=[*"abcz"], probabilities=None)
    problem = CascadeProblem(calls, test=others, errors={"a": {"z": 1.0}}, no_answer=9.0)
    tested = problem.evaluate_test(problem.space.sample(np.random.default_rng(0), 3))
    assert set(tested["error_cost"]) == {(others.truth == 0).mean()}


def test_records_that_a_library_repeats_are_counted_once():
    library = replace(made_up_libraries.made_up(3), folds=5, repeats=2, records=30)
    about = CascadeProblem(made_up(3, 60), library=library).describe()
    assert (about["records"], about["out_of_fold"], about["models"]) == (70, 30, 3)
    assert "2 times" in about["measure"]


def independent(n, seed):
    """Return calls of three models whose errors have nothing in common."""
    rng = np.random.default_rng(seed)
    ease = rng.normal([[0.3], [1.0], [1.8]], 1.2, (3, n))
    sure = np.abs(ease) * np.where(ease > 0, 1.0, 0.3) + rng.normal(0, 0.3, (3, n))
    prices, ids = {"cost": [1.0, 5.0, 20.0]}, [f"{seed}-{i}" for i in range(n)]
    return CallTable.from_arrays(["a", "b", "c"], ease > 0, sure, prices, records=ids)


def test_ranges_of_calibrated_accuracy_hold_though_the_regression_is_wrong():
    """What a logistic regression on ranks expects is off by up to 4 points here."""
    name = "calibrated_accuracy"
    problem = CascadeProblem(independent(2_000, 1), test=independent(30_000, 0))
    X = problem.space.sample(np.random.default_rng(1), 60)
    resamples, every = Resamples(problem.outcomes(X), 0, 100), np.arange(len(X))
    metrics = {metric.name: metric for metric in problem.metrics}
    claimed, truth = (of[name] for of in (problem.evaluate(X), problem.evaluate_test(X)))
    found = spreads(resamples, every, resamples.metrics(every), metrics)[name]
    assert max(abs(claimed - truth)) > 0.03

    def holds(i, spread):
        range_of = promised(claimed[i], np.zeros(9), metrics[name], spread)
        return range_of.low <= truth[i] <= range_of.high

    assert np.mean([holds(i, found[i]) for i in every]) >= 0.95
    assert np.mean([holds(i, found[i]._replace(offset=0.0)) for i in every]) < 0.8
