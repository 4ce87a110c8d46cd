"""Costs that several features share: what is paid once for all of a group."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from framework.arrays import FloatArray, IntArray
from framework.data.costs import CostsConfig, check_features
from framework.errors import InputError


@dataclass(frozen=True)
class CostGroups:
    """Groups of features; the cost of a group is paid with the first feature of it.

    Attributes
    ----------
    of : int64 (n,)
        The group of each feature, from 0; -1 where it has none.
    costs : float64 (m,)
    names : tuple of m str
    """

    of: IntArray
    costs: FloatArray
    names: tuple[str, ...] = ()

    def __len__(self) -> int:
        return len(self.costs)

    @classmethod
    def none(cls, n: int) -> CostGroups:
        """Return no groups, of ``n`` features."""
        return cls(np.full(n, -1, dtype=np.int64), np.zeros(0))

    def begun_at(self, steps: Sequence[Iterable[int]]) -> list[list[int]]:
        """Return the groups whose first feature is acquired in each step."""
        met: set[int] = set()
        begun = []
        for step in steps:
            new = sorted({int(self.of[i]) for i in step} - met - {-1})
            met.update(new)
            begun.append(new)
        return begun

    def to_json(self) -> dict[str, Any]:
        """Return the groups as JSON values."""
        return {
            "of": self.of.tolist(),
            "costs": self.costs.tolist(),
            "names": list(self.names),
        }

    @classmethod
    def from_json(cls, plain: Mapping[str, Any], n: int) -> CostGroups:
        """Return what ``to_json`` wrote, of ``n`` features; raises ValueError for others."""
        of, costs = np.asarray(plain["of"]), np.asarray(plain["costs"], dtype=np.float64)
        names = tuple(map(str, plain["names"]))
        if of.dtype != np.int64 or of.shape != (n,) or costs.shape != (len(names),):
            raise ValueError("groups of features")
        if of.min(initial=-1) < -1 or of.max(initial=-1) >= len(names):
            raise ValueError("numbers of groups")
        if not (np.isfinite(costs).all() and (costs >= 0).all()):
            raise ValueError("costs of groups")
        return cls(of, costs, names)


def cost_groups(
    config: CostsConfig | None,
    names: Sequence[str],
    where: str = "problem.costs",
    left_out: Sequence[str] = (),
) -> CostGroups:
    """Return the groups that a configuration names.

    Parameters
    ----------
    config, names, where, left_out
        See :func:`~framework.data.costs.feature_costs`.

    Raises
    ------
    InputError
        A group names what is no feature, or a feature is in two groups.
    """
    groups = CostGroups.none(len(names))
    if config is None or not config.groups:
        return groups
    of = groups.of.copy()
    for number, (name, group) in enumerate(config.groups.items()):
        place = f"{where}.groups.{name}"
        taken = [feature for feature in group.features if feature not in left_out]
        check_features(taken, names, place)
        for feature in taken:
            at = list(names).index(feature)
            if of[at] >= 0:
                raise InputError(
                    f"{place}: expected each feature in one group, found {feature!r} again"
                )
            of[at] = number
    costs = np.array([group.cost for group in config.groups.values()], dtype=np.float64)
    return CostGroups(of, costs, tuple(config.groups))
