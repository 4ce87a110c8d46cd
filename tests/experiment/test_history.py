"""Fronts on the way, and what runs attain, against journals and slow twins."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from framework.experiment.config import RunConfig, check
from framework.experiment.execute import Options, execute
from framework.experiment.history import keep_moments, moments
from framework.experiment.run_dir import RunDir
from framework.pareto import nondominated
from tests.experiment import small


@pytest.fixture(scope="module")
def run_dir(tmp_path_factory):
    path = tmp_path_factory.mktemp("run") / "out"
    path.mkdir()
    raw = small.raw() | {"algorithm": {"kind": "random", "batch": 7}}
    del raw["experiment"]
    config = check(RunConfig, raw | {"budget": {"evaluations": 1000}}, path / "config.yaml")
    execute(config, RunDir(path), Options(None, lambda line: None, plots=False))
    return RunDir(path)


def test_moments_are_the_fronts_of_so_many_rows(run_dir):
    with run_dir.journal() as journal:
        losses = np.concatenate(
            [run_dir.roles().losses(batch.values) for batch in journal.evaluations()]
        )
    found = moments(run_dir)
    counts = [moment.evaluations for moment in found]
    assert counts == sorted(set(counts))
    assert (counts[0], counts[-1]) == (7, len(losses))
    assert 15 < len(found) <= 41
    assert np.all(np.diff([moment.seconds for moment in found]) >= 0)
    for moment in found:
        rows = losses[: moment.evaluations]
        assert sorted(moment.losses.tolist()) == sorted(rows[nondominated(rows)].tolist())


def test_moments_that_are_kept_need_no_journal(run_dir, tmp_path):
    expected = moments(run_dir)
    assert not run_dir.anytime_file.exists()  # reading leaves a finished run alone
    keep_moments(run_dir)
    kept = RunDir(tmp_path)
    kept.anytime_file.write_bytes(run_dir.anytime_file.read_bytes())
    for one, other in zip(expected, moments(kept), strict=True):
        assert (one.evaluations, one.seconds) == (other.evaluations, other.seconds)
        assert np.array_equal(one.losses, other.losses)
    assert moments(RunDir(tmp_path / "nothing")) == []


@given(st.integers(0, 1000), st.integers(1, 6))
def test_surfaces_are_what_so_many_runs_attain(seed, runs):
    from tracking.figures.comparison_figures import surfaces

    rng = np.random.default_rng(seed)
    sets = [rng.integers(0, 8, (rng.integers(1, 6), 2)).astype(float) for _ in range(runs)]
    wanted = {0: 1, 50: -(-runs // 2), 100: runs}
    grid = np.array([(x, y) for x in range(9) for y in range(9)], dtype=float)
    attained = sum((s[:, None] <= grid).all(axis=2).any(axis=0).astype(int) for s in sets)
    for share, points in surfaces(sets).items():
        reached = np.zeros(len(grid), dtype=bool)
        for point in points:
            reached |= (point <= grid).all(axis=1)
        assert np.array_equal(reached, attained >= wanted[share])


def test_kept_moments_that_are_damaged_are_made_from_the_journal(run_dir, tmp_path):
    keep_moments(run_dir)
    whole = run_dir.anytime_file.read_bytes()
    expected = moments(run_dir)
    rng = np.random.default_rng(0)
    try:
        for _ in range(40):
            damaged = bytearray(whole)
            damaged[rng.integers(len(whole))] ^= 1 << rng.integers(8)
            run_dir.anytime_file.write_bytes(damaged[: rng.integers(len(whole) // 2, len(whole))])
            found = moments(run_dir)
            assert [moment.evaluations for moment in found] == [m.evaluations for m in expected]
    finally:
        run_dir.anytime_file.unlink()
