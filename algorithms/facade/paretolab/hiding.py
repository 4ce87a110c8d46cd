"""Is a folder of the user's in the way of one of ours?"""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path

PACKAGES = ("framework", "algorithms", "tracking")

_HERE = Path(__file__).resolve().parent


def hidden_package() -> str | None:
    """Return what to tell the user where Python would import another package than ours.

    Python takes the first package of a name on its path, and the folder of the script that runs,
    or the current one, comes first. Nothing is imported here.

    Returns
    -------
    str or None
        One sentence; None where all packages are ours.
    """
    for name in PACKAGES:
        ours = _root() / name
        spec = find_spec(name)
        if spec is None:
            return f"expected the package {name!r} in {ours.parent}, found none; install it again"
        found = [Path(place).resolve() for place in spec.submodule_search_locations or ()]
        if ours not in found[:1]:
            place = found[0] if found else spec.origin
            return (
                f"expected {name!r} to be paretolab's own package in {ours.parent}, found {place}, "
                "which hides it; rename that one or start Python elsewhere"
            )
    return None


def _root() -> Path:
    """Return the folder that holds our packages: beside this one, or the root of the repository."""
    beside = _HERE.parent
    return beside.parents[1] if beside.name == "facade" else beside
