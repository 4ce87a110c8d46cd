"""The memory that this process has, and that the machine has."""

from __future__ import annotations

from pathlib import Path

import psutil

_LIMITS = ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes")


def resident() -> tuple[int, int]:
    """Return the bytes that are resident now, and the peak so far (0 where nobody tells it)."""
    found = psutil.Process().memory_info()
    try:
        status = Path("/proc/self/status").read_text(encoding="ascii")
        peak = next(int(line.split()[1]) for line in status.splitlines() if "VmHWM" in line) * 1024
    except (OSError, StopIteration):
        peak = getattr(found, "peak_wset", 0)  # of Windows
    return int(found.rss), int(peak)


def memory_of_machine() -> int:
    """Return the bytes of memory of this machine, or of the container that this process is in."""
    found = [psutil.virtual_memory().total]
    for name in _LIMITS:
        path = Path(name)
        text = path.read_text().strip() if path.is_file() else ""
        found += [int(text)] if text.isdigit() else []
    return min(found)
