"""Writes the synthetic patients of ``configs/multistage/risk.yaml``.

python scripts/patients.py configs/multistage/patients.csv
"""

from __future__ import annotations

import sys

import numpy as np
import pandas as pd

from framework.arrays import FloatArray


def patients(records: int = 20_000, seed: int = 0) -> pd.DataFrame:
    """Return synthetic patients, of whom 3% have a septic shock and 12% a sepsis."""
    rng = np.random.default_rng(seed)
    severity = rng.normal(size=records)
    ranks = severity.argsort().argsort() / records
    state = np.where(ranks >= 0.97, "shock", np.where(ranks >= 0.85, "sepsis", "ok"))

    def measured(share: float, mean: float, spread: float, digits: int = 0) -> FloatArray:
        signal = share * severity + np.sqrt(1 - share**2) * rng.normal(size=records)
        return np.asarray(np.round(mean + spread * signal, digits))

    return pd.DataFrame(
        {
            "age": measured(0.35, 61, 17),
            "heart_rate": measured(0.45, 88, 18),
            "temperature": measured(0.4, 37.3, 0.9, 1),
            "spo2": measured(-0.55, 95, 3),
            "crp": np.round(np.exp(measured(0.7, 3.0, 1.1, 3)), 1),
            "lactate": np.round(np.exp(measured(0.75, 0.5, 0.5, 3)), 2),
            "state": state,
        }
    )


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(
            "patients.py: expected the file to write, as in python scripts/patients.py patients.csv"
        )
    patients().to_csv(sys.argv[1], index=False)
