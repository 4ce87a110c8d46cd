"""What ``paretolab choose`` reads of a run, and how it scores all designs again.

With other prices of features, costs of errors or shares of classes than those that were searched
with, the designs that a run evaluated have other figures, and another front.
"""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from framework.errors import InputError
from framework.experiment.expected import Evidence, evidence, exact_front, scored_again
from framework.experiment.export import load_problem
from framework.experiment.run_dir import RunDir
from framework.experiment.single_run import make_problem, make_roles
from framework.front import Front
from framework.problem import Problem

ERRORS_OF_TWO = {"fp", "fn"}
_SECONDS = 600.0  # of training again what decides by other costs of errors


@dataclass(frozen=True)
class Anew:
    """With what all designs are scored again: prices of features, costs of errors, class shares.

    Attributes
    ----------
    prices, errors, shares : mapping of str to float, or None
        By feature, by true class, by class.
    """

    prices: Mapping[str, float] | None
    errors: Mapping[str, float] | None
    shares: Mapping[str, float] | None

    @classmethod
    def of(cls, args: argparse.Namespace) -> Anew:
        """Return what the options ask for.

        Raises
        ------
        InputError
            One of them cannot be read.
        """
        prices = numbers(args.prices, "--prices", "FEATURE")
        errors, shares = numbers(args.costs, "--costs", "fp, fn or CLASS"), None
        if errors is not None and set(errors) & ERRORS_OF_TWO:
            errors = None
        if args.prior is not None and "=" in args.prior:
            shares = numbers(args.prior, "--prior", "CLASS")
            if args.costs is not None and errors is None:
                raise InputError(
                    "--prior: expected one number, the share of positive records, with fp and fn, "
                    f"found {args.prior!r}"
                )
        elif args.prior is not None and errors is not None:
            raise InputError(
                f"--prior: expected CLASS=SHARE,... with costs by class, found {args.prior!r}"
            )
        if args.per_unit is not None and (errors is not None or shares is not None):
            raise InputError("--per-unit: expected with --costs fp=NUMBER,fn=NUMBER, found others")
        return cls(prices, errors, shares)

    @property
    def options(self) -> list[str]:
        """The options that are given."""
        given = {"--prices": self.prices, "--costs": self.errors, "--prior": self.shares}
        return [name for name, value in given.items() if value is not None]

    @property
    def by_class(self) -> bool:
        """Whether costs or shares are by class."""
        return self.errors is not None or self.shares is not None

    def about(self) -> dict[str, Any]:
        """Return what the card of a model says of it."""
        given = {"prices": self.prices, "costs": self.errors, "prior": self.shares}
        return {name: value for name, value in given.items() if value is not None}


class Source:
    """The problem of a run and what resamples tell of it, each made when it is first asked for."""

    def __init__(self, run_dir: RunDir) -> None:
        self._run_dir = run_dir
        self._problem: Problem | None = None
        self._anew: Anew | None = None

    def problem(self) -> Problem:
        if self._problem is None:
            self._problem = load_problem(self._run_dir)
        return self._problem

    def again(self, anew: Anew) -> Front:
        """Score all designs again with other prices, costs or shares, and return their front.

        From now on the problem is the one with these prices and costs.

        Raises
        ------
        InputError
            What the problem has no metric of, or components that would take long to train again.
        """
        config = self._run_dir.config()
        section: Mapping[str, Any] = config.problem
        if anew.prices is not None:
            section = self.problem().with_prices(section, anew.prices)
        if anew.errors is not None:
            section = self.problem().with_errors(section, anew.errors)
        if section is not config.problem:
            self._problem = make_problem(config.model_copy(update={"problem": dict(section)}))
        self._anew = anew
        found, problem = self.needed(anew.options[0]), self.problem()
        roles, same = make_roles(config, problem), anew.shares is None
        return scored_again(found, problem, roles, config.seed, tested=same)

    def evidence(self) -> Evidence | None:
        """Return what resamples tell; None where the problem has no outcomes."""
        config = self._run_dir.config()
        anew = self._anew
        around = exact_front(config, self._run_dir.front()) if anew is None else None
        more: dict[str, Any] = {} if anew is None else {"shares": anew.shares}
        if anew is not None and anew.errors is not None:  # trained anew: that was asked for
            more["seconds"] = _SECONDS
        with self._run_dir.journal() as journal:
            return evidence(journal, self.problem(), config.seed, around, **more)

    def needed(self, option: str) -> Evidence:
        found = self.evidence()
        if found is None:
            raise InputError(
                f"{option}: expected a problem that tells what each record contributes, found "
                f"{self._run_dir.config().problem['kind']!r}, which does not"
            )
        return found


def numbers(text: str | None, option: str, names: str) -> dict[str, float] | None:
    """Return ``name=number,name=number`` as a mapping; None for None.

    Raises
    ------
    InputError
        The text is not of that form.
    """
    if text is None:
        return None
    found = {}
    for item in text.split(","):
        name, _, value = item.partition("=")
        try:
            found[name.strip()] = float(value)
        except ValueError:
            raise InputError(f"{option}: expected {names}=NUMBER, found {item!r}") from None
    return found
