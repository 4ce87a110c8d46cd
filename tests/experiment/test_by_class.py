"""Sums over the records of each class against ``choose``, which has the records themselves."""

from __future__ import annotations

import numpy as np
import pytest

from framework.experiment import by_class as module
from framework.experiment.by_class import MEAN, OF_SOME, SAME, UNKNOWN, by_class, read_by_class
from framework.experiment.choice import Anew, RunSource
from framework.experiment.config import check_config
from framework.experiment.execute import Options, execute
from framework.experiment.expected import class_weights
from framework.experiment.run_dir import RunDir
from framework.pareto import nondominated
from tests.command import small

SETTINGS = {
    "confidence": {},
    "groups of features": {
        "problem__costs": {
            "values": [1, 2, 3, 4, 5, 6.5],
            "groups": {"pair": {"cost": 4, "features": ["f1", "f6"]}},
        },
        "problem__error_costs": {"0": 3, "1": 0.5},
        "problem__remove_features": True,
        "constraints": [{"metric": "coverage", "at_least": 0.3}],
    },
    "costs": {
        "problem__decision": {"errors": {"0": 8, "1": 1}, "no_answer": 0.6},
        "objectives": [{"metric": "risk", "sense": "min"}, {"metric": "cost", "sense": "min"}],
    },
}
WORDS = [
    {},
    {"shares": {"0": 0.9, "1": 0.1}},
    {"prices": {"f2": 0.0, "f4": 30.5}},
    {"shares": {"0": 0.004, "1": 0.996}, "prices": {"f1": 2.25, "f6": 1e-3}},
]


@pytest.fixture(scope="module", params=SETTINGS)
def run_dir(request, tmp_path_factory):
    folder = tmp_path_factory.mktemp("by class")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PARETOLAB_CACHE", str(folder / "cache"))
        (folder / "run").mkdir()
        raw = small(**SETTINGS[request.param])
        if "decision" in raw["problem"]:
            del raw["problem"]["threshold"]
        config = check_config(raw, folder / "run" / "config.yaml")
        made = RunDir(folder / "run")
        execute(config, made, Options(None, False, lambda line: None, plots=False))
        yield made


def twin(kept, metrics, anew):
    """Return every metric that follows of each design, by loops over designs and classes."""
    each = [1] * len(kept.labels)
    if anew.shares is not None:
        units = max(2**24, 2**16 * kept.counts.sum())
        each = [
            max(round(anew.shares[label] / count * units), 1)
            for label, count in zip(kept.labels, kept.counts.tolist(), strict=True)
        ]
    total = sum(w * n for w, n in zip(each, kept.counts.tolist(), strict=True))
    more = np.zeros(len(kept.ids))
    for f, (name, price) in enumerate(kept.stakes.prices.items()):
        change = (anew.prices or {}).get(name, price) - price
        for i, step in enumerate(kept.steps[:, f].tolist()):
            if step >= 0:
                more[i] += change * sum(
                    w * int(n) for w, n in zip(each, kept.reached[step, :, i], strict=True)
                )
    found = {}
    for number, name in enumerate(metrics):
        kind = kept.kinds[number]
        if kind in (MEAN, OF_SOME):
            sums = sum(w * of.astype(float) for w, of in zip(each, kept.sums[number], strict=True))
            if kind == MEAN:
                found[name] = (sums + more * (name in kept.stakes.priced)) / total
            else:
                below = int(kept.below[number])
                answered = sum(
                    w * of.astype(float) for w, of in zip(each, kept.sums[below], strict=True)
                )
                found[name] = sums / np.maximum(answered, 1)
        elif kind == SAME or anew.shares is None:
            found[name] = kept.same[number]
    return found


@pytest.mark.parametrize("words", WORDS, ids=["as searched", "shares", "prices", "both"])
def test_designs_weighed_anew_are_the_front_that_choose_makes(run_dir, words):
    anew, source = Anew(**words), RunSource(run_dir)
    front = source.again(anew)
    kept = read_by_class(run_dir, run_dir.front().roles)
    assert kept.evaluated == len(kept.ids) == len(source.evidence().ids)
    metrics = list(front.roles.metrics)
    found = {name: np.round(of, 12) for name, of in twin(kept, metrics, anew).items()}
    assert len(metrics) - len(found) <= 1  # but F1, of another kind
    at = np.searchsorted(kept.ids, front.ids)
    for name, column in found.items():
        np.testing.assert_allclose(column[at], front.rows.values[name], rtol=1e-11, atol=1e-11)
    losses = front.roles.losses(found)
    able = np.flatnonzero(front.roles.violation(found) == 0)
    assert set(kept.ids[able[nondominated(losses[able])]]) == set(front.ids)


def test_of_many_designs_those_of_the_front_are_kept(run_dir, monkeypatch):
    source, front = RunSource(run_dir), run_dir.front()
    found = source.evidence()
    monkeypatch.setattr(module, "_MOST", len(found.ids) - 1)
    kept = by_class(source.problem(), front, found)
    assert kept.ids.tolist() == front.ids.tolist()
    assert kept.evaluated == len(found.ids)
    monkeypatch.setattr(module, "_MOST", len(front) - 1)
    assert by_class(source.problem(), front, found) is None
    monkeypatch.undo()
    monkeypatch.setattr(module, "_MOST_CLASSES", 1)
    assert by_class(source.problem(), front, found) is None
    monkeypatch.undo()
    monkeypatch.setattr(module, "_VALUES", 1)
    kept = by_class(source.problem(), front, found)
    assert kept.steps is None
    assert len(kept.ids) == len(found.ids)


def test_kinds_are_tried_and_not_trusted(run_dir, monkeypatch):
    """Where ``choose`` counts records otherwise, nothing is said to be a mean."""
    source, front = RunSource(run_dir), run_dir.front()
    monkeypatch.setattr(
        "framework.experiment.by_class.class_weights",
        lambda *of: class_weights(*of) * (np.arange(len(class_weights(*of))) % 3 + 1),
    )
    kept = by_class(source.problem(), front, source.evidence())
    assert kept is None or not np.isin(kept.kinds, (MEAN, OF_SOME)).any()


def test_what_is_damaged_is_none(run_dir):
    roles, file = run_dir.front().roles, run_dir.by_class_file
    whole = file.read_bytes()
    kept = dict(np.load(file))
    try:
        for change in (
            {"counts": kept["counts"] * 0},
            {"counts": kept["counts"][:-1]},
            {"kinds": kept["kinds"] + 4},
            {"kinds": kept["kinds"][:-1]},
            {"below": kept["below"] + 1},
            {"sums_0": kept["sums_0"][:, :-1]},
            {"sums_0": kept["sums_0"] * np.nan},
            {"steps": kept["steps"] + 100},
            {"prices": kept["prices"][:-1]},
            {"labels": kept["labels"][:1]},
            {"ids": np.array(["<script>"] * len(kept["ids"]))},
            {"errors": kept["errors"][:-1]},
            {"reached": kept["reached"].astype("U5")},
        ):
            np.savez(file, **{**kept, **change})
            assert read_by_class(run_dir, roles) is None, change
        for left_out in ("no_answer", "sums_1", "reached"):
            np.savez(file, **{name: of for name, of in kept.items() if name != left_out})
            assert read_by_class(run_dir, roles) is None, left_out
        file.write_bytes(whole[: len(whole) // 2])
        assert read_by_class(run_dir, roles) is None
        file.unlink()
        assert read_by_class(run_dir, roles) is None
    finally:
        file.write_bytes(whole)
    assert set(read_by_class(run_dir, roles).kinds) <= {UNKNOWN, MEAN, OF_SOME, SAME}
