"""Mixtures of a front's solutions: the linear programme, the command, and the exported model."""

import json
import re
from itertools import combinations, permutations

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from framework.analysis.choose import with_trivial
from framework.analysis.mixtures import expect_mixture, mix
from framework.analysis.ranges import Spread, promised
from framework.analysis.resamples import Resamples
from framework.batch import Evaluated
from framework.capabilities import TrivialClassifier
from framework.errors import InputError
from framework.front import Front
from framework.outcomes import RecordOutcomes, weighted_sums
from framework.pareto import nondominated
from framework.roles import Metric, Objective, Roles
from tests.command import call
from tests.conftest import examples

METRICS = (
    Metric("misses", "min", mixes=True),
    Metric("alarms", "min", mixes=True),
    Metric("gain", "max", mixes=True),
    Metric("worst", "min"),
)


def front_of(values: np.ndarray) -> Front:
    n = len(values)
    roles = Roles(METRICS, [Objective("misses", "min"), Objective("alarms", "min")])
    columns = {m.name: column for m, column in zip(METRICS, values.T, strict=True)}
    return Front(Evaluated(np.arange(n), np.zeros((n, 1)), columns, {}), roles, ("gene",))


def best_pair(values: np.ndarray, limit: float) -> float:
    """Return the least expected first column with the second at most ``limit``: all pairs tried."""
    goal, bound = values[:, 0], values[:, 1]
    found = [g for g, b in zip(goal, bound, strict=True) if b <= limit]
    for i, j in combinations(range(len(values)), 2):
        if (bound[i] <= limit) != (bound[j] <= limit):
            share = (limit - bound[j]) / (bound[i] - bound[j])
            found.append(share * goal[i] + (1 - share) * goal[j])
    return min(found)


@given(seed=st.integers(0, 2**20), n=st.integers(1, 8), unit=st.sampled_from((1e-9, 1, 1e9)))
@examples(60)
def test_the_best_mixture_is_that_of_the_best_pair(seed, n, unit):
    limit, *values = np.random.default_rng(seed).random(1 + 4 * n) * unit
    values = np.reshape(values, (n, 4))
    limit = max(float(limit), float(values[:, 1].min()))
    found = mix(front_of(values), best="misses", where=[f"alarms<={limit!r}"])
    assert len(found.positions) <= 2
    assert found.chances.sum() == pytest.approx(1)
    assert found.expected["alarms"] <= limit + 1e-7 * unit
    best = best_pair(values, limit)
    assert found.expected["misses"] == pytest.approx(best, abs=1e-7 * unit)
    assert "worst" not in found.expected


@pytest.mark.parametrize("limits", [["alarms<=0.6"], ["alarms<=1"], ["alarms<=0.6", "gain<=1"]])
def test_no_mixture_is_as_good_and_better_in_another_objective(limits):
    always, poor, good = [0, 1, 1, 0], [0, 0.5, 1, 0], [0, 0.2, 1, 0]
    values = np.array([[1, 0, 0, 0], always, poor, good])
    for order in permutations(range(4)):
        best = mix(front_of(values[list(order)]), best="misses", where=limits)
        assert best.positions.tolist() == [order.index(3)]
    idle = front_of(np.array([[0.3, 0, 1, 0], [0.3, 0.9, 1, 0]]))
    assert mix(idle, best="misses", where=["alarms<=0.5"]).positions.tolist() == [0]
    best = mix(front_of(values), best="misses", where=["alarms<=0.1"])
    np.testing.assert_allclose(best.chances, 0.5)
    assert best.positions.tolist() == [0, 3]


def test_metrics_to_maximise_are_maximised():
    values = np.array([[0.1, 0.9, 0.2, 0], [0.9, 0.1, 0.8, 0]])
    assert mix(front_of(values), best="gain").positions.tolist() == [1]
    half = mix(front_of(values), best="misses", where=["gain==0.5"])
    np.testing.assert_allclose(half.chances, 0.5)


@pytest.mark.parametrize(
    ("best", "where", "sentence"),
    [
        ("mises", [], "found 'mises', did you mean 'misses'"),
        ("worst", [], "metric whose values mix (misses, alarms, gain), found 'worst'"),
        ("misses", ["alarms<0.5"], "expected >=, <= or == for a mixture, found alarms<0.5"),
        ("misses", ["alarms<=0.05"], "the solutions have alarms from 0.1 to 0.9"),
    ],
)
def test_what_cannot_be_mixed_is_said(best, where, sentence):
    values = np.array([[0.1, 0.9, 0.2, 0], [0.9, 0.1, 0.8, 0]])
    with pytest.raises(InputError) as error:
        mix(front_of(values), best=best, where=where)
    assert sentence in str(error.value).replace("; did", ", did")


class Rates(RecordOutcomes):
    """Candidates that miss records, or raise alarms, by lot; no two are equal."""

    def __init__(self):
        super().__init__(40, 50, ["misses", "alarms", "gain", "worst"])
        rng = np.random.default_rng(3)
        skill = rng.uniform(0.1, 0.6, (4, 40, 1))
        self.planes = (rng.random((4, 40, 50)) < skill) * rng.integers(900, 1100, (4, 40, 50))

    def metrics(self, weights, candidates=slice(None), names=None):
        planes = self.planes[:, candidates]
        sums = (weighted_sums(plane, weights) for plane in planes)
        return dict(zip(self.names, (s / (1000 * weights.sum(axis=0)) for s in sums), strict=True))


class Never(RecordOutcomes):
    """One candidate that misses every third record."""

    def __init__(self):
        super().__init__(1, 50, [metric.name for metric in METRICS])

    def metrics(self, weights, candidates=slice(None), names=None):
        misses = weights[::3].sum(axis=0, keepdims=True) / weights.sum(axis=0)
        nothing = dict.fromkeys(self.names, np.zeros(misses.shape))
        return {**nothing, "misses": misses}


@pytest.mark.parametrize("counted", [False, True])
@pytest.mark.parametrize(("operator", "limit"), [("<=", 0.2), ("==", 0.3), ("<=", 0.04)])
def test_what_to_expect_of_a_mixture_is_that_of_mixtures_found_anew(operator, limit, counted):
    outcomes = Rates()
    resamples = Resamples(outcomes, 1, 60)
    never = TrivialClassifier("never", 0, (0, 1), {"misses": 1, "alarms": 0, "gain": 0, "worst": 0})
    where = [f"alarms{operator}{limit}"]

    def front(weights, ids=None):
        values = {n: v[:, 0] for n, v in outcomes.metrics(weights[:, None]).items()}
        whole = front_of(np.stack(list(values.values()), axis=1))
        values = {n: v[0, 0] for n, v in Never().metrics(weights[:, None]).items()}
        one = never._replace(values=values) if counted else never
        return with_trivial(whole if ids is None else whole.take(ids), [one])

    everyone = np.ones(50)
    ids = np.flatnonzero(nondominated(front(everyone).losses[:-1]))
    own = front(everyone, ids)
    mixture = mix(own, best="misses", where=where)
    of, unmet = expect_mixture(
        resamples, own, ids, mixture, "misses", where,
        trivial=[never._replace(outcomes=Never())] if counted else (),
    )  # fmt: skip
    all_records = front(everyone)
    gains, figures = [], []
    for weights in resamples.weights.T:
        drawn = front(weights)
        again = mix(drawn, best="misses", where=where)
        there, here = drawn.rows.values, all_records.rows.values
        gains.append(again.chances @ (there["misses"] - here["misses"])[again.positions])
        at = np.append(ids, 40)[mixture.positions]
        figures.append(mixture.chances @ there["misses"][at])
    spread = Spread(np.var(figures), 50, (0.0, 1.0), 0.5)
    wanted = promised(mixture.expected["misses"], np.array(gains), METRICS[0], spread)
    assert tuple(of["misses"]) == pytest.approx(tuple(wanted))
    assert unmet == 0
    assert set(of) == {"misses", "alarms", "gain"}


CONFIG = """
name: mixed
problem:
  kind: network
  dataset: {sklearn: breast_cancer}
  hidden: [3]
  training: {epochs: 3}
  thresholds: 0  # else the trivial classifiers are solutions of the front
objectives:
  - {metric: false_positive_rate, sense: min}
  - {metric: false_negative_rate, sense: min}
  - {metric: complexity, sense: min}
algorithm: {kind: fch_emoa, population: 20, batch: 20}
budget: {evaluations: 600}
workers: serial
"""


@pytest.mark.slow
def test_a_mixture_is_chosen_exported_and_asked(tmp_path):
    def paretolab(*arguments):
        return call(*arguments, cwd=tmp_path, env={"PARETOLAB_CACHE": str(tmp_path / "cache")})

    (tmp_path / "mixed.yaml").write_text(CONFIG)
    assert paretolab("run", "mixed.yaml", "--out", "run", "--no-mlflow", "--quiet").code == 0
    assert (tmp_path / "run" / "plots" / "hull.png").is_file()
    assert (tmp_path / "run" / "plots" / "rates.png").is_file()
    front = pd.read_csv(tmp_path / "run" / "front.csv")
    limit = float(np.sort(front["false_positive_rate"].unique())[:2].mean())
    where = ["--where", f"false_positive_rate=={limit}", "--best", "false_negative_rate"]
    done = paretolab("choose", "run", "--mix", *where, "--export", "model")
    assert done.code == 0, done.err
    assert "The mixture on new records" in done.out
    assert re.search(r"false_negative_rate +.* to ", done.out)
    assert "A randomised mixture of" in (tmp_path / "model" / "README.md").read_text()
    assert paretolab("predict", "model", "model/example.csv", "--out", "answers.csv").code == 0
    assert set(pd.read_csv(tmp_path / "answers.csv")) == {"label", "confidence", "member"}
    again = ["choose", "run", "--mix", *where[:2], "--best", "complexity", "--export", "model"]
    assert "expected a new directory" in paretolab(*again).err
    assert paretolab("choose", "run", "--mix", *where, "--export", "model").code == 0
    told = json.loads(paretolab("choose", "run", "--mix", *where, "--json").out)["metrics"]
    assert set(told["false_negative_rate"]) == {"claimed", "expected", "low", "high", "test"}
    assert None not in told["false_negative_rate"].values()
    refused = paretolab("choose", "run", "--mix", "--best", "complexity", "--id", "3")
    assert refused.code == 2
    assert "--id: cannot go with --mix" in refused.err
    # below the least rate of the front: lots between a solution and "always negative"
    low = float(front["false_negative_rate"].min())
    where = ["--where", f"false_negative_rate=={(1 + low) / 2}", "--best", "false_positive_rate"]
    done = paretolab("choose", "run", "--mix", *where, "--export", "half")
    assert done.code == 0, done.err
    assert "always negative" in done.out
    assert "| Always benign |" in (tmp_path / "half" / "README.md").read_text()
    assert paretolab("predict", "half", "half/example.csv").code == 0

    # hardly any positives, and connections cost: nothing is worth its cost
    costs = ["--costs", "fp=1,fn=1", "--prior", "0.001", "--per-unit", "complexity=0.5"]
    done = paretolab("choose", "run", *costs, "--export", "never")
    assert done.code == 0, done.err
    assert "no solution is chosen: 'always negative' (benign) costs least, 0.001 a " in done.out
    assert "always positive" in done.out
    assert not (tmp_path / "run" / "chosen.json").exists()
    readme = (tmp_path / "never" / "README.md").read_text()
    assert readme.startswith("# Always benign")
    assert "; the best solution, " in readme
    assert paretolab("predict", "never", "never/example.csv", "--out", "never.csv").code == 0
    assert set(pd.read_csv(tmp_path / "never.csv")["label"]) == {"benign"}
    assert paretolab("choose", "run", *costs, "--register", "x").code == 2
    dear = paretolab("choose", "run", "--costs", "fp=1,fn=1", "--prior", "0.4")
    assert "chosen (*): solution" in dear.out
