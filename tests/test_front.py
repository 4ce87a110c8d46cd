"""Fronts, Pareto layers and indicators against their slow twins."""

import moocore
import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from framework.batch import Evaluated
from framework.errors import InputError
from framework.front import (
    Archive,
    Failures,
    Front,
    columns_of,
    csv_of,
    expected_columns,
    why_empty,
)
from framework.pareto import hypervolume, igd_plus, nondominated, pareto_layers
from framework.roles import Constraint, Metric, Objective, Roles
from framework.testing.tools import same_front
from tests import oracles

METRICS = (
    Metric("a", "max"),
    Metric("b", "min", "ratio", high=4.0),
    Metric("c", "max"),
    Metric("d", "min"),
)


def roles(m, *constraints):
    return Roles(METRICS, [Objective(x.name, x.sense) for x in METRICS[:m]], constraints)


def points(m, max_size=14, levels=5):
    """Losses on a coarse grid, so that ties and duplicates are common."""
    values = st.integers(0, levels - 1).map(lambda i: i / (levels - 1))
    size = st.integers(1, max_size)
    return size.flatmap(lambda n: arrays(np.float64, (n, m), elements=values))


def loss(row, metric):
    return row.values[metric.name] * (-1 if metric.sense == "max" else 1)


@st.composite
def batches(draw):
    """Rows in batches; some fail, many tie."""
    sizes = draw(st.lists(st.integers(1, 6), min_size=1, max_size=5))
    rng = np.random.default_rng(draw(st.integers(0, 10**6)))
    told, first = [], 0
    for n in sizes:
        ids = np.arange(first, first + n)
        failed = rng.random(n) < 0.2
        values = {m.name: np.where(failed, np.nan, rng.integers(0, 5, n) / 4) for m in METRICS}
        errors = dict.fromkeys(ids[failed].tolist(), "failed")
        told.append(Evaluated(ids, rng.random((n, 2)), values, errors))
        first += n
    return told


@given(st.integers(1, 4).flatmap(points))
def test_nondominated(losses):
    assert nondominated(losses).tolist() == oracles.nondominated(losses)


def test_nondominated_of_nothing():
    assert nondominated(np.zeros((0, 3))).shape == (0,)


# few distinct values: many ties and many equal rows
populations = st.tuples(st.integers(1, 30), st.integers(1, 4)).flatmap(
    lambda shape: st.tuples(
        arrays(np.float64, shape, elements=st.integers(0, 4).map(float)),
        arrays(np.float64, shape[0], elements=st.sampled_from([0.0, 0.0, 0.0, 0.5, 2.0])),
    )
)


@given(populations)
def test_layers_are_those_of_peeling(population):
    losses, violation = population
    assert pareto_layers(losses, violation).tolist() == oracles.peel(losses, violation)


@given(st.integers(0, 1000))
def test_layers_of_continuous_losses(seed):
    rng = np.random.default_rng(seed)
    losses = rng.normal(size=(60, 3))
    assert pareto_layers(losses, np.zeros(60)).tolist() == oracles.peel(losses, np.zeros(60))


def test_no_rows_have_no_layers():
    assert len(pareto_layers(np.zeros((0, 2)), np.zeros(0))) == 0


def test_300_layers():
    losses = np.arange(300.0)[::-1, None].repeat(2, axis=1)
    assert pareto_layers(losses, np.zeros(300)).tolist() == list(range(300))[::-1]


@given(batches(), st.integers(1, 4))
def test_archive(told, m):
    constrained = roles(m, Constraint("d", at_most=0.5), Constraint("a", at_least=0.25))
    archive = Archive(constrained)
    seen = []
    for batch in told:
        before = [] if archive.rows is None else archive.rows.ids.tolist()
        changed = archive.update(batch)
        seen += list(batch)
        usable = [
            row
            for row in seen
            if row.error is None and row.values["d"] <= 0.5 and row.values["a"] >= 0.25
        ]
        signs = [-1 if metric.sense == "max" else 1 for metric in METRICS[:m]]
        losses = np.array(
            [
                [s * r.values[x.name] for s, x in zip(signs, METRICS[:m], strict=True)]
                for r in usable
            ]
        ).reshape(len(usable), m)
        wanted = [
            r.id for r, keep in zip(usable, oracles.nondominated(losses), strict=True) if keep
        ]
        found = [] if archive.rows is None else archive.rows.ids.tolist()
        assert found == wanted
        assert changed == (found != before)
        assert len(archive) == len(wanted)
        if found:
            assert np.array_equal(archive.losses, constrained.losses(archive.rows.values))
    same_front(
        Front.of(told, constrained, ("x", "y")),
        Front.of([Evaluated.concat(told)], constrained, ("x", "y")),
        "batch by batch and at once",
    )


@given(batches())
def test_save_and_load(tmp_path_factory, told):
    path = tmp_path_factory.mktemp("front") / "front.csv"
    front = Front.of(told, roles(3), ("x", "y"))
    rng = np.random.default_rng(0)
    test = {m.name: rng.random(len(front)) for m in METRICS}
    test["a"][:1] = np.nan  # a solution that could not be scored on test data
    settings = {"threshold": np.where(np.arange(len(front)) % 2, 0.5, np.nan)}
    full = Front(front.rows, front.roles, front.gene_names, test, settings=settings)
    for saved in (front, full):
        saved.save(path)
        loaded = Front.load(path, front.roles)
        same_front(saved, loaded, "saved and loaded")
        assert loaded.gene_names == ("x", "y")
        assert not len(front) or loaded.X.dtype == np.float64
        assert saved.settings.keys() == loaded.settings.keys()
        for name, column in saved.settings.items():
            assert np.array_equal(column, loaded.settings[name], equal_nan=True)
        assert (saved.test is None) == (loaded.test is None)
        for name, column in (saved.test or {}).items():
            assert np.array_equal(column, loaded.test[name], equal_nan=True)


@pytest.mark.parametrize("dtype", [np.int8, np.int64, np.float64])
def test_as_loaded_is_what_would_be_read(tmp_path, dtype):
    rng = np.random.default_rng(1)
    values = {m.name: rng.random(9) for m in METRICS} | {"a": np.arange(9) // 4}
    X = (9 * rng.random((9, 2))).astype(dtype)
    tested = {m.name: rng.random(9) for m in METRICS} | {"d": np.ones(9, dtype=np.int64)}
    for test in (None, tested):
        front = Front(Evaluated(np.arange(3, 12), X, values), roles(3), ("x", "y"), test)
        front.save(tmp_path / "front.csv")
        kept, loaded = front.as_loaded(), Front.load(tmp_path / "front.csv", front.roles)
        same_front(kept, loaded, "kept and loaded")
        assert kept.gene_names == loaded.gene_names
        assert kept.X.dtype == loaded.X.dtype
        for mine, read in ((kept.rows.values, loaded.rows.values), (kept.test, loaded.test)):
            assert (mine is None) == (read is None)
            for name, column in (mine or {}).items():
                assert column.dtype == read[name].dtype
                assert np.array_equal(column, read[name])


def test_what_to_expect_is_read_back_and_files_without_it_are_read(tmp_path):
    rng, path = np.random.default_rng(2), tmp_path / "front.csv"
    names = expected_columns([m.name for m in METRICS])
    expected = {column: rng.random(4) for own in names.values() for column in own}
    expected |= {"firm": np.array([1.0, 0.0, 1.0, 1.0]), "tied_with": np.array([3, 3, 5, 6])}
    rows = Evaluated(np.arange(3, 7), rng.random((4, 2)), {m.name: rng.random(4) for m in METRICS})
    for test in (None, {m.name: rng.random(4) for m in METRICS}):
        front = Front(rows, roles(2), ("x", "y"), test, expected)
        front.save(path)
        header = path.read_text().partition("\n")[0].split(",")
        assert header[-5:] == ["d_high", "firm", "tied_with", "gene_x", "gene_y"]
        for read in (Front.load(path, front.roles), front.as_loaded()):
            assert list(read.expected) == list(expected)
            for name, column in expected.items():
                assert read.expected[name].dtype == column.dtype
                assert np.array_equal(read.expected[name], column)
        found = read.promises(2)
        assert found["b"] == (rows.values["b"][2], *(expected[name][2] for name in names["b"]))
        assert read.take(np.array([0, 2])).promises(1) == found
        Front(rows, roles(2), ("x", "y"), test).save(path)
        plain = Front.load(path, front.roles)
        assert plain.expected is None
        assert plain.promises(2) == {}
        assert (plain.test is None) == (test is None)


def test_a_metric_keeps_its_column_beside_what_to_expect_of_another():
    assert expected_columns(["cost", "expected_cost"]) == {
        "expected_cost": ("expected_expected_cost", "expected_cost_low", "expected_cost_high")
    }


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        (None, r"front\.csv: expected a front"),
        (b"", r"front\.csv: expected a front, .*empty"),
        (b"id,a,b,c,d\n0.5,1,1,1,1\n", "whole numbers in column 'id'"),
        (b"id,a\n0,0.5\n", "column 'b'"),
        (b"id,a,b,c,d\n0,x,1,1,1\n", r"front\.csv: expected a front"),
        (b"\xff\xfe\x00", r"front\.csv: expected a front"),
    ],
)
def test_load_says_what_is_wrong(tmp_path, content, sentence):
    if content is not None:
        (tmp_path / "front.csv").write_bytes(content)
    with pytest.raises(InputError, match=sentence):
        Front.load(tmp_path / "front.csv", roles(2))


@given(st.integers(1, 3).flatmap(lambda m: points(m, max_size=6)))
def test_hypervolume(losses):
    reference = np.full(losses.shape[1], 0.9)
    assert hypervolume(losses, reference) == pytest.approx(oracles.hypervolume(losses, reference))


@pytest.mark.quick(1)
@pytest.mark.parametrize("m", [6, 8])
def test_hypervolume_of_many_objectives_is_close_and_grows_with_points(m):
    losses = np.random.default_rng(m).random((40, m))
    volumes = [hypervolume(losses[:n], np.ones(m)) for n in range(1, len(losses) + 1)]
    assert np.diff(volumes).min() >= 0.0
    exact = moocore.hypervolume(losses, ref=np.ones(m))
    assert volumes[-1] == pytest.approx(exact, rel=0.005)
    assert hypervolume(np.zeros((1, m)), np.ones(m)) == pytest.approx(1.0, rel=0.005)
    assert hypervolume(np.zeros((1, m)), np.ones(m)) <= 1.0


@given(points(3, max_size=6), points(3, max_size=6))
def test_distances_to_a_reference_set(losses, reference):
    assert igd_plus(losses, reference) == pytest.approx(oracles.igd_plus(losses, reference))


@pytest.mark.parametrize("indicator", [hypervolume, igd_plus])
def test_indicators_refuse_nonsense(indicator):
    good = np.array([[0.1, 0.2]])
    reference = np.ones(2) if indicator is hypervolume else np.ones((1, 2))
    assert np.isfinite(indicator(good, reference))
    with pytest.raises(InputError, match="found NaN in row 1"):
        indicator(np.array([[0.1, 0.2], [np.nan, 0.0]]), reference)
    with pytest.raises(InputError, match=r"reference.*found NaN"):
        indicator(good, reference * np.nan)
    with pytest.raises(InputError, match="at least one point"):
        indicator(np.zeros((0, 2)), reference)
    with pytest.raises(InputError, match=r"expected points with shape \(n, 2\)"):
        indicator(good, np.ones(3) if indicator is hypervolume else np.ones((1, 3)))


def test_hypervolume_of_an_archive_is_a_share_of_the_box():
    archive = Archive(roles(2))
    assert archive.hypervolume() == 0.0
    values = {"a": np.array([0.5]), "b": np.array([1.0]), "c": np.zeros(1), "d": np.zeros(1)}
    archive.update(Evaluated(np.arange(1), np.zeros((1, 2)), values))
    assert archive.hypervolume() == pytest.approx(0.5 * 0.75)


COLUMNS = {
    "id": np.array([3, -4, 2**62]),
    "gene_a, b": np.array([1, 0, 1], dtype=np.int8),
    'odd "name"': np.array([0.1 + 0.2, -0.0, 5e-324]),
    "holes": np.array([np.nan, 1e22, np.inf]),
}


def test_files_are_as_pandas_writes_them():
    assert csv_of(COLUMNS) == pd.DataFrame(COLUMNS).to_csv(index=False)
    empty = {name: column[:0] for name, column in COLUMNS.items()}
    assert csv_of(empty) == pd.DataFrame(empty).to_csv(index=False)


def test_numbers_come_back_exactly(tmp_path):
    path = tmp_path / "numbers.csv"
    path.write_text(csv_of(COLUMNS), encoding="utf-8")
    found = columns_of(path)
    assert list(found) == list(COLUMNS)
    for name, column in COLUMNS.items():
        wanted = column.astype(np.int64 if column.dtype.kind == "i" else np.float64)
        assert found[name].dtype == wanted.dtype
        assert found[name].tobytes() == wanted.tobytes()


@pytest.mark.parametrize("text", ["", "a,b\n1\n", "a,b\n1,2,3\n", "a\nx\n"])
def test_what_is_no_table_of_numbers_is_refused(tmp_path, text):
    path = tmp_path / "numbers.csv"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(ValueError, match=r"empty|rows|convert"):
        columns_of(path)


# --- why a front is empty ---------------------------------------------------------------------


def evaluated(first, errors=(), **values):
    n = len(next(iter(values.values())))
    columns = {metric.name: np.array(values.get(metric.name, [0.5] * n)) for metric in METRICS}
    ids = np.arange(first, first + n)
    for i, _ in errors:
        for column in columns.values():
            column[i - first] = np.nan
    return Evaluated(ids, np.zeros((n, 1)), columns, dict(errors))


def test_the_constraint_that_none_meets_is_told_with_the_best_value():
    asked = roles(2, Constraint("a", at_least=0.9), Constraint("d", at_most=0.7))
    batches = [evaluated(0, a=[0.1, 0.8]), evaluated(2, [(3, "X: bad")], a=[0.75, 0.99])]
    assert why_empty(batches, asked) == (
        "no candidate has a >= 0.9; the best is 0.8 (candidate 1), by 0.1 too low"
    )


def test_constraints_that_none_meets_together():
    asked = roles(2, Constraint("a", at_least=0.9), Constraint("d", at_most=0.1))
    found = why_empty([evaluated(0, a=[0.9, 0.2], d=[0.3, 0.0])], asked)
    assert found.startswith("each constraint is met, but not all by one candidate: candidate 0")
    assert "d 0.3 (<= 0.1 is asked for)" in found


def test_the_most_frequent_error_is_told():
    errors = [(0, "part a: bad"), (1, "part b: bad"), (2, "part c: worse")]
    assert why_empty([evaluated(0, errors, a=[1.0, 1.0, 1.0])], roles(2)) == (
        "all 3 evaluations failed, 2 of them by: part a: bad"
    )
    assert why_empty([], roles(2)) == "no candidate was evaluated"


def test_of_a_long_error_the_part_of_the_design_is_left_out():
    for names, end in (
        ("a, b", "on a, b: ValueError: no k"),
        ("name, " * 50, "by: ValueError: no k"),
    ):
        error = f"sub-classifier on {names}: ValueError: no k"
        text = str(Failures([Evaluated(np.arange(1), np.zeros((1, 1)), {}, {0: error})]))
        assert text.startswith("all 1 evaluations failed, 1 of them by: ")
        assert text.endswith(end)
    assert str(Failures()) == ""
