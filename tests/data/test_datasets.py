"""Loading of data sets, and the sentence for each mistake in them."""

import gzip
import os
import urllib.error
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest

from framework.data.datasets import DatasetConfig, known_names, load_table, load_values
from framework.errors import InputError
from framework.experiment.config import check
from framework.security import DATA_VARIABLE

GOOD = "a,b,target\n" + "".join(f"{i},{'xyz'[i % 3]},{i % 2}\n" for i in range(12))


def config(raw, base=None):
    return check(DatasetConfig, raw, "problem.dataset", {"base": base} if base else {})


def load(raw, base=None):
    return load_table(config(raw, base))


def write(folder, text, name="data.csv"):
    path = folder / name
    path.write_text(text, encoding="utf-8")
    return path


def loaded(folder, text, **more):
    """Return the data set of a CSV file of this text."""
    return load({"path": str(write(folder, text)), **more})


def mistake(text, folder, **more):
    """Return what is said of a CSV file of this text, without the place."""
    path = write(folder, text)
    with pytest.raises(InputError) as caught:
        load({"path": str(path), **more})
    assert str(path) in str(caught.value)
    return str(caught.value).split(f"{path}: ")[1]


def test_reads_numbers_categories_and_gaps(tmp_path):
    text = "a,b,c,d,target\n" + "1,x,True,,no\n,y,False,3,yes\n2.5,,True,4,no\n" * 3
    table = loaded(tmp_path, text)
    assert list(table.features.columns) == ["a", "b", "c", "d"]
    assert table.categorical == ("b",)
    assert table.features["a"].tolist()[::2][:2] == [1.0, 2.5]
    assert np.isnan(table.features["a"][1])
    assert table.features["b"].isna().tolist()[:3] == [False, False, True]
    assert table.features["c"].tolist()[:3] == [1.0, 0.0, 1.0]
    assert table.classes == ("no", "yes")
    assert table.positive == 1
    assert table.labels.tolist()[:3] == [0, 1, 0]
    assert not table.labels.flags.writeable


CLASSES = {
    "0 1": (0, 1),
    "1.0 2.0": (1, 2),
    "0.5 1.5": (0.5, 1.5),
    "9007199254740992 9007199254740993": (2**53, 2**53 + 1),
    "True False": (False, True),
    "b a": ("a", "b"),
}


@pytest.mark.parametrize(("labels", "classes"), CLASSES.items())
def test_classes_are_plain_python(tmp_path, labels, classes):
    first, second = labels.split()
    table = loaded(tmp_path, "a,target\n" + f"1,{first}\n2,{second}\n" * 4)
    assert table.classes == classes
    assert [type(label) for label in table.classes] == [type(label) for label in classes]


def test_positive_by_name_and_for_several_classes(tmp_path):
    path = str(write(tmp_path, "a,target\n" + "1,x\n2,y\n3,z\n" * 3))
    assert load({"path": path}).positive is None
    assert load({"path": path, "positive": "y"}).positive == 1
    with pytest.raises(InputError, match=r"dataset.positive: expected one of the classes x, y, z"):
        load({"path": path, "positive": "w"})
    path = str(write(tmp_path, "a,target\n" + "1,1.0\n2,2.0\n" * 3))
    assert load({"path": path, "positive": 1.0}).positive == 0  # as the file has it


def test_categorical_numbers_and_dropped_columns(tmp_path):
    table = loaded(tmp_path, GOOD, categorical=["a"], drop=["b"])
    assert list(loaded(tmp_path, GOOD, columns=["a"], drop=["b"]).features) == ["a"]
    assert table.categorical == ("a",)
    assert table.features["a"].tolist()[:2] == ["0", "1"]


def test_same_content_same_fingerprint_whatever_the_format(tmp_path):
    plain = loaded(tmp_path, GOOD)
    (tmp_path / "zipped.csv.gz").write_bytes(gzip.compress(GOOD.encode()))
    zipped = load({"path": str(tmp_path / "zipped.csv.gz")})
    pd.read_csv(tmp_path / "data.csv").to_parquet(tmp_path / "columns.parquet")
    columns = load({"path": str(tmp_path / "columns.parquet")})
    assert plain.fingerprint == zipped.fingerprint == columns.fingerprint
    assert (plain.name, zipped.name, columns.name) == ("data", "zipped", "columns")


@pytest.mark.parametrize("record", ["9,x,0", "0,y,0", "0,x,1", ",x,0", None])
def test_other_content_other_fingerprint(tmp_path, record):
    """Of the first record, or where it is None of a column's name."""
    other = GOOD.replace("a,b", "a,c") if record is None else GOOD.replace("0,x,0", record)
    assert loaded(tmp_path, GOOD).fingerprint != loaded(tmp_path, other).fingerprint


def test_relative_path_is_resolved_against_the_configuration(tmp_path):
    write(tmp_path, GOOD)
    checked = config({"path": "data.csv"}, tmp_path)
    assert checked.path == (tmp_path / "data.csv").resolve()
    again = config(checked.model_dump(mode="json"), "elsewhere")
    assert again == checked


def test_quoted_commas_and_line_breaks_are_no_mistakes(tmp_path):
    text = 'a,b,target\n1,"x, y",0\n2,"x\ny",1\n3,"z",0\n4,z,1\n5,z,0\n6,z,1\n'
    table = loaded(tmp_path, text)
    assert set(table.features["b"]) == {"x, y", "x\ny", "z"}


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("", "expected a header line and records, found an empty file"),
        ("a,target\n", "expected records, found none"),
        (GOOD + "1,2\n", "line 14: expected 3 fields, found 2; correct or remove that line"),
        (GOOD + '1,"x\ny",1\n1,2,3,4\n', "line 16: expected 3 fields, found 4"),
        (GOOD.replace("a,b", "a,a"), "expected distinct column names, found 'a' more than once"),
        (GOOD.replace("a,b", ",b"), "expected a name for each column, found none for column 1"),
        (GOOD + '1,"x,1\n', "line 14: expected 3 fields, found 2"),
        (
            GOOD.replace("target", "targte"),
            "target: expected a column 'target', found none of that name; did you mean 'targte'?",
        ),
        (
            GOOD + "1,x,\n1,x,\n",
            "expected a label in each record, found 2 without one in "
            "'target', the first in record 13",
        ),
        ("a,target\n" + "1,0\n" * 5, "expected two classes or more in 'target', found only 0"),
        (
            GOOD + "1,x,2\n",
            "expected 3 records or more of each class in 'target', found 1 of 2 (3 classes)",
        ),
        ("target\n" + "0\n1\n" * 4, "expected feature columns beside the target, found none"),
        (
            GOOD + "inf,x,1\n",
            "expected finite numbers in column 'a', found 1 infinite, the first in record 13",
        ),
        (
            GOOD + "bad,x,1\n",
            "expected numbers in column 'a' as in most of its records, found 'bad' in record 13",
        ),
        ("a\0b", "expected a CSV file, found a binary file"),
    ],
)
def test_each_mistake_has_its_sentence(tmp_path, text, sentence):
    assert mistake(text, tmp_path).startswith(sentence)


def test_records_without_a_label_are_left_out_on_request(tmp_path):
    records = GOOD.partition("\n")[2]
    table = loaded(tmp_path, GOOD + "1,x,\n1,x,\n" + records, drop_unlabelled=True)
    assert table.fingerprint == loaded(tmp_path, GOOD + records).fingerprint
    assert table.notes[0] == "2 of 26 records have no 'target': left out"
    assert "drop_unlabelled: true" in mistake(GOOD + "1,x,\n", tmp_path)


def test_a_workbook_is_named(tmp_path):
    (tmp_path / "data.xlsx").write_bytes(b"PK\x03\x04")
    with pytest.raises(InputError, match="found a workbook; save its sheet as CSV"):
        load({"path": str(tmp_path / "data.xlsx")})


def test_unknown_columns_are_named(tmp_path):
    found = mistake(GOOD, tmp_path, drop=["bb", "a", "zzz", "yyy"])
    assert found == (
        "drop: expected columns 'bb', 'zzz' and 'yyy', found none of those names; did you mean 'b'?"
    )
    assert mistake(GOOD, tmp_path, categorical=["zzz"]).startswith("categorical: expected a column")


def test_unreadable_files(tmp_path):
    for name, raw, found in [
        ("latin.csv", b"a,target\n\xe4,1\n", "in UTF-8, found a byte that is not text"),
        ("bad.csv.gz", b"not gzip", "expected a readable file"),
        ("cut.csv.gz", gzip.compress(GOOD.encode() * 50)[:40], "expected a readable file"),
        ("bad.parquet", b"not parquet", "expected a Parquet file"),
    ]:
        (tmp_path / name).write_bytes(raw)
        with pytest.raises(InputError, match=found):
            load({"path": str(tmp_path / name)})
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "empty").mkdir()
    for name, found in (("-", "no such file"), ("pipe", "a pipe"), ("empty", "a directory")):
        with pytest.raises(InputError, match=f"found {found}"):
            load({"path": str(tmp_path / name)})


@pytest.mark.parametrize(
    ("raw", "sentence"),
    [
        (
            {},
            "problem.dataset: expected exactly one of name, path, sklearn, openml, synthetic; "
            "found none",
        ),
        ({"name": "a", "sklearn": "iris"}, "found name and sklearn"),
        ({"sklearn": "irs"}, "dataset: sklearn: expected 'breast_cancer', 'diabetes'"),
        ({"openml": 61, "version": 1}, "expected version only with openml and a name"),
        ({"name": "../secret"}, "a text like"),
        (
            {"synthetic": {"features": 3, "informative": 4}},
            "expected informative + redundant of at most 3 features, found 4",
        ),
        (
            {"synthetic": {"informative": 2, "classes": 3}},
            "expected at most 2**informative = 4 clusters, found classes * clusters_per_class = 6",
        ),
        ({"nam": "a"}, "unknown key"),
    ],
)
def test_mistakes_in_the_section(raw, sentence):
    with pytest.raises(InputError) as caught:
        config(raw)
    assert sentence in str(caught.value).replace("problem.dataset.", "problem.dataset: ")


@pytest.mark.parametrize(
    ("name", "shape", "positive"),
    [
        ("breast_cancer", (569, 30), "malignant"),
        ("iris", (150, 4), None),
        ("wine", (178, 13), None),
        ("digits", (1797, 64), None),
    ],
)
def test_built_in_sets(name, shape, positive):
    table = load({"sklearn": name})
    assert table.features.shape == shape
    assert (None if table.positive is None else table.classes[table.positive]) == positive


def test_synthetic_sets_come_from_their_seed():
    raw = {"samples": 90, "features": 8, "informative": 5, "classes": 3}
    first, again = (load({"synthetic": raw}) for _ in range(2))
    other = load({"synthetic": {**raw, "seed": 1}})
    assert first.features.shape == (90, 8)
    assert list(first.features.columns)[::7] == ["f1", "f8"]
    assert first.classes == (0, 1, 2)
    assert first.fingerprint == again.fingerprint != other.fingerprint


def test_names_in_the_data_folder(tmp_path, monkeypatch):
    write(tmp_path, GOOD, "mine.csv")
    monkeypatch.setenv(DATA_VARIABLE, str(tmp_path))
    assert load({"name": "mine"}).source == str((tmp_path / "mine.csv").resolve())
    assert "mine" in known_names()
    with pytest.raises(InputError, match=r"found 'mne'; did you mean 'mine'\?"):
        load({"name": "mne"})
    monkeypatch.setenv(DATA_VARIABLE, str(tmp_path / "none"))
    with pytest.raises(InputError, match="PARETOLAB_DATA: expected a folder"):
        load({"name": "mine"})


def test_no_folder_and_no_network(monkeypatch):
    def offline(**query):
        raise urllib.error.URLError("no route")

    monkeypatch.delenv(DATA_VARIABLE, raising=False)
    monkeypatch.setattr("sklearn.datasets.fetch_openml", offline)
    for raw in ({"name": "pima"}, {"openml": 37}):
        with pytest.raises(InputError, match="connect to the internet, or put the table in a "):
            load(raw)


def openml(frame, target):
    def fetch(**query):
        details = {"id": "7", "name": query.get("name", "some"), "version": "1"}
        return SimpleNamespace(frame=frame, target=frame[target], details=details)

    return fetch


def test_known_names_on_openml_look_as_in_the_folder(monkeypatch):
    numbers = np.arange(12 * 8).reshape(12, 8)
    frame = pd.DataFrame(numbers, columns=list("abcdefgh"))
    frame["class"] = pd.Categorical(["tested_negative", "tested_positive"] * 6)
    monkeypatch.delenv(DATA_VARIABLE, raising=False)
    monkeypatch.setattr("sklearn.datasets.fetch_openml", openml(frame, "class"))
    table = load({"name": "pima"})
    assert list(table.features.columns)[:2] == ["pregnancies", "glucose"]
    assert (table.classes, table.positive) == ((0, 1), 1)
    assert table.source == "OpenML 7 (diabetes version 1)"
    with pytest.raises(InputError, match="expected OpenML's sonar version 1 to have a column"):
        load({"name": "sonar"})


def test_any_set_on_openml(monkeypatch):
    frame = pd.DataFrame({"x": range(8), "Class": pd.Categorical(list("ab") * 4)})
    monkeypatch.setattr("sklearn.datasets.fetch_openml", openml(frame, "Class"))
    table = load({"openml": "some", "version": 2})
    assert table.classes == ("a", "b")
    assert list(table.features) == ["x"]


@pytest.mark.skipif("PARETOLAB_DATA" not in os.environ, reason="needs PARETOLAB_DATA")
@pytest.mark.parametrize(
    ("name", "shape", "counts"),
    [
        ("heart_failure", (299, 12), [203, 96]),
        ("pima", (768, 8), [500, 268]),
        ("australian", (690, 14), [383, 307]),
        ("breast_w", (699, 9), [458, 241]),
        ("vote", (435, 16), [267, 168]),
        ("spambase", (4601, 57), [2788, 1813]),
        ("bank_marketing", (41188, 20), [36548, 4640]),
    ],
)
def test_the_papers_sets(name, shape, counts):
    table = load({"name": name})
    assert table.features.shape == shape
    assert np.bincount(table.labels).tolist() == counts
    assert (table.classes, table.positive) == ((0, 1), 1)


def test_a_regression_target_holds_values(tmp_path):
    table = load_values(DatasetConfig(sklearn="diabetes"))
    assert table.features.shape == (442, 10)
    assert table.values.dtype == np.float64
    assert table.values[:2].tolist() == [151.0, 75.0]
    assert table.categorical == ()
    path = tmp_path / "prices.csv"
    frame = pd.DataFrame({"size": [1.0, 2, 3], "area": list("aba"), "target": [0.5, 1.5, 7]})
    frame.to_csv(path, index=False)
    table = load_values(DatasetConfig(path=path))
    assert table.categorical == ("area",)
    frame.assign(target=[0.5, 1.5, 8]).to_csv(path, index=False)
    assert load_values(DatasetConfig(path=path)).fingerprint != table.fingerprint


@pytest.mark.parametrize(
    ("target", "sentence"),
    [
        (["a", "b", "a"], "expected numbers in 'target' for a regression, found other values"),
        ([1.0, None, 2.0], "a finite value in each record of 'target', found nan in record 2"),
        ([1.0, 2.0, np.inf], "found inf in record 3"),
    ],
)
def test_values_that_are_none(tmp_path, target, sentence):
    frame = pd.DataFrame({"size": [1.0, 2, 3], "target": target})
    frame.to_parquet(tmp_path / "prices.parquet")
    with pytest.raises(InputError, match=sentence):
        load_values(DatasetConfig(path=tmp_path / "prices.parquet"))


def test_blanks_around_names_texts_and_labels_change_nothing(tmp_path):
    cells = [[f"{i}.5", ["north", "NA", "old south"][i % 3], "yn"[i % 2]] for i in range(12)]
    plain = "".join(",".join(row) + "\n" for row in [["a", "b c", "target"], *cells])
    want = loaded(tmp_path, plain)
    assert want.features["b c"].cat.categories.tolist() == ["north", "old south"]
    padded = "".join(" , ".join(row) + " \n" for row in [[" a", '" b c"', "target"], *cells])
    assert loaded(tmp_path, padded).fingerprint == want.fingerprint
    frame = pd.read_csv(tmp_path / "data.csv", dtype={" target ": "category"})
    frame.columns = [" a ", "b c ", " target "]
    frame["b c "] = frame["b c "].replace(" NA ", None)
    for column in (frame["b c "], frame["b c "].astype("category"), frame["b c "].astype(object)):
        frame.assign(**{"b c ": column}).to_parquet(tmp_path / "data.parquet")
        table = load({"path": str(tmp_path / "data.parquet")})
        assert table.fingerprint == want.fingerprint
        assert table.classes == ("n", "y")


def test_names_that_only_blanks_tell_apart(tmp_path):
    said = "expected distinct column names, found 'a' more than once; rename one of them"
    assert mistake('a,"a ",target\n1,2,x\n', tmp_path) == said
    pd.DataFrame({"a": [1], " a": [2], "target": ["x"]}).to_parquet(tmp_path / "data.parquet")
    with pytest.raises(InputError, match=said):
        load({"path": str(tmp_path / "data.parquet")})
