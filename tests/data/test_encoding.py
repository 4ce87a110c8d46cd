"""The encoder: fitted on training records, feature by feature, exact through JSON."""

import json

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as npst

from framework.data.encoding import Encoder
from framework.errors import InputError

NUMBERS = st.floats(-1e6, 1e6, width=32) | st.just(np.nan)


@pytest.fixture
def frame():
    columns = {"age": [1.0, 2.0, np.nan, 6.0], "sex": ["m", "f", None, "m"]}
    return pd.DataFrame(columns | {"same": [3, 3, 3, 3], "kind": [1, 2, 2, 10]})


def test_numbers_are_imputed_and_standardised(frame):
    codes = Encoder.fit(frame, categorical=["kind"]).transform(frame)
    filled = np.array([1, 2, 2, 6])
    assert np.allclose(codes[:, 0], (filled - filled.mean()) / filled.std())
    assert codes[:, 3].tolist() == [0, 0, 0, 0]


def test_categories_have_a_column_each_and_missing_ones_none(frame):
    encoder = Encoder.fit(frame, categorical=["kind"])
    assert [span.tolist() for span in encoder.spans] == [[0], [1, 2], [3], [4, 5, 6]]
    codes = encoder.transform(frame)
    assert codes[:, 1:3].tolist() == [[0, 1], [1, 0], [0, 0], [0, 1]]
    assert codes[:, 4:].tolist() == [[1, 0, 0], [0, 0, 1], [0, 0, 1], [0, 1, 0]]
    assert encoder.columns_of(["kind", 0]).tolist() == [4, 5, 6, 0]


def test_unknown_categories_are_all_zeros(frame):
    encoder = Encoder.fit(frame, categorical=["kind"])
    other = frame.assign(sex="x", kind=["1", "2.0", "3", None])
    assert encoder.transform_features(other, ["sex"]).sum() == 0
    assert encoder.transform_features(other, ["kind"]).sum() == 2  # 2.0 may come from a file


def test_one_category_in_many_spellings(frame):
    encoder = Encoder.fit(frame, categorical=["kind"])
    want = encoder.transform(frame)
    for dtype in (float, str, "Int64", "category", object):
        assert np.array_equal(encoder.transform(frame.astype({"kind": dtype})), want)


def test_other_columns_need_not_be_there_and_order_is_free(frame):
    encoder = Encoder.fit(frame)
    want = encoder.transform(frame)[:, encoder.columns_of(["sex", "age"])]
    only = encoder.transform_features(frame[["age", "sex"]], ["sex", "age"])
    assert np.array_equal(only, want)
    assert np.array_equal(encoder.transform(frame[frame.columns[::-1]]), encoder.transform(frame))
    assert encoder.transform_features(frame, []).shape == (4, 0)


def test_records_that_are_not_asked_for_are_not_read(frame):
    encoder = Encoder.fit(frame)
    poisoned = frame.astype({"age": object})
    poisoned.loc[0, "age"] = "poison"
    some = np.array([3, 1])
    codes = encoder.transform_features(poisoned, ["age"], some)
    assert np.array_equal(codes, encoder.transform_features(frame, ["age"])[some])


@given(npst.arrays(np.float64, (7, 3), elements=NUMBERS))
def test_json_round_trip_is_exact(X):
    X[0] = np.nan_to_num(X[0])  # each feature has a value
    encoder = Encoder.fit(X)
    again = Encoder.from_json(json.loads(json.dumps(encoder.to_json())))
    assert again == encoder
    assert np.array_equal(again.transform(X), encoder.transform(X))
    assert np.isfinite(encoder.transform(X)).all()


def test_a_description_with_a_feature_twice_is_refused(frame):
    plain = Encoder.fit(frame).to_json()
    with pytest.raises(InputError, match="a feature twice"):
        Encoder.from_json({**plain, "features": plain["features"] * 2})


def test_arrays_go_by_position(frame):
    encoder = Encoder.fit(frame)
    by_position = Encoder.fit(frame.to_numpy())
    assert by_position.feature_names == ("x0", "x1", "x2", "x3")
    assert np.array_equal(encoder.transform(frame.to_numpy()), encoder.transform(frame))
    assert np.array_equal(by_position.transform(frame), encoder.transform(frame))


ADD = "add what is missing, cells may be empty"


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        (
            lambda f: f.rename(columns={"age": "agee"}),
            f"data: expected a column 'age', found none of that name; did you mean 'agee'?; {ADD}",
        ),
        (
            lambda f: f[["same", "kind"]],
            f"data: expected columns 'age' and 'sex', found none of those names; {ADD}",
        ),
        (
            lambda f: f.assign(age=["1", "2", "old", None]),
            "feature 'age': expected numbers, found 'old' in record 3",
        ),
        (
            lambda f: f.assign(age=np.inf),
            "feature 'age': expected finite numbers, found inf in record 1",
        ),
        (lambda f: f.to_numpy()[:, :3], "data: expected 4 columns, found 3"),
    ],
)
def test_mistakes_in_new_data(frame, change, sentence):
    with pytest.raises(InputError) as caught:
        Encoder.fit(frame).transform(change(frame))
    assert str(caught.value) == sentence


DAYS = pd.DataFrame({"n": [1.0, 2.0], "day": pd.to_datetime(["2020-02-01", "2021-05-05"])})


@pytest.mark.parametrize(
    "values",
    [
        pd.to_datetime(["2020-02-01", None]),
        pd.to_datetime(["2020-02-01", None]).tz_localize("UTC"),
        pd.to_timedelta(["3D", None]),
        [1 + 2j, None],
    ],
)
def test_dates_and_complex_numbers_are_no_numbers(values):
    encoder = Encoder.fit(DAYS)
    with pytest.raises(InputError, match=r"^feature 'n': expected numbers, found '.+' in record 1"):
        encoder.transform(DAYS.assign(n=values))
    gaps = encoder.transform(DAYS.assign(n=pd.to_datetime([None, None])))
    assert np.array_equal(gaps, encoder.transform(DAYS.assign(n=np.nan)))


@pytest.mark.parametrize("value", [20200201, 1580515200, 1.5, True, "now", "today", "01.02.2020"])
def test_only_dates_and_texts_of_one_form_are_dates(value):
    """Else numbers are nanoseconds of 1970, and the form of a text depends on other records."""
    encoder = Encoder.fit(DAYS)
    for values in ([value, None], pd.Series([value, "2020-01-13"], dtype=object)):
        with pytest.raises(InputError, match=r"^feature 'day': expected dates such as 2026-11-21"):
            encoder.transform(DAYS.assign(day=values))


@pytest.mark.parametrize("text", ["2020-02-01", " 2020-02-01 00:00", "2020-02-01T01:00:00+01:00"])
def test_texts_of_dates_are_read_as_dates(text):
    encoder = Encoder.fit(DAYS)
    answers = encoder.transform(DAYS.assign(day=pd.Series([text, ""], dtype=object)))
    expected = DAYS.assign(day=pd.to_datetime(["2020-02-01", None]))
    assert np.array_equal(answers, encoder.transform(expected))


def test_mistakes_in_fitting(frame):
    for bad in (frame.assign(age=np.nan), frame.assign(sex=pd.Series([None] * 4, dtype=str))):
        with pytest.raises(InputError, match="expected values in the training part, found none"):
            Encoder.fit(bad)
    with pytest.raises(InputError, match="found 'agee'; did you mean 'age'"):
        Encoder.fit(frame, categorical=["agee"])
    with pytest.raises(InputError, match="whose spread can be computed"):
        Encoder.fit(frame.assign(age=[1e308, -1e308, 0, 1]))
    with pytest.raises(InputError, match="expected a position from 0 to 3, found 4"):
        Encoder.fit(frame).columns_of([4])
    with pytest.raises(InputError, match="expected what to_json wrote"):
        Encoder.from_json({"features": [{"name": "a"}], "named": True})


@given(npst.arrays(np.float64, (7, 3), elements=NUMBERS), st.permutations([0, 1, 2]))
def test_numbers_all_at_once_are_those_one_by_one(values, order):
    frame = pd.DataFrame(values, columns=list("abc"))
    frame.iloc[0] = [0.0, 1.0, 2.0]  # a feature without any value cannot be encoded
    encoder = Encoder.fit(frame)
    records = np.array([6, 0, 3])
    slow = frame.astype(object)  # columns of objects are read one by one
    np.testing.assert_array_equal(encoder.transform(frame), encoder.transform(slow))
    np.testing.assert_array_equal(
        encoder.transform_features(frame, order, records),
        encoder.transform_features(slow, order, records),
    )


def test_categories_that_make_too_many_columns_are_refused():
    """A file of two megabytes would take ninety gigabytes."""
    words = pd.DataFrame({"word": [f"w{i}" for i in range(100_000)], "same": "x"})
    encoder = Encoder.fit(words, max_categories=10**6)
    sentence = "at most 500,000,000 values .*, found 100,000 records of 100,001 columns; set a"
    with pytest.raises(InputError, match=sentence):
        encoder.transform(words)
    few = np.array([0, 99_999])
    assert encoder.transform_features(words, ["word"], few).sum() == 2
    assert encoder.transform_features(words, ["same"]).shape == (100_000, 1)
