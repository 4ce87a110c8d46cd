"""What a column is taken for, what is said of it, and how a model reads it later."""

import json

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from framework.data.columns import MARKS, FrameOptions, as_numbers, marks_of, to_numbers
from framework.data.datasets import DatasetConfig, load_table
from framework.data.encoding import Encoder
from framework.data.table_files import FileOptions, read_frame
from framework.data.tables import Raw, assemble
from framework.errors import InputError, listed
from framework.experiment.config import check

N = 60
TIMES = pd.date_range("2021-01-30", periods=N, freq="31h")
WORDS = ["the", "quick", "brown", "fox", "jumps", "over", "some", "lazy", "dogs", "again"]


def messy(n=N):
    """Return a table with every kind of doubtful column, and three that are plain."""
    rng = np.random.default_rng(0)
    numbers = rng.normal(1500, 400, n)
    return pd.DataFrame(
        {
            "patient_id": 10_000 + 7 * rng.permutation(n),
            "code": [f"P-{i:05d}" for i in rng.permutation(n)],
            "price": [f"{x:,.2f}" for x in numbers],
            "dose": [f"{x:.1f}".replace(".", ",") for x in numbers / 100],
            "lab": [("?" if i % 9 == 0 else f"{x:.1f}") for i, x in enumerate(numbers)],
            "seen": TIMES.strftime("%Y-%m-%d %H:%M:%S"),
            "born": TIMES.strftime("%d.%m.%Y"),
            "site": ["north"] * n,
            "blank": [None] * n,
            "report": [" ".join(rng.permutation(WORDS)[:7]) for _ in range(n)],
            "city": [f"town {i % 25}" for i in range(n)],
            "age": rng.integers(20, 90, n),
            "sex": rng.choice(["f", "m"], n),
            "hot": rng.normal(size=n),
            "target": ["no", "yes"] * (n // 2),
        }
    )


def load(frame, folder, **more):
    path = folder / "table.csv"
    frame.to_csv(path, index=False)
    config = check(DatasetConfig, {"path": str(path), **more}, "problem.dataset", {"base": folder})
    return load_table(config)


def said(table):
    return {note.split("'")[1]: note for note in table.notes}


def test_words_that_are_taken_as_missing_are_told_of_columns_of_texts(tmp_path):
    words = messy()[["city", "age", "born", "target"]].astype({"age": object})
    words.loc[:2, ["city", "age", "born"]] = "NA"
    words.loc[3:9, "city"] = [" None", "None ", "", *["None"] * 4]
    notes = said(load(words, tmp_path))
    assert list(notes) == ["city", "born"]
    assert notes["city"] == (
        "column 'city': 'None', 'NA' taken as missing in 9 records; write another word for what is "
        "no missing value"
    )
    assert "read as %d.%m.%Y, 'NA' taken as missing in 3 records; its parts" in notes["born"]
    assert not load(words.drop(columns="born"), tmp_path, missing=["-"], drop=["city"]).notes


def test_columns_that_alone_tell_the_class_are_named(tmp_path):
    sure = np.arange(N) % 2 + np.linspace(0, 0.9, N)
    gaps, some = (np.where(np.arange(N) % k, sure, np.nan) for k in (2, 3))
    nearly = np.where(np.arange(N) == 7, 0.5, sure)  # one record lies among the others
    end = np.where(np.arange(N) % 2, "left", "here")
    frame = messy().assign(end=end, sure=sure, nearly=nearly, gaps=gaps, some=some)
    frame["tie"] = sure.clip(max=0.8)
    (note,) = [note for note in load(frame, tmp_path).notes if "alone" in note]
    assert note == (
        "columns that alone tell the class of every record: 'end', 'sure', 'gaps'; if one "
        "comes after the answer, leave it out with drop: [end]"
    )
    assert not any("alone" in note for note in load(frame[:20], tmp_path).notes)


def test_each_doubtful_column_is_treated_and_told(tmp_path):
    table = load(messy(), tmp_path, max_categories=10)
    taken = "price dose lab seen born city age sex hot"
    assert list(table.features.columns) == taken.split()
    assert table.categorical == ("city", "sex")
    assert set(table.left_out) == {"patient_id", "code", "site", "blank", "report", "target"}
    notes = said(table)
    assert set(notes) == set(messy().columns) - {"age", "sex", "hot", "target"}
    assert notes["patient_id"].endswith(
        "60 different whole numbers; left out; identifier: patient_id shows it in predictions, "
        "keep: [patient_id] takes it"
    )
    assert "read as" in notes["price"]
    assert "'?' as missing" in notes["lab"]
    assert "%d.%m.%Y" in notes["born"]
    assert "always 'north'" in notes["site"]
    assert "free text" in notes["report"]
    assert notes["city"].startswith("column 'city': 25 different categories; the 10 most frequent")
    assert table.features["price"].to_numpy() == pytest.approx(
        [float(text.replace(",", "")) for text in messy()["price"]], abs=0
    )
    assert table.features["lab"].isna().sum() == 7
    assert (table.features["seen"] == TIMES).all()
    assert (table.features["born"].dt.day == TIMES.day).all()


def test_the_keys_say_otherwise(tmp_path):
    table = load(
        messy(),
        tmp_path,
        keep=["patient_id", "site"],
        categorical=["price", "seen"],
        identifier="code",
        columns=["patient_id", "site", "price", "seen", "lab", "age"],
        missing=["?"],
    )
    kept = ["patient_id", "price", "seen", "lab", "site", "age"]
    assert sorted(table.features.columns) == sorted(kept)
    assert table.categorical == ("price", "seen", "site")
    assert table.identifier == "code"
    assert "code" in table.example
    assert "report" not in table.example
    assert "missing" not in said(table)["lab"]


def test_plain_tables_are_told_nothing(tmp_path):
    frame = messy()[["age", "sex", "hot", "target"]]
    frame["year"] = np.random.default_rng(3).integers(1990, 2020, N)
    assert load(frame, tmp_path).notes == ()


def test_many_columns_of_a_kind_share_a_sentence(tmp_path):
    frame = messy()[["age", "target"]].assign(**{f"empty{i}": np.nan for i in range(9)})
    (note,) = load(frame, tmp_path).notes
    assert note.startswith("columns 'empty0', 'empty1', 'empty2', and 6 more: the first is empty")


def test_nothing_but_doubtful_columns_is_refused_with_the_reasons(tmp_path):
    with pytest.raises(InputError, match="found none; column 'site': always 'north'; left out"):
        load(messy()[["site", "target"]], tmp_path)


def test_rare_classes_are_merged(tmp_path):
    frame = messy().assign(target=["a"] * 30 + ["b"] * 25 + ["c", "c", "d", "e", "e"])
    with pytest.raises(InputError, match="merge_rare: 3"):
        load(frame, tmp_path)
    table = load(frame, tmp_path, merge_rare=3)
    assert table.classes == ("a", "b", "other")
    assert np.bincount(table.labels).tolist() == [30, 25, 5]
    assert table.notes[0].startswith("target 'target': classes")
    assert "(2)" in table.notes[0]
    named = frame.assign(target=frame["target"].replace("b", "other"))
    assert "together with its 25 records they" in load(named, tmp_path, merge_rare=3).notes[0]


def test_categories_without_records_are_no_rare_classes():
    target = pd.Categorical([1] * 30 + [2] * 30, categories=[1, 2, 3])
    raw = Raw(messy().assign(target=target), "messy", "here")
    assert assemble(raw, "data", FrameOptions(merge_rare=5)).classes == (1, 2)


@pytest.mark.parametrize(
    ("counts", "given_rare", "advice"),
    [
        ({"a": 30, "b": 25, "c": 2, "d": 1, "e": 2}, None, "merge_rare: 3"),
        ({"a": 30, "b": 23, "c": 5, "d": 2}, None, "merge_rare: 6"),
        ({"a": 30, "b": 23, "c": 5, "d": 2}, 5, "merge_rare: 6"),
        ({"a": 30, "b": 28, "c": 2}, 10, "merge_rare: 29"),
        ({"a": 58, "c": 2}, 10, None),
        ({"a": 58, "c": 2}, None, None),
        ({"a": 28, "other": 30, "c": 2}, 10, "merge_rare: 4"),
    ],
)
def test_advice_on_rare_classes_ends(tmp_path, counts, given_rare, advice):
    labels = [label for label, count in counts.items() for _ in range(count)]
    frame = messy().assign(target=labels)
    given = {} if given_rare is None else {"merge_rare": given_rare}
    try:
        load(frame, tmp_path, **given)
    except InputError as error:
        text = str(error)
    else:
        assert counts.get("other")  # what is merged joins those who have that label
        return
    if advice is None:
        assert "merge_rare" not in text
        assert "remove its records" in text
        return
    assert advice in text
    least = int(advice.split(": ")[1])
    assert len(load(frame, tmp_path, merge_rare=least).classes) > 1  # the advice helps


def test_labels_in_a_line_are_told_apart():
    assert listed(["SIRS", "no infection, no event", "septic shock", 3]) == (
        "SIRS, 'no infection, no event', 'septic shock', 3"
    )


def test_merging_everything_is_refused_with_the_way_out(tmp_path):
    with pytest.raises(InputError, match="found only 'other'; lower merge_rare"):
        load(messy().assign(target=["a"] * 30 + ["b"] * 30), tmp_path, merge_rare=40)


def test_a_stray_text_among_numbers_has_its_cures_named(tmp_path):
    frame = messy()[["age", "target"]]
    frame["crp"] = [f"{i // 2 / 7:.3f}" for i in range(N)]
    frame.loc[[4, 9], "crp"] = ["<0.1", ">500"]
    distinct = frame.assign(crp=[f"{i / 7:.3f}" for i in range(N)])
    distinct.loc[4, "crp"] = "<0.1"
    assert "left out" in said(load(distinct, tmp_path))["crp"]  # it could name the records
    assert "missing: ['<0.1'] reads it as numbers" in said(load(distinct, tmp_path))["crp"]
    assert load(distinct, tmp_path, missing=["<0.1"]).features["crp"].dtype == float
    with pytest.raises(InputError) as caught:
        load(frame, tmp_path)
    assert "found '<0.1' in record 5" in str(caught.value)
    assert "set missing: ['<0.1', '>500']" in str(caught.value)
    assert "categorical: [crp]" in str(caught.value)
    table = load(frame, tmp_path, missing=["<0.1", ">500"])
    assert table.features["crp"].isna().sum() == 2
    assert load(frame, tmp_path, categorical=["crp"]).features["crp"].dtype == "category"
    frame["crp"] = [f"about {i}" if i % 3 == 0 else f"{i // 3}.5" for i in range(N)]
    with pytest.raises(InputError, match="correct them, or list the column under categorical"):
        load(frame, tmp_path)


@given(st.lists(st.integers(-(10**9), 10**9), min_size=1), st.sampled_from(MARKS))
def test_numbers_are_read_as_they_were_written(cents, marks):
    thousands, decimals = marks

    def written(number):
        plain = f"{number / 100:,.2f}".translate(str.maketrans(",.", "\0\1"))
        return plain.replace("\0", thousands).replace("\1", decimals)

    texts = np.array([written(number) for number in cents], dtype=object)
    found = marks_of(texts)
    assert found is not None
    read = as_numbers(pd.Series(texts), found).to_numpy()
    told = marks_of(texts, decimals)
    assert as_numbers(pd.Series(texts), told).tolist() == [number / 100 for number in cents]
    # two decimals tell the marks apart: the first ones that fit are as good as those told
    assert read.tolist() == [number / 100 for number in cents]


@pytest.mark.parametrize(
    ("text", "number"),
    [
        ("1,313.31", 1313.31),
        ("1.313,31", 1313.31),
        ("$ 12", 12),
        ("-3,5 €", -3.5),
        ("1 234,5", 1234.5),
        ("45%", 45),
        ("1'000", 1000),
        ("1e-3", 0.001),
        (".5", 0.5),
        ("1,313", 1313),
        ("0,126", 0.126),
        ("-0.126", -0.126),
    ],
)
def test_spellings_of_numbers(text, number):
    texts = np.array([text], dtype=object)
    assert as_numbers(pd.Series(texts), marks_of(texts))[0] == number


@pytest.mark.parametrize("text", ["1,31,3", "12-3", "1.2.3", "a1", "", "1,,2"])
def test_what_is_no_number(text):
    assert marks_of(np.array([text], dtype=object)) is None


def test_one_column_settles_the_mark_of_decimals_for_those_that_could_have_either(tmp_path):
    wide = [f"{i},{125 + i % 800}" for i in range(1, N + 1)]
    frame = pd.DataFrame({"wide": wide, "target": np.arange(N) % 2})
    decimals = [float(text.replace(",", ".")) for text in wide]
    thousands = [float(text.replace(",", "")) for text in wide]

    def read(**columns):
        table = load(frame.assign(**columns), tmp_path)
        encoder = table.fit_encoder(table.features)
        if table.readings["wide"].marks == (".", ","):
            later, number = (pd.DataFrame({"wide": [value]}) for value in ("1,5", 1.5))
            encoded = encoder.transform_features(later, ["wide"])
            assert encoded == encoder.transform_features(number, ["wide"])
        return table.features["wide"].tolist()

    assert read() == thousands
    assert read(price=[f"{i}153,70" for i in range(N)]) == decimals
    assert read(price=[f"0,{100 + i}" for i in range(N)]) == decimals
    assert read(price=[f"{i + 1},153.70" for i in range(N)]) == thousands
    either = {"one": [f"{i},5" for i in range(N)], "other": [f"{i}.5 €" for i in range(N)]}
    assert read(**either) == thousands  # as alone: they disagree
    table = load(frame.assign(price=either["one"]), tmp_path, decimal=".")
    assert table.features["wide"].tolist() == thousands


def test_the_encoder_reads_raw_records_as_the_search_read_them(tmp_path):
    raw = messy()
    table = load(raw, tmp_path, max_categories=10)
    encoder = table.fit_encoder(table.features)
    again = Encoder.from_json(json.loads(json.dumps(encoder.to_json())))
    wanted = encoder.transform(table.features)
    assert np.isfinite(wanted).all()
    records = pd.read_csv(tmp_path / "table.csv")[::-1]
    np.testing.assert_array_equal(again.transform(records)[::-1], wanted)
    one = pd.DataFrame(table.example).iloc[[1]]  # alone, whole numbers come as whole numbers
    assert again.transform(one).shape == (1, encoder.width)
    with pytest.raises(InputError, match=r"'born': expected dates of the form %d.%m.%Y, found '5'"):
        again.transform(raw.assign(born="5"))
    with pytest.raises(InputError, match="'price': expected numbers, found 'dear' in record 1"):
        again.transform(raw.assign(price="dear"))


def test_rare_categories_are_one_and_so_are_new_ones(tmp_path):
    frame = pd.DataFrame({"c": list("aaabbbccdde"), "target": [0, 1] * 5 + [0]})
    encoder = Encoder.fit(frame[["c"]], max_categories=2)
    assert encoder.features[0].categories == ("a", "b")
    rows = encoder.transform(pd.DataFrame({"c": ["b", "e", "new", None]}))
    assert rows.tolist() == [[0, 1, 0], [0, 0, 1], [0, 0, 1], [0, 0, 0]]


def test_dates_become_parts(tmp_path):
    days = pd.to_datetime(["2020-01-01", "2020-07-01", None, "2021-01-01"])
    frame = pd.DataFrame({"d": days})
    encoder = Encoder.fit(frame)
    assert encoder.width == 5
    rows = encoder.transform(frame)
    assert np.linalg.norm(rows[0, 1:3] - rows[3, 1:3]) < 0.05  # the same season
    assert np.linalg.norm(rows[0, 1:3] - rows[1, 1:3]) > 1.9
    assert rows[2, 1:].tolist() == [0, 0, 0, 0]
    assert rows[0, 0] < rows[1, 0] < rows[3, 0]
    clock = Encoder.fit(pd.DataFrame({"d": TIMES}))
    assert clock.width == 7


@pytest.mark.parametrize("mark", [";", "\t", "|", ","])
def test_separators_are_recognised(tmp_path, mark):
    path = tmp_path / "t.csv"
    messy().to_csv(path, sep=mark, index=False)
    wanted = messy().drop(columns="blank")
    found = read_frame(path)
    pd.testing.assert_frame_equal(found.drop(columns="blank"), wanted, check_dtype=False)
    assert found["blank"].isna().all()
    told = read_frame(path, FileOptions(mark, ("age", "target")))
    assert list(told.columns) == ["age", "target"]


@pytest.mark.parametrize("names", [[0, 1], ["self", "key "]])
def test_columns_of_parquet_may_have_any_names(tmp_path, names):
    path = tmp_path / "t.parquet"
    pd.DataFrame({names[0]: ["a ", " b"], names[1]: [1, 2]}).to_parquet(path)
    found = read_frame(path)
    assert found.to_dict("list") == {
        str(names[0]): ["a", "b"],
        str(names[1]).strip(): [1, 2],
    }


@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_a_line_that_tells_excel_the_separator_is_no_header(tmp_path, end):
    path = tmp_path / "table.csv"
    path.write_text(end.join(["sep=;", "a;b", "1;2,5", "3;4"]), newline="")
    assert read_frame(path).columns.tolist() == ["a", "b"]
    assert len(read_frame(path)) == 2
    path.write_text(end.join(["sep=;", "a;b", "1"]), newline="")
    with pytest.raises(InputError, match="line 3: expected 2 fields"):
        read_frame(path)


def test_a_folder_of_parquet_files_is_a_table(tmp_path):
    folder = tmp_path / "parts"
    folder.mkdir()
    for i, part in enumerate(np.split(np.arange(N), 3)):
        messy().iloc[part].to_parquet(folder / f"{i}.parquet", index=False)
    section = {"path": str(folder), "columns": ["age", "sex"]}
    table = load_table(check(DatasetConfig, section, "d", {"base": folder}))
    assert table.features.shape == (N, 2)
    assert table.name == "parts"
    with pytest.raises(InputError, match="expected a column 'agee', found none of that name; did"):
        read_frame(folder, FileOptions(columns=("agee",)))


def test_whole_numbers_of_hundreds_of_digits_are_infinite():
    column = pd.Series([1, 10**400, None, -(10**400)], dtype=object)
    assert to_numbers(column)[[0, 1, 3]].tolist() == [1.0, np.inf, -np.inf]
    assert np.isnan(to_numbers(column)[2])


@pytest.mark.parametrize(
    ("spell", "noun"),
    [
        (lambda i: f"{i / 7:.3f}".replace(".", ","), "numbers"),
        (lambda i: f"{i / 7:.1f} %", "numbers"),
        (lambda i: f"{1000 * i:,}", "numbers"),
        (lambda i: f"{i % 28 + 1:02d}.{i % 11 + 1:02d}.2024", "dates"),
    ],
)
def test_a_word_among_numbers_with_marks_or_dates_does_not_make_them_categories(
    spell, noun, tmp_path
):
    frame = messy()[["age", "target"]]
    frame["crp"] = [spell(i // 2) for i in range(N)]
    frame.loc[::9, "crp"] = "k.A."
    with pytest.raises(InputError) as caught:
        load(frame, tmp_path)
    assert f"expected {noun} in column 'crp'" in str(caught.value)
    assert "set missing: ['k.A.']" in str(caught.value)
    assert load(frame, tmp_path, missing=["k.A."]).features["crp"].dtype != "category"
    assert load(frame, tmp_path, categorical=["crp"]).features["crp"].dtype == "category"
    distinct = frame.assign(crp=[spell(i) for i in range(N)])
    distinct.loc[4, "crp"] = "k.A."
    if distinct["crp"].nunique() == N:  # it could name the records
        assert f"missing: ['k.A.'] reads it as {noun}" in said(load(distinct, tmp_path))["crp"]
