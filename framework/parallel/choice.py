"""Whether work goes to Ray: asked for outright, or because it pays."""

from __future__ import annotations

import os

RAY_PAYS_SECONDS = 20.0
"""Serial work from which Ray is started: its start and that of its workers take 3 to 17 s."""


def uses_ray(workers: str | int, address: str | None) -> bool:
    """Tell whether Ray is asked for outright."""
    return address is not None or workers not in ("serial", "auto")


def ray_pays(workers: str | int, seconds_left: float) -> bool:
    """Tell whether ``auto`` takes Ray for work that takes this process so long."""
    return workers == "auto" and seconds_left >= RAY_PAYS_SECONDS and (os.cpu_count() or 1) > 1
