"""Pareto layers against naive peeling."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from framework.pareto import pareto_layers
from tests import oracles

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


def test_no_rows():
    assert len(pareto_layers(np.zeros((0, 2)), np.zeros(0))) == 0


def test_300_layers():
    losses = np.arange(300.0)[::-1, None].repeat(2, axis=1)
    assert pareto_layers(losses, np.zeros(300)).tolist() == list(range(300))[::-1]
