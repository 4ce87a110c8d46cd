"""In a clone: is a package of the user's in the way of one of ours?

A wheel installs one package, and nothing can be in its way. In a clone ``framework``,
``algorithms`` and ``tracking`` are packages of their own, and Python takes the first package of a
name on its path: the folder of the script that runs, or the current one, comes first.
"""

from __future__ import annotations

import os
from functools import cache
from importlib.util import find_spec
from pathlib import Path

PACKAGES = ("framework", "algorithms", "tracking")

_HERE = Path(__file__).resolve().parent


@cache
def check_packages() -> None:
    """Check that Python would import our packages; nothing is imported here.

    Raises
    ------
    ImportError
        It would import another package of the same name, or finds none.
    """
    if (_HERE / PACKAGES[0]).is_dir():
        return  # a wheel: ours lie below this package
    root = _HERE.parents[2]  # of the repository
    # packages that travelled to a node lie in a folder each; SHIPPED names them
    travelled = os.environ.get("PARETOLAB_SHIPPED", "").split()[1:]
    for name in (name for name in PACKAGES if name not in travelled):
        spec = find_spec(name)
        if spec is None:
            raise ImportError(f"expected the package {name!r} in {root}, found none; install again")
        folders = [Path(place).resolve() for place in spec.submodule_search_locations or ()]
        if root / name not in folders[:1]:
            place = folders[0] if folders else spec.origin
            raise ImportError(
                f"expected {name!r} to be paretolab's own package in {root}, found {place}, "
                "which hides it; rename that one, start Python elsewhere, or install the wheel "
                "(make dist), which has no such package"
            )
