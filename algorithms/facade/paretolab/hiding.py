"""Checks that no package of the working folder counts, nor hides, in a clone, one of ours.

In a clone ``framework``, ``algorithms`` and ``tracking`` are packages of their own. Python imports
the first package of a name on its path, which begins with the folder of the script that runs or
with the current folder. A wheel has a single package, so nothing can hide these.
"""

from __future__ import annotations

import os
import sys
from functools import cache
from importlib.util import find_spec
from pathlib import Path

PACKAGES = ("framework", "algorithms", "tracking")

_HERE = Path(__file__).resolve().parent


def check_working_folder() -> None:
    """Check that no folder where the user works brings packages, since their plug-ins are loaded.

    An editable install leaves a relative name in Python's path, which is meant to lead nowhere.

    Raises
    ------
    ImportError
    """
    for place in sys.path:
        if place and not os.path.isabs(place) and os.path.lexists(place):
            raise ImportError(
                f"expected no {os.path.abspath(place)!r}, since plug-ins in it would be run; "
                "remove it, or work in another folder"
            )


@cache
def check_packages() -> None:
    """Check that Python would import our packages, without importing them.

    Raises
    ------
    ImportError
        Python would import another package of the same name, or finds none.
    """
    if (_HERE / PACKAGES[0]).is_dir():
        return  # in a wheel our packages are folders of this one
    root = _HERE.parents[2]  # of the repository
    # packages that were sent to a node of a cluster have a folder each; SHIPPED names them
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
