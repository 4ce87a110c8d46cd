"""The memory of this process."""

from __future__ import annotations

from pathlib import Path

import psutil


def resident() -> tuple[int, int]:
    """Return the bytes that are resident now, and the peak so far (0 where nobody tells it)."""
    found = psutil.Process().memory_info()
    try:
        status = Path("/proc/self/status").read_text(encoding="ascii")
        peak = next(int(line.split()[1]) for line in status.splitlines() if "VmHWM" in line) * 1024
    except (OSError, StopIteration):
        peak = getattr(found, "peak_wset", 0)  # of Windows
    return int(found.rss), int(peak)
