"""The table of a library: what it takes, what it refuses, and what comes back from disk."""

import hashlib
import json
import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from framework.errors import InputError
from framework.libraries.library import ARRAYS, Cost, Library, _digest_of, load_library

CLASSES = ("ham", "spam", "eggs")
LABELS = ["ham", "spam", "eggs", "spam"]


def probabilities(*shape: int, seed: int = 0) -> Any:
    return np.random.default_rng(seed).dirichlet(np.ones(shape[-1]), size=shape[:-1])


def arrays(**changes: Any) -> dict[str, Any]:
    """Return arguments of ``from_arrays`` for three models, with changes."""
    return {
        "ids": ["a", "b", "c"],
        "validation": probabilities(3, 4, 3),
        "y_validation": LABELS,
        "classes": CLASSES,
        "costs": {"memory": Cost(np.array([1.0, 0.0, 2.5]), "MB")},
        "test": probabilities(3, 2, 3, seed=1),
        "y_test": ["eggs", "eggs"],
        "units": [7, 7, 9, 8],
        **changes,
    }


def changed(key: str, place: Any, value: Any) -> dict[str, Any]:
    array = np.array(arrays()[key], dtype=float)
    array[place] = value
    return {key: array}


BAD: dict[str, tuple[dict[str, Any], str]] = {
    "units of other records": ({"units": [1, 2]}, "whole number for each of 4 validation records"),
    "no model": ({"ids": []}, "expected a model or more, found none"),
    "an id twice": ({"ids": ["a", "b", "a"]}, "expected distinct ids, found 'a' twice"),
    "an id that leads elsewhere": ({"ids": ["a", "b", "../c"]}, "found '../c'"),
    "NaN": (changed("validation", (1, 2), np.nan), "found NaN in record 3 of model 'b'"),
    "infinity": (changed("test", (0, 1, 0), np.inf), "test: .*infinity in record 2 of model 'a'"),
    "scores": (changed("validation", (2, 0, 1), -3.0), "from 0 to 1, found -3 of model 'c'"),
    "a row that adds to 0.9": (
        changed("validation", (1, 3), [0.2, 0.3, 0.4]),
        "add up to 1 in each record, found 0.9 of model 'b' in record 4",
    ),
    "too few models": (
        {"validation": probabilities(2, 4, 3)},
        r"expected shape \(3, 4, 3\) \(models, records, classes\), found \(2, 4, 3\)",
    ),
    "one column for three classes": ({"validation": np.full((3, 4), 0.5)}, "found \\(3, 4\\)"),
    "texts": ({"validation": [["x"] * 4] * 3}, "expected an array of numbers"),
    "a class missing": ({"y_validation": ["ham", "spam"] * 2}, "every class, found none of 'eggs'"),
    "an unknown label": ({"y_test": ["egg", "ham"]}, "found 'egg'; did you mean 'eggs'"),
    "one class": ({"classes": ["ham"]}, "two distinct classes or more"),
    "test labels missing": ({"y_test": None}, "test: expected predictions and labels"),
    "labels without classes": ({"classes": None}, "as no classes are given"),
    "a negative cost": ({"costs": {"disk": [1, -2, 3]}}, "negative one \\(-2\\) of 'b'"),
    "a missing cost": ({"costs": {"disk": [1, 2, np.nan]}}, "found none \\(nan\\) of 'c'"),
    "a cost too large": ({"costs": {"disk": [1, 1e308, 3]}}, "found 1e\\+308 of 'b'; give that"),
    "a cost too few": ({"costs": {"disk": [1, 2]}}, "each of the 3 models, found shape \\(2,\\)"),
    "a cost named badly": ({"costs": {"in s": [1, 2, 3]}}, "cost 'in s': expected a name"),
    "a cost of another model": (
        {"costs": {"disk": {"a": 1, "b": 2, "c": 3, "d": 4}}},
        "expected a value of each model \\(a, b, c\\), found one of 'd'",
    ),
    "a cost without a model": ({"costs": {"disk": {"a": 1, "b": 2}}}, "found none of 'c'"),
    "a cost named twice": (
        {"costs": {"disk": pd.Series([1, 2, 3, 4], index=["a", "b", "c", "c"])}},
        "found a model twice; name the values by the models' ids",
    ),
    "a series by number": (
        {"costs": {"disk": pd.Series([1, 2, 3])}},
        "found one of '0', which is no model",
    ),
    "configs that are none": ({"configs": [{}, {}]}, "for each of the 3 models, found 2"),
    "configs beyond JSON": ({"configs": [{"x": {1}}] * 3}, "expected JSON values"),
}


@pytest.mark.parametrize("name", BAD)
def test_bad_input_is_one_sentence(name: str) -> None:
    changes, message = BAD[name]
    with pytest.raises(InputError, match=message) as caught:
        Library.from_arrays(**arrays(**changes))
    assert "\n" not in str(caught.value)


def test_the_table_of_a_binary_library_keeps_the_second_column() -> None:
    both = probabilities(2, 5, 2)
    y = [1, 0, 1, 1, 0]
    library = Library.from_arrays(["a", "b"], both, y, [0, 1])
    assert np.array_equal(library.validation, both[:, :, 1].astype(np.float32))
    assert library == Library.from_arrays(["a", "b"], both[:, :, 1], y, [0, 1])
    turned = Library.from_arrays(["a", "b"], both[:, :, ::-1], y, [1, 0])
    assert turned.y_validation.tolist() == [0, 1, 0, 0, 1]


def test_regression_keeps_values() -> None:
    library = Library.from_arrays(["a"], [[-3.0, 7e4]], [0.5, -1], None)
    assert library.classes is None
    assert library.y_validation.dtype == np.float64
    assert library.validation.tolist() == [[-3.0, 7e4]]


def test_half_precision_is_normalised_on_request() -> None:
    half = probabilities(3, 4, 3).astype(np.float16)
    with pytest.raises(InputError, match="normalise divides them by it"):
        Library.from_arrays(**arrays(validation=half))
    library = Library.from_arrays(**arrays(validation=half, normalise=True))
    assert np.allclose(library.validation.sum(axis=2), 1, atol=1e-6)


def test_costs_that_name_their_models_are_taken_by_name() -> None:
    by_place = Library.from_arrays(**arrays(costs={"disk": [1, 2, 3]}))
    for costs in ({"c": 3, "a": 1, "b": 2}, pd.Series({"b": 2.0, "c": 3.0, "a": 1.0})):
        assert Library.from_arrays(**arrays(costs={"disk": costs})) == by_place
        assert Library.from_arrays(**arrays(costs={"disk": Cost(costs)})) == by_place


def test_nothing_can_be_written_to() -> None:
    given = arrays(validation=probabilities(3, 4, 3).astype(np.float32))
    library = Library.from_arrays(**given)
    before = library.validation.copy()
    given["validation"][:] = 0
    assert np.array_equal(library.validation, before)
    held = [getattr(library, key) for key in ARRAYS] + [library.costs["memory"].values]
    assert not any(array.flags.writeable for array in held)


@given(
    st.integers(1, 4),
    st.integers(2, 12),
    st.integers(0, 4),
    st.sampled_from([None, 2, 3, 5]),
    st.integers(0, 99),
)
def test_what_is_saved_comes_back(
    tmp_path_factory: pytest.TempPathFactory, k: int, n: int, m: int, c: int | None, seed: int
) -> None:
    rng = np.random.default_rng(seed)
    n += c or 0
    m = min(m, n)

    def predictions(records: int) -> Any:
        shape = k, records
        return rng.normal(size=shape) if c is None else rng.dirichlet([0.1] * c, shape)

    codes = np.concatenate([np.arange(c or 0), rng.integers(0, c or 2, n - (c or 0))])
    library = Library.from_arrays(
        [f"model {i}" for i in range(k)],
        predictions(n),
        codes,
        None if c is None else range(c),
        {"time": Cost(rng.random(k), "s"), "own": rng.random(k)},
        test=predictions(m) if m else None,
        y_test=codes[:m] if m else None,
        configs=[{"seed": i, "nested": {"x": 0.1 * i}} for i in range(k)],
        name="drawn",
        units=rng.integers(0, 3, n) if seed % 2 else None,
    )
    folder = tmp_path_factory.mktemp("library") / "new"
    for back in (library.save(folder), load_library(folder)):
        assert back == library
        assert back.folder == folder
        assert isinstance(back.validation, np.memmap)
        assert not back.validation.flags.writeable
        for key in ARRAYS:
            ours, theirs = getattr(library, key), getattr(back, key)
            assert (ours is None and theirs is None) or np.array_equal(ours, theirs)
        assert (back.ids, back.classes, back.name) == (library.ids, library.classes, "drawn")
        assert back.configs == library.configs
        assert back.costs["time"].unit == "s"
        assert np.array_equal(back.costs["own"].values, library.costs["own"].values)
    travelled = pickle.loads(pickle.dumps(back))
    assert travelled == library
    assert not travelled.validation.flags.writeable
    assert not travelled.costs["own"].values.flags.writeable


def test_any_change_of_content_changes_the_fingerprint() -> None:
    base = Library.from_arrays(**arrays())
    for changes in (
        {"ids": ["a", "b", "d"]},
        changed("validation", (0, 0), [0.25, 0.25, 0.5]),
        {"y_test": ["ham", "eggs"]},
        {"costs": {"memory": Cost(np.array([1.0, 0.0, 2.5]), "GB")}},
        {"configs": [{}, {}, {}]},
        {"test": None, "y_test": None},
        {"units": None},
    ):
        assert Library.from_arrays(**arrays(**changes)) != base


@pytest.fixture
def saved(tmp_path: Path) -> Path:
    folder = tmp_path / "library"
    Library.from_arrays(**arrays()).save(folder)
    return folder


@pytest.mark.parametrize("key", ARRAYS)
def test_a_changed_file_is_noticed(saved: Path, key: str) -> None:
    file = saved / f"{key}.npy"
    content = file.read_bytes()
    file.write_bytes(content[:-2] + bytes([content[-2] ^ 1]) + content[-1:])
    with pytest.raises(InputError, match=f"{key}.npy was changed since the library was written"):
        load_library(saved)
    for damage in (lambda: file.write_bytes(content[:-1]), file.unlink):
        damage()
        with pytest.raises(InputError, match=f"{key}.npy: expected an array"):
            load_library(saved)


def test_a_changed_description_is_noticed(saved: Path) -> None:
    file = saved / "library.json"
    plain = json.loads(file.read_text())
    plain["costs"]["memory"]["values"][0] = 0.5
    file.write_text(json.dumps(plain))
    with pytest.raises(InputError, match=r"library.json was changed"):
        load_library(saved)
    del plain["classes"]
    file.write_text(json.dumps(plain))
    with pytest.raises(InputError, match="found it damaged"):
        load_library(saved)
    file.write_text("{}")
    with pytest.raises(InputError, match="format 2, found None"):
        load_library(saved)


@given(st.data())
def test_no_flipped_bit_goes_unnoticed(
    tmp_path_factory: pytest.TempPathFactory, data: st.DataObject
) -> None:
    """Whatever byte is damaged: one sentence, or the same library (a space became a tab)."""
    library = Library.from_arrays(**arrays())
    folder = tmp_path_factory.mktemp("damaged") / "library"
    library.save(folder)
    file = data.draw(st.sampled_from(sorted(folder.iterdir())))
    content = bytearray(file.read_bytes())
    place = data.draw(st.integers(0, len(content) - 1))
    content[place] ^= 1 << data.draw(st.integers(0, 7))
    file.write_bytes(content)
    damage = None
    try:
        back = load_library(folder)
    except InputError as error:
        damage = str(error)
    if damage is None:
        assert back == library
        assert np.array_equal(back.validation, library.validation)
    else:
        assert "\n" not in damage


def test_a_folder_without_a_library_is_refused(tmp_path: Path, saved: Path) -> None:
    with pytest.raises(InputError, match=r"found no library.json"):
        load_library(tmp_path)
    with pytest.raises(InputError, match="found one in it"):
        Library.from_arrays(**arrays()).save(saved)


def test_nothing_is_left_half_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: Any, **__: Any) -> None:
        raise OSError(28, "No space left on device")

    library = Library.from_arrays(**arrays())
    monkeypatch.setattr("framework.libraries.library.np.save", full)
    with pytest.raises(InputError, match="No space left on device"):
        library.save(tmp_path / "new")
    assert list(tmp_path.iterdir()) == []
    kept = tmp_path / "models"
    kept.mkdir()
    with pytest.raises(InputError):
        library.save(tmp_path)
    assert list(tmp_path.iterdir()) == [kept]


@pytest.mark.parametrize("order", ["C", "F"])
@pytest.mark.parametrize("shape", [(7,), (3, 5), (2, 3, 4), (0, 3)])
def test_the_digest_of_an_array_is_that_of_its_values_however_they_lie(shape, order, monkeypatch):
    monkeypatch.setattr("framework.libraries.library._AT_A_TIME", 4)
    array = np.arange(np.prod(shape), dtype=">f4").reshape(shape).copy(order)
    whole = f"<f4 {shape} ".encode() + array.astype("<f4").tobytes()
    assert _digest_of(array) == hashlib.sha256(whole).hexdigest()
