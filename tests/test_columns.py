"""Columns of numbers as CSV: what pandas writes, and read back exactly."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from framework.columns import columns_of, csv_of

COLUMNS = {
    "id": np.array([3, -4, 2**62]),
    "gene_a, b": np.array([1, 0, 1], dtype=np.int8),
    'odd "name"': np.array([0.1 + 0.2, -0.0, 5e-324]),
    "holes": np.array([np.nan, 1e22, np.inf]),
}


def test_files_are_as_pandas_writes_them():
    assert csv_of(COLUMNS) == pd.DataFrame(COLUMNS).to_csv(index=False)
    empty = {name: column[:0] for name, column in COLUMNS.items()}
    assert csv_of(empty) == pd.DataFrame(empty).to_csv(index=False)


def test_numbers_come_back_exactly(tmp_path):
    path = tmp_path / "numbers.csv"
    path.write_text(csv_of(COLUMNS), encoding="utf-8")
    found = columns_of(path)
    assert list(found) == list(COLUMNS)
    for name, column in COLUMNS.items():
        wanted = column.astype(np.int64 if column.dtype.kind == "i" else np.float64)
        assert found[name].dtype == wanted.dtype
        assert found[name].tobytes() == wanted.tobytes()


@pytest.mark.parametrize("text", ["", "a,b\n1\n", "a,b\n1,2,3\n", "a\nx\n"])
def test_what_is_no_table_of_numbers_is_refused(tmp_path, text):
    path = tmp_path / "numbers.csv"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(ValueError, match=r"expected|rows|convert"):
        columns_of(path)
