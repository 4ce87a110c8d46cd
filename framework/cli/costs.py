"""``paretolab choose --costs``: the solution of least expected cost, and where each is best."""

from __future__ import annotations

import argparse

from framework.analysis.expected_cost import ExpectedCost
from framework.errors import InputError
from framework.front import Front


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add --costs, --prior and --per-unit."""
    parser.add_argument(
        "--costs", metavar="fp=C,fn=C", help="least expected cost of errors, with --prior"
    )
    parser.add_argument("--prior", type=float, help="share of positive records to come")
    parser.add_argument(
        "--per-unit", metavar="M=C,M=C", help="cost of a unit of other metrics, with --costs"
    )


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


def expected_cost(args: argparse.Namespace) -> ExpectedCost | None:
    """Return the rule that --costs, --prior and --per-unit make; None without them.

    Raises
    ------
    InputError
        One of them is missing or cannot be used.
    """
    costs = numbers(args.costs, "--costs", "fp or fn")
    if costs is None:
        if args.prior is not None or args.per_unit is not None:
            raise InputError(
                "--prior and --per-unit: expected with --costs fp=NUMBER,fn=NUMBER, found alone"
            )
        return None
    if set(costs) != {"fp", "fn"}:
        raise InputError(f"--costs: expected fp=NUMBER,fn=NUMBER, found {args.costs!r}")
    if args.prior is None:
        raise InputError("--costs: expected --prior, the share of positive records to come, too")
    per_unit = numbers(args.per_unit, "--per-unit", "METRIC") or {}
    return ExpectedCost(costs["fp"], costs["fn"], args.prior, per_unit)


def show(front: Front, position: int, expected: ExpectedCost) -> None:
    """Say what the chosen solution costs, and which one is best for which prior and costs."""
    print(f"expected cost of a record: {expected.of(front)[position]:.6g}")
    for what, ranges in (
        ("share of positive records", expected.by_prior(front)),
        ("cost ratio fn / fp", expected.by_ratio(front)),
    ):
        print(f"best by {what}:")
        for piece in ranges:
            print(f"  {piece.low:.4g} to {piece.high:.4g}: solution {front.ids[piece.position]}")
