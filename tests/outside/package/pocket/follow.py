"""An indicator, an callback and a report."""

import numpy as np

from paretolab import Callback, Indicator

SMALLEST = Indicator(
    "least loss",
    "low",
    "least value of the first loss",
    lambda judged: float(judged.losses[:, 0].min()) if len(judged.losses) else np.nan,
)


class Diary(Callback):
    """Counts batches."""

    def __init__(self, path):
        self.path, self.batches = path, 0

    def on_batch(self, progress):
        self.batches += 1

    def on_written(self):
        (self.path / "diary.txt").write_text(f"{self.batches} batches\n")
        return f"diary: {self.batches} batches"


def diary(run_dir, config):
    """Return the callback of a run; none for runs called quiet."""
    return None if config.name == "quiet" else Diary(run_dir.path)


def note(run_dir):
    """Write a page of our own."""
    (run_dir.path / "note.txt").write_text(f"{len(run_dir.front())} solutions\n")
