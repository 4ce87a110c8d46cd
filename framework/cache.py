"""The folder in which results that are expensive to compute are kept between runs."""

from __future__ import annotations

import os
from pathlib import Path


def cache_dir() -> Path | None:
    """Return the folder: ``PARETOLAB_CACHE``, else the user's cache folder.

    None where ``PARETOLAB_CACHE`` is ``off``.
    """
    given = os.environ.get("PARETOLAB_CACHE")
    if given == "off":
        return None
    if given:
        return Path(given)
    root = os.environ.get("XDG_CACHE_HOME") or str(Path.home() / ".cache")
    return Path(root) / "paretolab"
