"""Rates by class and subgroup against scikit-learn, subgroup by subgroup; and in every family."""

import warnings

import numpy as np
import pandas as pd
import pytest
from sklearn import metrics

from algorithms.cascade.config import CascadeConfig
from algorithms.cascade.problem import CascadeProblem
from algorithms.ensembling.problem import EnsembleProblem
from algorithms.hull.data import NetworkConfig
from algorithms.hull.network import NetworkProblem
from algorithms.pruning.problem import PruningConfig, PruningProblem
from framework.analysis.resamples import Resamples
from framework.answers import AnswerOutcomes, Answers, Records, measured
from framework.data.divisions import Subgroups, subgroups_in
from framework.errors import InputError
from framework.experiment.config import check
from framework.libraries.calls import CallTable
from framework.measures import _COEFFICIENTS, Ratio, each_once, rates
from tests.made_up_libraries import made_up
from tests.multistage.data import genomes, problem_of

LABELS = ["ill", "not so well", "well"]
COMPARED = {"coverage": "coverage", "accuracy": "accuracy"}
BY_CLASS = ["precision", "recall", "f1", "false_positive_rate", "false_negative_rate"]


def rate(kind, of, frame):
    """Return one rate of the records with an answer (right: of all), as scikit-learn has it."""
    if kind == "coverage":
        return np.average(frame["said"] >= 0, weights=frame["w"]) if frame["w"].sum() else 0.0
    frame = frame[((frame["said"] >= 0) | (kind == "right")) & (frame["w"] > 0)]
    if frame.empty:
        return 0.0
    true, said, w = frame["true"], frame["said"], frame["w"]
    if kind in ("accuracy", "right"):
        return metrics.accuracy_score(true, said, sample_weight=w)
    if kind == "matthews":
        return metrics.matthews_corrcoef(true, said, sample_weight=w)
    known = {"sample_weight": w, "zero_division": 0.0}
    if kind in ("precision", "recall", "f1"):
        score = getattr(metrics, f"{kind}_score")
        return score(true == of, said == of, **known)
    if kind == "false_positive_rate":
        return metrics.recall_score(true != of, said == of, **known)
    return metrics.recall_score(true == of, said != of, **known)


def about(kind, of, frame):
    """Tell whether a subgroup has records that a rate is about, answered or not."""
    frame = frame[frame["w"] > 0]
    if kind in ("precision", "recall", "f1", "false_negative_rate"):
        return bool((frame["true"] == of).any())
    if kind == "false_positive_rate":
        return bool((frame["true"] != of).any())
    return len(frame) > 0


def expected(names, classes, positive, frame, compared=COMPARED):
    """Return all metrics by name; ``frame`` has true, said, subgroup, w."""
    kinds = {}
    for name in names:
        kind, _, label = name.partition(":")
        kinds[name] = kind, classes.index(label.replace("_", " ")) if label else positive
    found = {name: rate(*share, frame) for name, share in kinds.items()}
    usual = {name: (kind, -1) for name, kind in compared.items()}
    if positive >= 0:
        usual |= {k: (k, positive) for k in ("false_positive_rate", "false_negative_rate")}
    else:
        usual |= {f"recall:{c.replace(' ', '_')}": ("recall", i) for i, c in enumerate(classes)}
    for name, (kind, of) in (usual | kinds).items():
        values = [rate(kind, of, g) for _, g in frame.groupby("subgroup") if about(kind, of, g)]
        stem, colon, label = name.partition(":")
        worse = max if kind.startswith("false") else min
        found[f"{stem}_difference{colon}{label}"] = max(values) - min(values)
        found[f"worst_subgroup_{stem}{colon}{label}"] = worse(values)
    return found


@pytest.mark.quick(1)
@pytest.mark.parametrize("k", [2, 3])
def test_rates_of_weighted_records_are_those_of_scikit_learn(k):
    rng = np.random.default_rng(k)
    n, classes = 90, LABELS[:k]
    names = [f"{kind}:{classes[-1]}".replace(" ", "_") for kind in BY_CLASS] + ["matthews"]
    positive = 1 if k == 2 else -1
    if k == 2:
        names += ["precision", "recall"]
    truth, codes = rng.integers(0, k, n), rng.integers(0, 3, n)
    truth[codes == 2] = 0  # a subgroup of one class
    said = rng.integers(-1, k, (3, n))
    said[1] = np.where(codes == 1, -1, truth)
    said[2] = -1
    weights = np.stack([np.ones(n), rng.integers(0, 4, n)], axis=1)
    measures = rates(names, classes, positive, list("abc"), COMPARED)
    records = Records(truth, tuple(classes), positive, subgroups=codes, subgroup_names=tuple("abc"))
    found = measured(Answers(records, said), measures, weights)
    assert list(found) == [measure.metric.name for measure in measures]
    for i in range(3):
        for b in range(2):
            frame = pd.DataFrame(
                {"true": truth, "said": said[i], "subgroup": codes, "w": weights[:, b]}
            )
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                twin = expected(names, classes, positive, frame)
            for name, value in twin.items():
                assert found[name][i, b] == pytest.approx(value, abs=1e-12), (name, i, b)
    for metric in (measure.metric for measure in measures):
        assert metric.low <= found[metric.name].min() <= found[metric.name].max() <= metric.high


def test_matthews_coefficient_is_as_sure_as_the_figure_of_the_rarest_class():
    codes = np.repeat([0, 1], [30, 10])  # the subgroup of each record; 3 and 4 of them are ill
    ill = np.r_[np.arange(30) < 3, np.arange(10) < 4].astype(np.int64)
    records = Records(ill, ("well", "ill"), 1, subgroups=codes, subgroup_names=("f", "m"))
    measures = rates(["matthews"], ["well", "ill"], 1, ["f", "m"])
    outcomes = AnswerOutcomes.of(measures, Answers(records, np.zeros((1, 40), dtype=np.int64)))
    shares = outcomes.figures(np.ones((40, 1)))[1]
    assert shares["matthews"][0, 0] == 7 / 40
    assert shares["worst_subgroup_matthews"][0, 0] == 3 / 40
    assert shares["matthews_difference"][0, 0] == 3 / 40


def test_what_cannot_be_a_rate_is_said():
    cases = {
        "precison": "found 'precison'; did you mean 'precision'",
        "recall:will": "expected a class of the data",
        "recall": "expected recall:CLASS, since no class is the positive one",
        "matthews:ill": "found 'matthews:ill'",
    }
    for name, text in cases.items():
        with pytest.raises(InputError, match=text):
            rates([name], LABELS)


def test_classes_of_equal_names_are_told_apart():
    measures = rates(["recall:>50K", "recall:_50K_1"], ["<=50K", ">50K"], subgroups=["f", "m"])
    about = [list(rate.about) for rate in measures[:2] if isinstance(rate, Ratio)]
    assert about == [[False, True], [True, False]]
    assert len({measure.metric.name for measure in measures}) == len(measures)
    # of accuracy and of each class's recall: the difference of subgroups, and the worst one
    assert len(rates([], ["a b", "a_b", "a_b_2"], subgroups=["f", "m"])) == 2 * (1 + 3)


@pytest.mark.parametrize(
    ("values", "text"),
    [
        (["a", "a", "b"], "one of 'b': no rate follows from it"),
        (["a", "a", None], "found 1 without one, the first in record 3"),
        (["a", "a"], "expected 2 to 50 subgroups in 'sex', found 1"),
        (list(range(51)) * 2, "found 51"),
    ],
)
def test_subgroups_that_cannot_be_compared_are_refused(values, text):
    with pytest.raises(InputError, match=text):
        subgroups_in(pd.Series(values, name="sex"))


def agree(problem, X, said, truth, subgroups, names, compared=COMPARED):
    """Compare the metrics of test records with those of answers that something else gave."""
    found = problem.evaluate_test(X, None)
    records = problem.records("test")
    for i, row in enumerate(said):
        frame = pd.DataFrame({"true": truth, "said": row, "subgroup": subgroups, "w": 1})
        classes = [str(c) for c in records.classes]
        twin = expected(names, classes, records.positive, frame, compared)
        for name, value in twin.items():
            if name in problem.metric_names:
                assert found[name][i] == pytest.approx(value, abs=1e-12), name
    outcomes = problem.outcomes(X)
    ones = outcomes.metrics(np.ones((outcomes.records, 1)))
    assert tuple(ones) == outcomes.names == problem.metric_names
    for name, column in problem.evaluate(X, None).items():
        assert np.array_equal(ones[name][:, 0], column, equal_nan=True), name
    same = [c.values for c in problem.trivial_classifiers()]
    same += [
        {k: v[0, 0] for k, v in a.outcomes.metrics(np.ones((outcomes.records, 1))).items()}
        for a in problem.alternatives()
    ]
    assert all(set(values) == set(problem.metric_names) for values in same)


def halves(n, seed=0):
    return np.random.default_rng(seed).integers(0, 2, n)


@pytest.mark.quick(1)
@pytest.mark.parametrize("classes", [2, 3])
def test_ensembles(classes):
    library = made_up(k=5, n=60, m=50, classes=classes, seed=classes)
    subgroups = [Subgroups(("a", "b"), halves(n, n)) for n in (60, 50)]
    names = ["precision:no", "f1:yes", "matthews"]
    problem = EnsembleProblem(library, score=["accuracy"], rates=names, subgroups=subgroups)
    X = problem.space.sample(np.random.default_rng(0), 8)
    P = np.einsum("nk,k...->n...", X / X.sum(axis=1, keepdims=True), library.test.astype(float))
    said = (P > 0.5).astype(int) if classes == 2 else P.argmax(axis=2)
    agree(problem, X, said, library.y_test, subgroups[1].codes, names)
    X[0] = 0
    assert np.isnan(problem.evaluate(X)["matthews"]).tolist() == [True] + [False] * 7


@pytest.mark.quick(1)
@pytest.mark.parametrize("positive", ["no", "yes"])
def test_prunings(positive):
    library = made_up(k=5, n=60, m=50)
    subgroups = [Subgroups(("a", "b"), halves(n, n)) for n in (60, 50)]
    names = ["precision", "f1", "matthews"]
    problem = PruningProblem(library, positive=positive, rates=names, subgroups=subgroups)
    X = problem.space.sample(np.random.default_rng(0), 8)
    code = library.classes.index(positive)
    votes = (library.test > 0.5) == (code == 1)
    called = X[:, :-1] @ votes > X[:, -1:]
    said = np.where(called, code, 1 - code)
    agree(problem, X, said, library.y_test, subgroups[1].codes, names)
    X[0, :-1] = 0
    assert np.isnan(problem.evaluate(X)["matthews"][0])


def kappa(counts):
    """Return Cohen's kappa of counts (K, K, n, b) by true and predicted class."""
    total, right = counts.sum(axis=(0, 1)), np.trace(counts)
    chance = (counts.sum(axis=0) * counts.sum(axis=1)).sum(axis=0) / np.maximum(total, 1)
    return np.where(total > chance, (right - chance) / np.maximum(total - chance, 1e-9), 0.0)


@pytest.mark.quick(1)
@pytest.mark.parametrize("family", ["cascade", "ensemble", "multistage", "network", "pruning"])
def test_a_metric_that_is_added_in_one_place_is_one_of_every_family(family, divided, monkeypatch):
    monkeypatch.setitem(_COEFFICIENTS, "kappa", ("agreement beyond chance", kappa))
    library, more = made_up(k=4, n=60, m=50), {"rates": ["kappa"]}
    parts = [CallTable.of(library, part) for part in ("validation", "test")]
    about = {"path": str(divided), "target": "two", "drop": ["label"], "positive": "low"}
    network = {"dataset": about, "split": {"part": "part"}, "hidden": [3], **more}
    problem = {
        "cascade": lambda: CascadeProblem(parts[0], test=parts[1], abstain="last", **more),
        "ensemble": lambda: EnsembleProblem(library, score=["accuracy"], **more),
        "multistage": lambda: stages_of(divided, **more),
        "network": lambda: NetworkProblem.from_config(check(NetworkConfig, network, "problem")),
        "pruning": lambda: PruningProblem(library, **more),
    }[family]()
    X = problem.space.sample(np.random.default_rng(0), 6)
    found, answers = problem.evaluate_test(X)["kappa"], problem.answers(X, "test")
    for value, row in zip(found, answers.codes, strict=True):
        said = row >= 0
        twin = metrics.cohen_kappa_score(answers.records.labels[said], row[said])
        assert value == pytest.approx(twin, abs=1e-12)
    drawn = Resamples(problem.outcomes(X), 0).metrics(np.arange(6))["kappa"]
    of = {metric.name: metric for metric in problem.metrics}["kappa"]
    assert ((drawn >= of.low) & (drawn <= of.high)).all()
    assert (drawn.std(axis=1) > 0).any()


@pytest.mark.quick(1)
@pytest.mark.parametrize("classes", [2, 3])
def test_cascades(classes):
    library = made_up(k=5, n=60, m=50, classes=classes, seed=classes)
    calls, test = (CallTable.of(library, part) for part in ("validation", "test"))
    names = ["precision:no", "f1:yes", "matthews"] + ["recall"] * (classes == 2)
    about = {"rates": names, "positive": "no" if classes == 2 else None}
    about["subgroups"] = [Subgroups(("a", "b"), halves(n, n)) for n in (60, 50)]
    errors = {"no": {"yes": 2.0}, "yes": {"no": 1.0}}
    problem = CascadeProblem(calls, test=test, abstain="early", errors=errors, **about)
    X = problem.space.sample(np.random.default_rng(0), 8)
    test, said = problem.test, np.full((8, 50), -1)
    for x, row in zip(X, said, strict=True):
        policy, waiting = problem.decoded(x), np.ones(50, dtype=bool)
        for name, accept, refuse in zip(policy.models, policy.accept, policy.refuse, strict=True):
            m = test.ids.index(name)
            sure = waiting & ((test.confidence[m] >= accept) | (accept == -np.inf))
            row[sure] = test.answers[m, sure]
            waiting &= ~sure & (refuse is None or test.confidence[m] >= refuse)
    compared = {"accuracy": "right", "conclusive_accuracy": "accuracy", "coverage": "coverage"}
    agree(problem, X, said, test.truth, about["subgroups"][1].codes, names, compared)
    further = {"worst_subgroup_precision:no", *(f"{name}_difference" for name in compared)}
    assert further <= {*problem.metric_names}
    assert problem.truth()[1] == library.classes
    for trivial, cost in zip(problem.trivial_classifiers(), (1.0, 0.5), strict=classes == 2):
        shown = {"accuracy": 0.5, "calibrated_accuracy": 0.5, "error_cost": cost, "memory": 0.0}
        assert {name: trivial.values[name] for name in shown} == shown


def made_of(folder, **more):
    """Return a problem of calls.csv and later.csv in a folder, which tell only what is right."""
    files = {"path": str(folder / "calls.csv"), "test": str(folder / "later.csv")}
    section = {"calls": files, "subgroup": "site", **more}
    return CascadeProblem.from_config(check(CascadeConfig, section, "problem"))


def rights(n, seed, sites):
    rng = np.random.default_rng(seed)
    frame = pd.DataFrame(
        {"record": [f"{seed} {i}" for i in range(n)], "site": rng.choice(sites, n)}
    )
    for m, skill in enumerate([0.5, 0.7, 0.9]):
        frame[f"m{m}:correct"] = (rng.random(n) < skill).astype(int)
        frame[f"m{m}:confidence"] = rng.random(n).round(2)
        frame[f"m{m}:cost"] = float(2**m)
    return frame


@pytest.mark.quick(1)
@pytest.mark.parametrize("layout", ["wide", "long"])
def test_subgroups_of_a_table_that_tells_only_what_is_right(layout, tmp_path):
    """Sites that one of two tables lacks have one name in both; 07 is no 7."""
    for name, frame in {
        "calls": rights(60, 1, ["07", "7", "b"]),
        "later": rights(50, 2, ["7", "c", "b"]),
    }.items():
        table = frame
        if layout == "long":
            of_model = [
                frame[["record", "site"]].assign(
                    model=f"m{m}",
                    **{k: frame[f"m{m}:{k}"] for k in ("correct", "confidence", "cost")},
                )
                for m in range(3)
            ]
            of_model[1]["site"] = None  # one row of a record is enough, as for groups
            table = pd.concat(of_model)
        table.to_csv(tmp_path / f"{name}.csv", index=False)
    problem = made_of(tmp_path, abstain="last")
    plain = made_of(tmp_path, abstain="last", subgroup=None)
    names = plain.metric_names
    assert problem.metric_names[: len(names)] == names
    more = ["accuracy", "conclusive_accuracy", "coverage"]
    both = [*(f"{name}_difference" for name in more), *(f"worst_subgroup_{name}" for name in more)]
    assert list(problem.metric_names[len(names) :]) == both
    assert problem.fingerprint != plain.fingerprint
    assert problem.truth() is None
    X = problem.space.sample(np.random.default_rng(0), 8)
    parts = [(problem.evaluate(X), "search", 1, 60), (problem.evaluate_test(X), "test", 2, 50)]
    for values, part, seed, n in parts:
        sites = rights(n, seed, [["07", "7", "b"], ["7", "c", "b"]][seed - 1])["site"].to_numpy()
        for i, codes in enumerate(problem.answers(X, part).codes):
            of = {site: codes[sites == site] for site in set(sites)}
            right = [(c == 0).mean() for c in of.values()]
            answered = [(c >= 0).mean() for c in of.values()]
            sure = [(c == 0).sum() / max((c >= 0).sum(), 1) for c in of.values()]
            for name, shares in zip(more, (right, sure, answered), strict=True):
                assert values[f"worst_subgroup_{name}"][i] == pytest.approx(min(shares))
                gap = max(shares) - min(shares)
                assert values[f"{name}_difference"][i] == pytest.approx(gap, abs=1e-12)


@pytest.mark.parametrize(
    ("subgroup", "change", "sentence"),
    [
        ("sight", {}, "problem.subgroup: .*'sight'"),
        ("record", {}, "problem.subgroup: expected a column beside record and truth"),
        ("site", {"site": ["a"] * 29 + [None]}, "calls.csv: .*'site'.* 30"),
        ("site", {"site": ["a"] * 29 + ["c"]}, "found one of 'c'"),
        ("site", {"site": [*map(str, range(25))] * 2}, "2 to 50 subgroups in 'site', found 52"),
    ],
)
def test_subgroups_that_a_table_of_calls_lacks_are_refused(subgroup, change, sentence, tmp_path):
    rows = len(change.get("site", range(30)))
    rights(rows, 1, ["a", "b"]).assign(**change).to_csv(tmp_path / "calls.csv", index=False)
    later = [f"site {i}" for i in range(27)] if rows == 50 else ["a", "b"]
    rights(200, 2, later).to_csv(tmp_path / "later.csv", index=False)
    with pytest.raises(InputError, match=sentence):
        made_of(tmp_path, subgroup=subgroup)


def test_a_library_that_is_read_has_no_subgroups(tmp_path):
    section = {"calls": {"library": {"path": str(tmp_path)}}, "subgroup": "site"}
    with pytest.raises(
        InputError, match=r"together with problem\.calls\.library\.build, found a lib"
    ):
        CascadeProblem.from_config(check(CascadeConfig, section, "problem"))


@pytest.fixture(scope="module")
def divided(tmp_path_factory):
    """Write a table with subgroups, and a column that says which records are for testing."""
    n, rng = 300, np.random.default_rng(3)
    frame = pd.DataFrame(rng.normal(size=(n, 4)), columns=["a", "b", "c", "d"])
    frame["colour"] = rng.choice(["red", "green", "blue"], n)
    score = frame["a"] + frame["b"] + (frame["colour"] == "red") + 0.5 * rng.normal(size=n)
    frame["label"] = np.where(score < -0.5, "low", np.where(score < 1, "middle", "high"))
    frame["side"] = rng.choice(["left", "right", "middle"], n, p=[0.6, 0.3, 0.1])
    frame["two"] = np.where(frame["label"] == "low", "low", "other")
    frame["part"] = rng.choice(["train", "validation", "test"], n)
    path = tmp_path_factory.mktemp("rates") / "divided.csv"
    frame.to_csv(path, index=False)
    return path


def stages_of(file, label="label", **more):
    dataset = {
        "path": str(file),
        "target": label,
        "drop": ["side", {"label": "two"}.get(label, "label")],
    }
    return problem_of(file, dataset=dataset, split={"part": "part"}, subgroup="side", **more)


def check_stages(problem, file, rates, label="label"):
    frame = pd.read_csv(file)
    frame = frame[frame["part"] == "test"]
    codes = {str(name): code for code, name in enumerate(problem.classes)}
    X, names = genomes(problem, 4), list(problem.feature_names)
    said = [[codes.get(str(s), -1) for s in problem.decode(x).predict(frame[names])] for x in X]
    subgroups = frame["side"].map({"left": 0, "middle": 1, "right": 2}).to_numpy()
    agree(problem, X, np.array(said), frame[label].map(codes).to_numpy(), subgroups, rates)


@pytest.mark.quick(1)
@pytest.mark.parametrize(
    ("measure", "decision"),
    [("holdout", None), ("cross_validation", {"errors": {"low": 5}, "no_answer": 0.5})],
    ids=str,
)
def test_stages_of_several_classes(divided, measure, decision):
    more = {"rates": ["precision:low", "f1:middle", "false_positive_rate:high", "matthews"]}
    if decision is not None:
        more |= {"decision": decision, "threshold": None}
    problem = stages_of(divided, measure={"kind": measure}, **more)
    assert problem.data.codes == 2
    check_stages(problem, divided, more["rates"])


def test_stages_of_two_classes(divided):
    problem = stages_of(divided, "two", rates=["precision:low", "recall"])
    assert problem.data.codes == 0
    check_stages(problem, divided, ["precision:low", "recall"], "two")


def test_bits_say_the_class_only_where_a_metric_needs_it(divided):
    assert stages_of(divided, rates=["recall:low"]).data.codes == 0


def test_networks(tmp_path):
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(rng.normal(size=(200, 3)), columns=list("abc"))
    frame["sex"] = rng.choice(["f", "m"], 200)
    frame["y"] = np.where(frame["a"] + (frame["sex"] == "f") + rng.normal(size=200) > 0.5, "x", "n")
    frame.to_csv(tmp_path / "t.csv", index=False)
    raw = {
        "dataset": {"path": str(tmp_path / "t.csv"), "target": "y", "positive": "n"},
        "hidden": [3],
        "training": {"epochs": 10},
        "thresholds": 8,
        "rates": ["precision", "f1:x", "matthews"],
        "subgroup": "sex",
        "split": {"train": 0.3, "validation": 0.3, "test": 0.4},
    }
    problem = NetworkProblem.from_config(check(NetworkConfig, raw, "problem"))
    X = problem.space.sample(np.random.default_rng(0), 6)
    called = problem._answers(X, problem.test)
    truth = problem.test.positive.astype(int)  # the classes are x and n
    agree(problem, X, called.astype(int), truth, problem.records("test").subgroups, raw["rates"])
    assert problem.design.shape[1] == 5  # the subgroup is a feature, of two columns


def test_a_subgroup_of_a_library_is_a_column_of_the_data_that_it_is_built_of():
    raw = {"library": {"path": "somewhere"}, "subgroup": "sex"}
    config = check(PruningConfig, raw, "problem")
    with pytest.raises(InputError, match=r"expected together with problem.library.build"):
        PruningProblem.from_config(config)


def test_a_rate_that_is_asked_for_twice_is_there_once():
    twice = rates(["f1:ill", "f1:ill", "f1:well"], LABELS)
    names = [measure.metric.name for measure in each_once(twice[2:], twice)]
    assert names == ["f1:well", "f1:ill"]
