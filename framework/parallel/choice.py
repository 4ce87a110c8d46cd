"""Whether work goes to Ray: asked for outright, or because it pays."""

from __future__ import annotations

RAY_PAYS_SECONDS = 20.0
"""Serial work from which Ray is started: its start and that of its workers take 3 to 17 s."""


def uses_ray(workers: str | int, address: str | None) -> bool:
    """Tell whether Ray is asked for outright."""
    return address is not None or workers not in ("serial", "auto")
