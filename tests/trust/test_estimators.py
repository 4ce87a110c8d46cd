"""Estimators in skops's format: what is honest comes back, what is forged ends in a sentence."""

import warnings
import zipfile
from contextlib import suppress
from io import BytesIO

import numpy as np
import pytest
from skops import io

from framework.errors import InputError
from framework.security import JSON_BYTES, dump_estimator, load_estimator
from tests.trust.fitted_models import fitted, records, selected, without_zeros
from tests.trust.forging import dict_node, forged, node_of, plain_node, tuple_node, with_attribute


def call(type_name, *args):
    """Return the node that makes skops call a type with arguments."""
    return node_of("ConstructorFromReduceNode", type_name, tuple_node(*args))


def partial_of(function, *args, **kwds):
    """Return the node of a partial application."""
    parts = {"func": function, "args": tuple_node(*args), "kwds": dict_node(**kwds)}
    return node_of("PartialNode", "functools.partial", {**parts, "namespace": plain_node(None)})


def identity_of(**options):
    """Return the node of a ``FunctionTransformer``, which calls nothing unless told to."""
    names = ("func", "inverse_func", "kw_args", "inv_kw_args", "feature_names_out")
    rest = {name: plain_node(None) for name in names}
    return node_of(
        "ObjectNode",
        "sklearn.preprocessing._function_transformer.FunctionTransformer",
        dict_node(**{**rest, **options}),
    )


def array_of(file, type_name="numpy.ndarray"):
    """Return the node of an array in a file."""
    return node_of("NdArrayNode", type_name, type="numpy", file=file)


def mapping(content, key_types, type_name="builtins.dict"):
    """Return the node of a mapping whose keys are made by these nodes."""
    return node_of("DictNode", type_name, content, key_types=key_types)


CHECK_ARRAY = node_of("FunctionNode", "sklearn.utils.validation.check_array")
TARGET = "TARGET"  # a file that is there; whoever writes to it has run code
SYSTEM = node_of("FunctionNode", "os.system")
COMMAND = f"echo forged > {TARGET}"
FORGED_NODES = {
    "a file opened": call("sklearn.datasets._rcv1.GzipFile", plain_node(TARGET), plain_node("wb")),
    "a port opened": call("sklearn.callback._transport.Listener"),
    "a thread": call("sklearn.callback._progressbar.Thread"),
    "a function": SYSTEM,
    "a function of scikit-learn": node_of(
        "FunctionNode", "sklearn.feature_selection._univariate_selection.f_classif"
    ),
    "a partial application": partial_of(SYSTEM, plain_node(COMMAND)),
    "a partial application of a check with arguments": partial_of(CHECK_ARRAY, plain_node([1])),
    "a partial application of a check with other options": partial_of(
        CHECK_ARRAY, dtype=SYSTEM, ensure_all_finite=plain_node(False)
    ),
    "a check": CHECK_ARRAY,
    "a partial application of scikit-learn's": call(
        "sklearn.compose._column_transformer.partial", node_of("TypeNode", "builtins.str")
    ),
    "a method": node_of(
        "MethodNode",
        "sklearn.naive_bayes.GaussianNB",
        {"func": "fit", "obj": node_of("ObjectNode", "sklearn.naive_bayes.GaussianNB")},
    ),
    "an operator": node_of(
        "OperatorFuncNode", "operator.attrgetter", attrs=tuple_node(plain_node("system"))
    ),
    "an operator of scikit-learn's": call(
        "sklearn.feature_selection._base.attrgetter", plain_node("__class__")
    ),
    "a call for keys": mapping(
        {COMMAND: plain_node(1)}, node_of("ListNode", "builtins.list", [SYSTEM])
    ),
    "keys that are no types": mapping(
        {COMMAND: plain_node(1)}, tuple_node(node_of("TypeNode", "builtins.str"))
    ),
    "a list of another class": node_of("ListNode", "sklearn.datasets._base.Path", []),
    "a mapping of another class": mapping(
        {}, node_of("ListNode", "builtins.list", []), "sklearn.datasets._rcv1.GzipFile"
    ),
    "a factory": node_of(
        "DefaultDictNode",
        "collections.defaultdict",
        {"main": dict_node(), "default_factory": SYSTEM},
    ),
    "a class": node_of("TypeNode", "subprocess.Popen"),
    "an object of a foreign class": node_of("ObjectNode", "pathlib.Path", dict_node()),
    "an object of scikit-learn's import": node_of(
        "ObjectNode", "sklearn.datasets._lfw.Memory", dict_node(location=plain_node("."))
    ),
    "a transformer that calls": identity_of(func=SYSTEM),
    "a transformer that calls a type": identity_of(func=node_of("TypeNode", "builtins.str")),
    "a transformer that calls back": identity_of(inverse_func=SYSTEM),
    "a transformer with arguments": identity_of(kw_args=dict_node(command=plain_node(COMMAND))),
    "a transformer that names": identity_of(feature_names_out=SYSTEM),
    "a tuple of another class": node_of(
        "TupleNode", "sklearn.datasets._base.RemoteFileMetadata", []
    ),
    "a loss of another class": node_of(
        "LossNode",
        "sklearn.datasets._rcv1.GzipFile",
        dict_node(),
        __reduce__={"args": tuple_node(plain_node(TARGET), plain_node("wb"))},
    ),
    "an array of another class": array_of("pickled.npy", "numpy.memmap"),
    "an array of pickles": array_of("pickled.npy"),
    "an array of nothing": array_of("gone.npy"),
    "an array of a huge shape": array_of("huge.npy"),
    "a sparse matrix": node_of(
        "SparseMatrixNode", "scipy.sparse._csr.csr_matrix", type="scipy", file="pickled.npy"
    ),
    "a random state of another class": node_of(
        "RandomStateNode", "sklearn.callback._transport.Listener", dict_node()
    ),
    "a random generator of another class": node_of(
        "RandomGeneratorNode",
        "numpy.random._generator.Generator",
        {"bit_generator": dict_node(bit_generator=plain_node("seed")), "seed_seq": dict_node()},
    ),
    "bytes": node_of("BytesNode", "builtins.bytes", file="pickled.npy"),
    "a reference": {**node_of("CachedNode", "builtins.str"), "__id__": 1},
    "an unknown kind": node_of("EvilNode", "builtins.str"),
    "no node": {"x": 1},
    "deep nesting": None,  # made below
}


def pickled():
    buffer = BytesIO()
    np.save(buffer, np.array([{}], dtype=object), allow_pickle=True)
    return buffer.getvalue()


def huge():
    header = BytesIO()
    plain = {"descr": "<f8", "fortran_order": False, "shape": (10**12,)}
    np.lib.format.write_array_header_1_0(header, plain)
    return header.getvalue() + bytes(80)


def deep():
    node = plain_node(1)
    for _ in range(300):
        node = tuple_node(node)
    return node


@pytest.fixture(scope="module")
def linear():
    return dump_estimator(fitted("linear"), "linear")


@pytest.mark.parametrize("what", FORGED_NODES)
def test_what_would_run_code_is_refused_before_anything_is_made(
    linear, what, tmp_path, monkeypatch
):
    monkeypatch.chdir(tmp_path)
    (tmp_path / TARGET).write_text("precious")
    files = {"pickled.npy": pickled(), "huge.npy": huge()}
    content = with_attribute(linear, "penalty", FORGED_NODES[what] or deep(), **files)
    with pytest.raises(InputError) as caught:
        load_estimator(content, "forged.skops")
    assert str(caught.value).startswith("forged.skops: expected ")
    assert "\n" not in str(caught.value)
    assert (tmp_path / TARGET).read_text() == "precious"


def test_a_node_cannot_stand_for_another_of_its_number(linear):
    """skops takes the first node of a number for all; what is checked is what is made."""

    def edit(schema):
        state = schema["content"]["content"]
        state["classes_"]["__id__"] = state["penalty"]["__id__"] = 7

    model = load_estimator(forged(linear, edit), "forged")
    assert model.classes_.tolist() == [0, 1, 2]


@pytest.mark.parametrize("protocol", [0, 1, True, "2", None, 10**9])
def test_nodes_of_other_versions_are_refused(linear, protocol):
    content = forged(linear, lambda schema: schema.update(protocol=protocol))
    with pytest.raises(InputError, match="protocol"):
        load_estimator(content, "forged")


def test_zips_that_are_no_files_of_an_estimator(linear):
    twice = BytesIO(linear)
    with zipfile.ZipFile(twice, "a") as file, pytest.warns(UserWarning, match="Duplicate"):
        file.writestr("schema.json", "{}")
    bomb = BytesIO()
    with zipfile.ZipFile(bomb, "w", zipfile.ZIP_DEFLATED) as file:
        file.writestr("schema.json", b" " * (JSON_BYTES + 1))
    for content in (b"", b"PK", pickled(), twice.getvalue(), bomb.getvalue(), linear[:-30]):
        with pytest.raises(InputError, match=r"^forged: expected "):
            load_estimator(content, "forged")


def tree_with(**changes):
    """Return a tree whose compiled part was given other nodes, as a forger would write them."""
    model = fitted("tree")
    state = model.tree_.__getstate__()
    for field, (place, value) in changes.items():
        state["nodes"][field][place] = value
    model.tree_.__setstate__(state)
    return model


def with_handle(change):
    model = fitted("lightgbm")
    state = model._Booster.__getstate__()

    def edit(schema):
        booster = schema["content"]["content"]["_Booster"]["content"]["content"]
        booster["_handle"] = plain_node(change(state["_handle"]))

    return forged(io.dumps(model), edit)


def changed(name, change):
    model = MADE[name]() if name in MADE else fitted(name)
    change(model)
    return io.dumps(model)


def put(model, **state):
    vars(model).update(state)


def histogram(field, value):
    """Return a histogram boosting whose first tree has another root."""
    return changed("histogram", lambda m: m._predictors[0][0].nodes[field].__setitem__(0, value))


def fewer_sets(model):
    tree = model._predictors[0][0]
    tree.raw_left_cat_bitsets = np.ascontiguousarray(tree.raw_left_cat_bitsets[:, :1])


def sparse_array(part, place):
    """Return a linear model with a part of its sparse coefficients too large."""
    return changed("sparse", lambda m: getattr(m.coef_, part).__setitem__(place, 10**6))


def booster(old, new):
    """Return a booster with the first of a piece of its text replaced."""
    return with_handle(lambda text: text.replace(old, new, 1))


MADE = {"sparse": without_zeros, "selected": selected}
UNSOUND = {
    "a child far away": lambda: io.dumps(tree_with(left_child=(0, 10**9))),
    "a child before its parent": lambda: io.dumps(tree_with(right_child=(0, 0))),
    "a feature that is not there": lambda: io.dumps(tree_with(feature=(0, 3))),
    "a tree of more features": lambda: changed("tree", lambda m: put(m, n_features_in_=2)),
    "a forest of fewer features": lambda: changed("forest", lambda m: put(m, n_features_in_=2)),
    "a boosted model of other trees": lambda: changed(
        "boosting", lambda m: m.estimators_.__setitem__((0, 0), m.init_)
    ),
    "a boosted model with too short a start": lambda: changed(
        "boosting", lambda m: put(m, estimators_=np.repeat(m.estimators_, 2, axis=1))
    ),
    "a histogram tree that does not end": lambda: histogram("left", 0),
    "a histogram tree of other features": lambda: histogram("feature_idx", 99),
    "a category's set that is not there": lambda: changed(
        "categories", lambda m: m._predictors[0][0].nodes["bitset_idx"].__iadd__(99)
    ),
    "sets of too few categories": lambda: changed("categories", fewer_sets),
    "categories where there are none": lambda: changed(
        "categories", lambda m: m._bin_mapper.is_categorical_.fill(False)
    ),
    "a sparse array that leads out": lambda: sparse_array("indices", 0),
    "a sparse array of too many rows": lambda: sparse_array("indptr", -1),
    "a selection by what is private": lambda: changed(
        "selected", lambda m: m.set_params(importance_getter="__init__.__globals__")
    ),
    "neighbours of no class": lambda: changed("near", lambda m: m._y.__setitem__(0, 99)),
    "neighbours of other features": lambda: changed(
        "near_brute", lambda m: put(m, _fit_X=m._fit_X[:, :2])
    ),
    "a metric that calls": lambda: changed("near", lambda m: put(m, metric=None)),
    "too many support vectors": lambda: changed(
        "calibrated_svm",
        lambda m: m.calibrated_classifiers_[0].estimator._n_support.__setitem__(0, 99),
    ),
    "a million threads": lambda: changed("forest", lambda m: put(m, n_jobs=10**6)),
    "a leaf that is not there": lambda: booster("left_child=", "left_child=-99 "),
    "a feature of a booster that is not there": lambda: booster("feature_idx=2", "feature_idx=0"),
    "a booster of more outputs": lambda: booster("num_class=3", "num_class=1"),
    "a booster whose blocks lie elsewhere": lambda: booster("tree_sizes=", "tree_sizes=1"),
    "a booster without text": lambda: with_handle(lambda text: None),
    "a parameter of LightGBM": lambda: changed(
        "lightgbm", lambda m: m.set_params(boosting_type="gbdt machines=10.0.0.1:80")
    ),
}


@pytest.mark.parametrize("what", UNSOUND)
def test_what_would_lead_compiled_code_astray_is_refused(what):
    content = UNSOUND[what]()
    with pytest.raises(InputError, match=r"^forged: expected a model, found it damaged"):
        load_estimator(content, "forged")


@pytest.mark.parametrize("name", ["tree", "near", "near_ball", "lightgbm", "boosting", "linear"])
def test_flipped_bits_end_in_a_sentence_or_in_a_model(name):
    X, _ = records()
    content = dump_estimator(fitted(name), name)
    with zipfile.ZipFile(BytesIO(content)) as file:
        arrays = {n: file.read(n) for n in file.namelist() if n.endswith(".npy")}
    rng = np.random.default_rng(0)
    for _ in range(30):
        chosen = str(rng.choice(list(arrays)))
        flipped = bytearray(arrays[chosen])
        flipped[rng.integers(len(flipped))] ^= 1 << rng.integers(8)
        with warnings.catch_warnings(), suppress(InputError):
            warnings.simplefilter("ignore")
            again = load_estimator(
                forged(content, lambda schema: None, **{chosen: bytes(flipped)}), name
            )
            with suppress(Exception):  # what asks it turns that into a sentence
                again.predict_proba(X)
