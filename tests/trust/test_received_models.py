"""Models of all families but those with stages that someone sent: refused, or as their file says.

Each forgery below was answered with labels that meant nothing, or led a terminal or a page.
"""

import io
import json
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.tree import DecisionTreeClassifier

from algorithms.ensembling.model import WeightedEnsembleClassifier, WeightedEnsembleRegressor
from algorithms.hull.model import SparseNetworkClassifier
from algorithms.pruning.model import PrunedVotingClassifier
from framework.cli.main import main
from framework.data.encoding import Encoder
from framework.errors import InputError
from framework.libraries.library import Cost
from framework.models.constant import ConstantClassifier
from framework.models.mixture import MixtureClassifier
from framework.models.store import card_text, example_of, load_model, save_model
from framework.models.threshold import ThresholdClassifier
from framework.security import dump_estimator, load_estimator
from tests.trust.forging import describe_anew, forged, seal
from tests.trust.test_names import CLASSES, check_markdown

LABELS = ["no", "yes"]
FRAME = pd.DataFrame(
    {"a": np.linspace(-1, 1, 20), "b": np.arange(20) % 3 - 1.0, "c": list("uv") * 10}
)
ENCODER = Encoder.fit(FRAME)
WEIGHTS = 4 * 3 + 3 * 2


def network(classes: list[str] = LABELS, threshold: float = 0.1) -> SparseNetworkClassifier:
    rng = np.random.default_rng(0)
    return SparseNetworkClassifier.from_fitted(
        encoder=ENCODER,
        sizes=[4, 3, 2],
        weights=rng.normal(size=WEIGHTS),
        biases=rng.normal(size=5),
        mask=np.arange(WEIGHTS) % 5 > 0,
        classes=classes,
        threshold=threshold,
    )


@cache
def models() -> dict[str, Any]:
    X, y = ENCODER.transform(FRAME), np.array(LABELS)[(FRAME["a"] > 0).astype(int)]
    fitted = {"one": LogisticRegression().fit(X, y), "two": LogisticRegression(C=0.1).fit(X, y)}
    values = {"one": Ridge().fit(X, FRAME["a"])}
    columns = FRAME[["a", "b"]]
    limit = LogisticRegression().fit(columns, y)
    return {
        "mean": WeightedEnsembleClassifier.from_fitted(fitted, [1, 2], LABELS, encoder=ENCODER),
        "values": WeightedEnsembleRegressor.from_fitted(values, [1], encoder=ENCODER),
        "vote": PrunedVotingClassifier.from_votes(fitted, 1, LABELS, encoder=ENCODER),
        "network": network(),
        "limit": ThresholdClassifier.from_fitted(limit, 0.4, "yes", name="limit"),
        "mixture": MixtureClassifier.from_fitted(
            [network(), ConstantClassifier.from_label("yes", LABELS)], [0.4, 0.6]
        ),
    }


@pytest.fixture
def sent(tmp_path: Path) -> Any:
    """Return a function that writes a model, and a table of records beside it."""
    FRAME.to_csv(tmp_path / "data.csv", index=False)

    def write(kind: str) -> Path:
        save_model(models()[kind], tmp_path / kind)
        return tmp_path / kind

    return write


def refused(folder: Path, capsys: pytest.CaptureFixture[str], sentence: str) -> None:
    code = main(["predict", str(folder), str(folder.parent / "data.csv")])
    said = capsys.readouterr()
    assert (code, said.out, said.err.count("\n")) == (2, "", 1), said
    assert sentence in said.err


def with_feature(**changes: Any) -> dict[str, Any]:
    plain = json.loads(json.dumps(ENCODER.to_json()))
    kind = "categories" if "categories" in changes else "scale"
    next(row for row in plain["features"] if kind in row).update(changes)
    return {"encoder": plain}


# the shapes of these layers are those of the arrays, if products are counted in 64 bits
WRAPPED = [4, 5750715199577680180, 8164946821478352845, 4531082052653518594, 2]


@pytest.mark.parametrize(
    ("kind", "changes", "sentence"),
    [
        ("network", with_feature(scale=float("nan")), "numbers that standardise nothing"),
        ("network", with_feature(mean=float("inf")), "numbers that standardise nothing"),
        ("mean", with_feature(scale=0.0), "numbers that standardise nothing"),
        ("mean", with_feature(categories=["u", "u"]), "no list of different ones"),
        ("mean", with_feature(categories="uv"), "no list of different ones"),
        ("mean", {"weights": [1e308, 1e308]}, "whose sum is finite"),
        ("mixture", {"weights": [1e308, 1e308]}, "whose sum is finite"),
        ("network", {"classes": [2**63 + 1, 1]}, "classes: expected labels of at most 64 bits"),
        ("network", {"classes": ["a\0", "b"]}, "classes: expected labels of at most 64 bits"),
        ("network", {"sizes": [4, 3.9, 2]}, "sizes: expected whole numbers"),
        ("network", {"sizes": WRAPPED}, "of them, as long a mask"),
        ("mean", {"members": ["../x", "two"]}, "that can name a folder, found '../x'"),
        ("mean", {"weights": [1, -1]}, "weights: expected finite numbers from 0"),
        ("mean", {"weights": [1]}, "found 2 named"),
        ("mean", {"costs": {"time": {"unit": "s", "values": [1]}}}, "2 values of 'time'"),
        ("mean", {"costs": None}, "found it damaged"),
        ("mean", {"classes": ["a", "b"]}, "expected the classes"),
        ("limit", {"threshold": "NaN"}, "threshold: expected a finite number"),
        ("limit", {"positive": 7}, "found it damaged"),
        ("limit", {"classes": ["no", "maybe"]}, "classes: expected those of the model"),
        ("limit", {"features": ["a"]}, "features: expected those that the model reads"),
        ("limit", {"columns": 3}, "found it damaged"),
    ],
)
def test_descriptions_that_answer_something_else(kind, changes, sentence, sent, capsys):
    folder = sent(kind)
    describe_anew(folder, **changes)
    refused(folder, capsys, sentence)


def test_a_model_that_needs_very_many_columns_fills_no_terminal(sent, capsys):
    """The sentence named each of them: 12 MB of a million."""
    folder = sent("network")
    rows = [{"name": f"f{i}", "median": 0, "mean": 0, "scale": 1} for i in range(998)]
    describe_anew(folder, encoder={"named": True, "features": rows}, sizes=[998, 2])
    size = 998 * 2
    for name, count in (("weights", size), ("mask", size), ("biases", 2)):
        np.save(folder / f"{name}.npy", np.ones(count, dtype=np.float32))
    seal(folder)
    refused(folder, capsys, "'f98', 'f99' and 898 more, found none of those names")


@pytest.mark.parametrize("keeps", ["ab", ["a", "a"], [1], None])
def test_columns_to_keep_are_different_names(keeps, sent, capsys):
    """A thousand times the same name took a thousand times the memory of the table."""
    folder = sent("mean")
    describe_anew(folder, top={"keeps": keeps})
    refused(folder, capsys, "keeps: expected a list of different names of columns")


@pytest.mark.parametrize(
    "top",
    [{"answers": some} for some in ("ab", ["a"], {"a": "tensor"}, {"a": []})]
    + [{"answers": {"a": "string"}, "texts": some} for some in ("ab", ["a"], {"a": 1})],
)
def test_types_of_answers_are_known_names(top, sent):
    folder = sent("mean")
    describe_anew(folder, top=top)
    with pytest.raises(InputError, match="expected what save_model wrote, found it"):
        example_of(folder)


@pytest.mark.parametrize("odd", [np.nan, 0.5, 257])
def test_a_mask_is_checked_before_it_is_rounded(odd, sent, capsys):
    folder = sent("network")
    mask = np.load(folder / "mask.npy").astype(float)
    mask[1] = odd
    np.save(folder / "mask.npy", mask)
    seal(folder)
    refused(folder, capsys, "mask: expected 0 and 1, found other numbers")


def with_array(name: str, array: Any) -> tuple[Any, dict[str, bytes]]:
    content = io.BytesIO()
    np.save(content, array)

    def edit(schema: dict[str, Any]) -> None:
        schema["content"]["content"][name]["file"] = "forged.npy"

    return edit, {"forged.npy": content.getvalue()}


@pytest.mark.parametrize(
    ("kind", "name", "array", "sentence"),
    [
        ("mean", "classes_", np.array(["no", "no"]), "member 'one': expected the classes"),
        ("vote", "classes_", np.array([1, 1]), "member 'one': expected the classes"),
        ("mean", "intercept_", np.array([np.nan]), "'one': expected probabilities from 0 to 1"),
        ("vote", "intercept_", np.array([np.nan]), "'one': expected probabilities from 0 to 1"),
        ("values", "intercept_", np.array(np.nan), "member 'one': expected a finite answer"),
        ("limit", "intercept_", np.array([np.nan]), "limit: expected probabilities from 0 to 1"),
    ],
)
def test_estimators_whose_answers_are_none(kind, name, array, sentence, sent, capsys):
    folder = sent(kind)
    file = min(folder.rglob("*.skops"))
    edit, files = with_array(name, array)
    file.write_bytes(forged(file.read_bytes(), edit, **files))
    seal(folder)
    refused(folder, capsys, sentence)


def test_a_version_of_scikit_learn_leads_no_terminal(sent, capsys):
    """Its warning about another version was printed as the file spelled that."""
    folder = sent("mean")
    file = min(folder.rglob("*.skops"))

    def edit(schema: dict[str, Any]) -> None:
        version = schema["content"]["content"]["_sklearn_version"]
        version["content"] = json.dumps("1.0\x1b]0;owned\x07")

    file.write_bytes(forged(file.read_bytes(), edit))
    seal(folder)
    refused(folder, capsys, "LogisticRegression of no version")


def test_what_scikit_learn_says_is_one_line(sent, capsys):
    """Its messages have several, and so had the sentence about a forged file or a record."""
    tree = DecisionTreeClassifier(max_depth=1).fit(FRAME[["a", "b"]], FRAME["c"])
    content = io.BytesIO()
    np.save(content, np.array([2], dtype=np.int8))

    def edit(schema: dict[str, Any]) -> None:
        arguments = schema["content"]["content"]["tree_"]["__reduce__"]["args"]
        arguments["content"][1]["file"] = "forged.npy"

    file = forged(dump_estimator(tree, "tree"), edit, **{"forged.npy": content.getvalue()})
    with pytest.raises(InputError, match=r"damaged \(ValueError: n_classes .* dtype:\)$"):
        load_estimator(file, "tree")
    folder = sent("limit")
    (folder.parent / "data.csv").write_text("a,b\n1,\n")
    refused(folder, capsys, "data: expected records that limit takes, found: Input X contains NaN.")


def test_records_beyond_what_a_network_computes_have_no_answer(sent, capsys):
    """They were answered with the negative label, without a confidence."""
    folder = sent("network")
    records = pd.read_csv(folder.parent / "data.csv")
    records.loc[[2, 5], ["a", "b"]] = [1e300, -1e300]
    records.to_csv(folder.parent / "data.csv", index=False)
    data = str(folder.parent / "data.csv")
    assert main(["predict", str(folder), data, "--strict"]) == 2
    assert "network: expected a finite answer, found others in record 3" in capsys.readouterr().err
    assert main(["predict", str(folder), data]) == 0
    said = capsys.readouterr()
    answers = pd.read_csv(io.StringIO(said.out))
    assert np.flatnonzero(answers["label"].isna()).tolist() == [2, 5]
    assert "found others in record 6" in answers["error"][5]
    assert "Warning" not in said.err
    whole = load_model(folder).predict_table(FRAME)["label"].to_numpy()
    keep = answers["label"].notna()
    assert (answers["label"][keep] == whole[keep]).all()


def test_names_of_classes_and_units_are_text_in_readmes():
    check_markdown(card_text(network(CLASSES, 0.5).card(), {}))
    model = models()["mean"]
    costs = {"time": Cost(np.ones(2), CLASSES[1])}
    priced = WeightedEnsembleClassifier.from_fitted(
        dict(zip(model.names_, model.models_, strict=True)), [1, 1], LABELS, costs=costs
    )
    check_markdown(card_text(priced.card(), {}))


def test_a_number_of_hundreds_of_digits_spoils_its_record_alone():
    """Beside a text in the same column it ended the whole request, with an OverflowError."""
    records = pd.DataFrame({"a": ["x", 10**400, 0.5], "b": 0.0, "c": "u"})
    answers = network().answers(records, strict=False)
    assert answers["label"].isna().tolist() == [True, True, False]
    assert "expected finite numbers, found inf" in answers["error"][1]
