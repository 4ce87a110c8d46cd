"""Libraries from elsewhere: files of predictions, fitted models, and TabRepo's layout."""

import json
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn.ensemble import RandomForestClassifier
from sklearn.linear_model import LinearRegression, LogisticRegression, RidgeClassifier
from sklearn.naive_bayes import GaussianNB
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from skops import io

from framework.errors import InputError
from framework.experiment.config import check
from framework.libraries.config import ImportConfig, TabRepoConfig
from framework.libraries.importing import cross_fitted, from_models, import_library, measured_costs
from framework.libraries.library import Library, load_library
from framework.libraries.measure import UNITS
from framework.libraries.members import load_member, named_models, predictions
from framework.libraries.prediction_files import from_tabrepo

IDS = ["forest", "network", "linear"]
RNG = np.random.default_rng(5)
P_VAL, P_TEST = RNG.dirichlet([1, 1, 1], (3, 8)), RNG.dirichlet([1, 1, 1], (3, 4))
Y_VAL, Y_TEST = ["lo", "mid", "hi", "hi"] * 2, ["lo", "hi", "hi", "hi"]
CLASSES = ["lo", "mid", "hi"]
OF_THREE = P_VAL, P_TEST, [0, 1, 2, 0] * 2, [0, 0, 1, 1]  # for TabRepo's layout


def brought(section: dict[str, Any], base: Path, out: str = "library") -> tuple[Library, list[str]]:
    config = check(ImportConfig, {"name": "mine", **section}, "library", {"base": base})
    return import_library(config, base / out)


def wide(table: Any) -> pd.DataFrame:
    """Return predictions (K, N, C) as columns ID:CLASS."""
    names = [f"{name}:{label}" for name in IDS for label in CLASSES]
    return pd.DataFrame(table.transpose(1, 0, 2).reshape(table.shape[1], -1), columns=names)


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """Return a folder with the same predictions in three formats."""
    for part, table, y in (("val", P_VAL, Y_VAL), ("test", P_TEST, Y_TEST)):
        np.save(tmp_path / f"{part}.npy", table)
        np.save(tmp_path / f"y_{part}.npy", np.array(y))
        wide(table).to_csv(tmp_path / f"{part}.csv", index=False)
        wide(table).to_parquet(tmp_path / f"{part}.parquet")
        for ending in ("csv", "parquet"):
            frame = pd.DataFrame({"label": y})
            path = tmp_path / f"y_{part}.{ending}"
            frame.to_csv(path, index=False) if ending == "csv" else frame.to_parquet(path)
    costs = pd.DataFrame({"id": IDS[::-1], "memory": [1.0, 2, 3], "licence": [0, 5, 0]})
    costs.to_csv(tmp_path / "costs.csv", index=False)
    (tmp_path / "configs.json").write_text(json.dumps({name: {"family": name} for name in IDS}))
    return tmp_path


def arrays(ending: str, **changes: Any) -> dict[str, Any]:
    base = {
        "validation": f"val.{ending}",
        "y_validation": f"y_val.{ending}",
        "test": f"test.{ending}",
        "y_test": f"y_test.{ending}",
        "classes": CLASSES,
        "ids": IDS,
        "costs": "costs.csv",
        "units": {"licence": "EUR/month"},
        "configs": "configs.json",
    }
    return {"arrays": {key: value for key, value in {**base, **changes}.items() if value}}


@pytest.mark.parametrize("ending", ["npy", "csv", "parquet"])
def test_files_of_any_kind_make_the_same_library(place: Path, ending: str) -> None:
    library, said = brought(arrays(ending), place)
    direct = Library.from_arrays(IDS, P_VAL, Y_VAL, CLASSES, test=P_TEST, y_test=Y_TEST)
    assert said == []
    assert library.ids == tuple(IDS)
    assert np.allclose(library.validation, direct.validation)
    assert np.array_equal(library.y_validation, direct.y_validation)
    assert np.allclose(library.test, direct.test)
    assert library.costs["memory"].values.tolist() == [3, 2, 1]  # in the order of the ids
    assert library.costs["memory"].unit == "MB"
    assert library.costs["licence"].unit == "EUR/month"
    assert library.configs == tuple({"family": name} for name in IDS)
    assert load_library(place / "library") == library


def test_ids_come_from_costs_or_columns(place: Path) -> None:
    assert brought(arrays("npy", ids=None), place)[0].ids == tuple(IDS[::-1])
    plain = arrays("csv", ids=None, costs=None, configs=None, units=None)
    assert brought(plain, place, "other")[0].ids == tuple(IDS)


def test_binary_and_regression_tables_have_a_column_a_model(tmp_path: Path) -> None:
    table = pd.DataFrame({"a": [0.1, 0.9, 0.5], "b": [0.5, 0.25, 1.0]})
    table.to_csv(tmp_path / "p.csv", index=False)
    pd.DataFrame({"y": [0, 1, 1]}).to_csv(tmp_path / "y.csv", index=False)
    files = {"validation": "p.csv", "y_validation": "y.csv"}
    binary, _ = brought({"arrays": {**files, "classes": ["0", "1"]}}, tmp_path)
    assert binary.classes == ("0", "1")  # spelled as they are told
    assert binary.y_validation.tolist() == [0, 1, 1]
    values, _ = brought({"arrays": files}, tmp_path, "values")
    assert values.classes is None
    assert np.allclose(values.validation, table.to_numpy().T)


def test_classes_and_ids_are_what_is_written(tmp_path: Path) -> None:
    classes, ids = ["01", "NA", "so: so"], ["007", "None"]
    names = [f"{name}:{label}" for name in ids for label in classes]
    pd.DataFrame(np.full((3, 6), 1 / 3), columns=names).to_csv(tmp_path / "p.csv", index=False)
    pd.DataFrame({"y": classes}).to_csv(tmp_path / "y.csv", index=False)
    pd.DataFrame({"id": ids[::-1], "money": [1, 2]}).to_csv(tmp_path / "c.csv", index=False)
    files = {"validation": "p.csv", "y_validation": "y.csv", "classes": classes}
    library, _ = brought({"arrays": files}, tmp_path)
    assert (library.ids, library.y_validation.tolist()) == (tuple(ids), [0, 1, 2])
    priced, _ = brought({"arrays": {**files, "costs": "c.csv"}}, tmp_path, "priced")
    assert priced.ids == tuple(ids[::-1])


def bad_files(place: Path) -> None:
    pd.DataFrame({"id": IDS[:2], "memory": [1, 2]}).to_csv(place / "few.csv", index=False)
    pd.DataFrame({"model": IDS}).to_csv(place / "no_id.csv", index=False)
    pd.DataFrame({"id": [*IDS, IDS[0]], "memory": 1}).to_csv(place / "again.csv", index=False)
    pd.DataFrame({"a": Y_VAL, "b": Y_VAL}).to_csv(place / "two.csv", index=False)
    (place / "object.npy").write_bytes(b"\x93NUMPY nothing")
    (place / "bad.json").write_text("{}")
    np.save(place / "column.npy", np.array(Y_VAL)[:, np.newaxis])


BAD = [
    ({"validation": "gone.npy"}, "gone.npy: expected an array of numbers, found: No such file"),
    ({"validation": "object.npy"}, "object.npy: expected an array of numbers"),
    ({"validation": "test.npy"}, r"validation: expected shape \(3, 8, 3\)"),
    ({"ids": ["forest", "network", "linea"]}, "expected a config of model 'linea'"),
    ({"costs": "few.csv"}, "cost 'memory': expected a finite value .* of 'linear'"),
    ({"costs": "no_id.csv"}, "expected a column 'id'"),
    ({"costs": "again.csv"}, "again.csv: expected each id once, found 'forest' again"),
    ({"y_validation": "two.csv"}, "one column of labels, found 2"),
    ({"y_validation": "y_test.npy"}, "y_validation: expected records of every class"),
    ({"y_validation": "column.npy"}, r"y_validation: expected one label a record.*\(8, 1\)"),
    ({"configs": "bad.json"}, "expected a config of model 'forest', found none"),
    ({"ids": None, "costs": None, "configs": None}, "expected ids for its models"),
]


@pytest.mark.parametrize(("changes", "message"), BAD)
def test_bad_files_are_one_sentence(place: Path, changes: dict[str, Any], message: str) -> None:
    bad_files(place)
    with pytest.raises(InputError, match=message) as caught:
        brought(arrays("npy", **changes), place)
    assert "\n" not in str(caught.value)
    assert not (place / "library").exists()


def test_an_import_goes_to_a_new_folder(place: Path) -> None:
    with pytest.raises(InputError, match="expected a new folder, found one with files"):
        brought(arrays("npy"), place, ".")
    with pytest.raises(InputError, match="exactly one of arrays, models, tabrepo"):
        brought({}, place)


def records(n: int, seed: int) -> pd.DataFrame:
    rng = np.random.default_rng(seed)
    frame = pd.DataFrame(rng.normal(size=(n, 3)), columns=["x", "y", "z"])
    frame["label"] = np.where(frame["x"] + rng.normal(size=n) > 0, "yes", "no")
    return frame


@pytest.fixture
def fitted(tmp_path: Path) -> dict[str, Any]:
    """Write fitted models and tables of other records; return the models."""
    train = records(80, 0)
    X, y = train.drop(columns="label"), train["label"]
    models = {
        "forest": RandomForestClassifier(5, random_state=0).fit(X, y),
        "scaled": make_pipeline(StandardScaler(), LogisticRegression()).fit(X[["z", "x"]], y),
        "bayes": GaussianNB().fit(X.to_numpy(), y),
    }
    (tmp_path / "fitted" / "bayes").mkdir(parents=True)
    for name, model in models.items():
        path = f"{name}/model.skops" if name == "bayes" else f"{name}.skops"
        io.dump(model, tmp_path / "fitted" / path)
    records(40, 1).to_csv(tmp_path / "validation.csv", index=False)
    records(20, 2).to_parquet(tmp_path / "test.parquet")
    return models


TABLES = {"validation": "validation.csv", "test": "test.parquet", "target": "label"}
SECTION = {"models": {"folder": "fitted", **TABLES}}


def test_a_folder_of_fitted_models(fitted: dict[str, Any], tmp_path: Path) -> None:
    library, _ = brought(SECTION, tmp_path)
    assert library.ids == ("forest", "scaled", "bayes")
    assert library.classes == ("no", "yes")
    held = records(40, 1)
    assert [("no", "yes")[code] for code in library.y_validation] == held["label"].tolist()
    expected = fitted["scaled"].predict_proba(held[["z", "x"]])[:, 1]
    assert np.allclose(library.validation[1], expected, atol=1e-6)
    assert set(library.costs) == {"inference_time", "memory", "disk"}
    assert library.configs is not None
    assert library.configs[2] == {"family": "GaussianNB", "priors": None, "var_smoothing": 1e-9}
    assert library.folder == tmp_path / "library"
    again = predictions(
        load_member(library.folder, "bayes"), held[["x", "y", "z"]].to_numpy(), library.classes
    )
    assert np.array_equal(again.astype(np.float32), library.validation[2])


def test_labels_of_records_are_what_is_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def measure(files: Any, X: Any, **_: Any) -> Any:
        return {name: {"inference_time": 1.0, "memory": 1.0, "disk": 1.0} for name in files}

    monkeypatch.setattr("framework.libraries.importing.measure", measure)
    frame = pd.DataFrame({"x": [0.0, 1.0, 2.0, 3.0], "label": ["01", "NA"] * 2})
    frame.to_csv(tmp_path / "validation.csv", index=False)
    io.dump(GaussianNB().fit(frame[["x"]], frame["label"]), tmp_path / "bayes.skops")
    section = {"folder": ".", "validation": "validation.csv", "target": "label"}
    library, _ = brought({"models": section}, tmp_path)
    assert library.y_validation.tolist() == [0, 1, 0, 1]


@pytest.mark.slow
def test_links_to_files_elsewhere_are_refused(fitted: dict[str, Any], tmp_path: Path) -> None:
    """What they lead to would be copied into the library, which a user may hand on."""
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "fitted/scaled.skops").rename(tmp_path / "elsewhere/scaled.skops")
    (tmp_path / "fitted/scaled.skops").symlink_to(tmp_path / "elsewhere/scaled.skops")
    with pytest.raises(InputError, match=r"scaled.skops: expected a file of the folder, found a"):
        brought(SECTION, tmp_path)
    write_tabrepo(tmp_path / "elsewhere", *OF_THREE)
    (tmp_path / "sent").mkdir()
    (tmp_path / "sent/model_predictions").symlink_to(tmp_path / "elsewhere/model_predictions")
    with pytest.raises(InputError, match="expected a file of the folder, found a link to"):
        tabrepo(tmp_path / "sent", 1)


def test_models_at_hand_are_measured(fitted: dict[str, Any]) -> None:
    costs = measured_costs(fitted, records(40, 1)[["x", "y", "z"]], call_time=True)
    call = costs.pop("call_time").values
    assert (call >= 0).all()
    assert (call <= costs["inference_time"].values).all()
    assert {name: cost.unit for name, cost in costs.items()} == UNITS
    assert all(cost.values.shape == (3,) for cost in costs.values())
    disk = dict(zip(fitted, costs["disk"].values, strict=True))
    assert disk["forest"] > disk["scaled"] > 0
    with pytest.raises(InputError, match=r"model 'odd': .* found .*Stranger"):
        measured_costs({"odd": Stranger()}, records(4, 1))


def test_models_that_cannot_be_taken(fitted: dict[str, Any], tmp_path: Path) -> None:
    (tmp_path / "fitted" / "evil.skops").write_bytes(io.dumps(Stranger()))
    with pytest.raises(InputError, match=r"evil.skops: .* found .*Stranger"):
        brought(SECTION, tmp_path)
    (tmp_path / "fitted" / "evil.skops").unlink()
    again = tmp_path / "fitted" / "bayes.skops"
    io.dump(fitted["bayes"], again)
    with pytest.raises(InputError, match=r"bayes/model.skops: .*found .*bayes.skops too"):
        brought(SECTION, tmp_path)
    again.unlink()
    other = LogisticRegression().fit([[0.0] * 3, [1.0] * 3], ["no", "maybe"])
    io.dump(other, tmp_path / "fitted" / "other.skops")
    with pytest.raises(InputError, match=r"model 'other': .*classes \['no', 'yes'\]"):
        brought(SECTION, tmp_path)
    with pytest.raises(InputError, match="expected fitted models in skops's format"):
        brought({"models": {**SECTION["models"], "folder": "."}}, tmp_path)
    assert not (tmp_path / "library").exists()


ZEROS = np.zeros((4, 1)), [0, 1, 0, 1]


@pytest.mark.parametrize(
    ("models", "sentence"),
    [
        ({"r": RidgeClassifier().fit(*ZEROS)}, "with predict_proba, alone, found Ridge"),
        ({}, "a fitted model or more"),
        ({"bayes": GaussianNB()}, "model 'bayes': expected a fitted classifier"),
        (LogisticRegression(), r"expected a list of models.*found LogisticReg"),
    ],
)
def test_what_are_no_fitted_models_is_refused(models: Any, sentence: str) -> None:
    with pytest.raises(InputError, match=sentence):
        from_models(named_models(models), *ZEROS)


@pytest.mark.parametrize("cut", [np.s_[:-1], np.s_[:1], np.s_[:, :1]])
@pytest.mark.parametrize("is_fitted", [True, False])
def test_predictions_of_another_shape_are_refused(cut: Any, is_fitted: bool) -> None:
    class Short(LogisticRegression):
        def predict_proba(self, X: Any) -> Any:
            return super().predict_proba(X)[cut]

    X, y = np.arange(12.0)[:, None], np.arange(12) % 2
    models = {"fine": LogisticRegression(), "short": Short()}
    for model in models.values() if is_fitted else ():
        model.fit(X, y)
    take = from_models if is_fitted else partial(cross_fitted, folds=3, seed=0)
    with pytest.raises(InputError, match=r"model 'short': .* found ValueError: predictions of sh"):
        take(models, X, y)


@pytest.mark.parametrize("row", [(0.5, 0.3), (np.nan, 0.5), (-0.3, 0.5), (1.3, -0.3)])
def test_answers_of_two_classes_that_are_no_probabilities_are_refused(row: Any) -> None:
    """Of two classes only the second one's are kept."""

    class Odd(LogisticRegression):
        def predict_proba(self, X: Any) -> Any:
            return np.tile(row, (len(X), 1))

    X, y = np.arange(12.0)[:, None], np.arange(12) % 2
    with pytest.raises(InputError, match=r"model 'odd': .*expected probabilities from 0 to 1 that"):
        from_models({"odd": Odd().fit(X, y)}, X, y)


class Stranger:
    """A type that nobody trusts."""


def test_fitted_regressors() -> None:
    X = np.arange(12.0).reshape(6, 2)
    library = from_models({"line": LinearRegression().fit(X, X[:, 0])}, X, X[:, 0])
    assert library.classes is None
    assert np.allclose(library.validation[0], X[:, 0], atol=1e-5)


def tabrepo(folder: Path, fold: int, **more: Any) -> tuple[Library, list[str]]:
    return from_tabrepo(TabRepoConfig(folder=folder, dataset="adult", fold=fold, **more), "adult-1")


def write_tabrepo(
    folder: Path, *tables: Any, dtype: str = "float32", dataset: str = "adult"
) -> list[str]:
    """Add a data set and fold to a context in TabRepo's layout; the last model has no time.

    ``tables``: predictions on validation and test records, and their labels.
    """
    validation, test, y, y_test = tables
    models = [f"Model_c{i}_BAG_L1" for i in range(len(validation))]
    place = folder / "model_predictions" / dataset / "1"
    place.mkdir(parents=True)
    of = {"dataset": dataset, "fold": 1}
    meta = {"models": models, **of, "dtype": dtype}
    meta |= {"pred_val_shape": validation.shape, "pred_test_shape": test.shape}
    (place / "metadata.json").write_text(json.dumps(meta))
    for part, table, labels in (("val", validation, y), ("test", test, y_test)):
        table.astype(dtype).tofile(place / f"pred-{part}.dat")
        rows = np.arange(len(labels)) + 100
        pd.Series(labels, index=rows, name="class").to_csv(place / f"label-{part}.csv.zip")
    seconds = np.arange(1.0, len(models))
    timed = pd.DataFrame({"framework": models[:-1], "time_infer_s": seconds, "metric_error": 0.1})
    timed = timed.assign(**of)
    elsewhere = timed.assign(dataset="other", time_infer_s=99.0)
    metrics = folder / "configs.parquet"
    before = [pd.read_parquet(metrics)] if metrics.exists() else []
    pd.concat([*before, elsewhere, timed]).to_parquet(metrics)
    return models


def test_tabrepo_binary(tmp_path: Path) -> None:
    p, q = RNG.random((3, 6)), RNG.random((3, 4))
    models = write_tabrepo(tmp_path / "D1", p, q, [0, 1, 1, 0, 1, 1], [0, 0, 1, 1])
    (tmp_path / "h.json").write_text(json.dumps({f"Model_c{i}": {"depth": i} for i in range(3)}))
    memory = pd.DataFrame({"id": models, "memory": [7, 8, 9]})
    memory.to_csv(tmp_path / "memory.csv", index=False)
    context = {"folder": "D1", "dataset": "adult", "fold": 1}
    more = {"costs": "memory.csv", "configs": "h.json"}
    library, said = brought({"tabrepo": context | more}, tmp_path)
    assert said == ["1 of 3 models have no row in configs.parquet; left out: Model_c2_BAG_L1"]
    assert library.ids == tuple(models[:2])
    assert library.classes == (0, 1)
    assert np.array_equal(library.validation, p[:2].astype(np.float32))
    assert np.array_equal(library.test, q[:2].astype(np.float32))  # type: ignore[arg-type]
    # one and two seconds for four test records
    assert library.costs["inference_time"].values.tolist() == [250_000, 500_000]
    assert library.costs["memory"].values.tolist() == [7, 8]
    assert library.configs == ({"depth": 0}, {"depth": 1})
    filled, said = tabrepo(tmp_path / "D1", 1, missing="mean")
    assert filled.costs["inference_time"].values.tolist() == [250_000, 500_000, 375_000]
    assert "given the mean time: Model_c2_BAG_L1" in said[0]


@pytest.mark.parametrize("dtype", ["float32", "float16"])
def test_tabrepo_multiclass_is_normalised(tmp_path: Path, dtype: str) -> None:
    write_tabrepo(tmp_path, *OF_THREE, dtype=dtype)
    library, _ = tabrepo(tmp_path, 1)
    assert library.classes == (0, 1, 2)
    assert np.allclose(library.validation, P_VAL[:2], atol=1e-3)
    assert np.allclose(library.validation.sum(axis=2), 1, atol=1e-6)
    if dtype == "float16":
        with pytest.raises(InputError, match="normalise"):
            tabrepo(tmp_path, 1, normalise=False)


def test_tabrepo_regression(tmp_path: Path) -> None:
    write_tabrepo(tmp_path, 9 * P_VAL[:, :, 0], P_TEST[:, :, 0], np.arange(8) / 3, [0.5] * 4)
    library, _ = tabrepo(tmp_path, 1)
    assert library.classes is None
    assert np.allclose(library.validation, 9 * P_VAL[:2, :, 0])


def test_tabrepo_files_that_do_not_fit(tmp_path: Path) -> None:
    write_tabrepo(tmp_path, *OF_THREE)
    with pytest.raises(InputError, match=r"metadata.json: .*No such file"):
        tabrepo(tmp_path, 0)
    file = tmp_path / "model_predictions" / "adult" / "1" / "pred-val.dat"
    file.write_bytes(file.read_bytes()[:-4])
    with pytest.raises(InputError, match=r"pred-val.dat: expected 288 bytes .*, found 284"):
        tabrepo(tmp_path, 1)
    file.write_bytes(file.read_bytes() + b"\0\0\0\0")
    about = file.with_name("metadata.json")
    told = json.loads(about.read_text())
    about.write_text(json.dumps({**told, "pred_val_shape": [3, 2**61 + 1, 8]}))
    with pytest.raises(InputError, match=r"pred-val.dat: expected 221\d{18} bytes"):
        tabrepo(tmp_path, 1)  # a product of 64 bits would wrap
    about.write_text(json.dumps(told))
    (tmp_path / "configs.parquet").unlink()
    with pytest.raises(InputError, match=r"configs.parquet: expected TabRepo's metrics"):
        tabrepo(tmp_path, 1)
