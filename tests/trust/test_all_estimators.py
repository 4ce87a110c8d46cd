"""Every estimator of scikit-learn: it comes back as it was, or is refused for a reason we name."""

import warnings

import numpy as np
import pandas as pd
import pytest
from lightgbm import LGBMClassifier, LGBMRegressor
from scipy import sparse
from sklearn import (
    calibration,
    compose,
    ensemble,
    feature_selection,
    frozen,
    impute,
    linear_model,
    model_selection,
    neighbors,
    pipeline,
    preprocessing,
    random_projection,
    svm,
    tree,
)
from sklearn.experimental import enable_iterative_imputer  # noqa: F401
from sklearn.utils import all_estimators
from sklearn.utils._test_common.instance_generator import _construct_instances

from framework.errors import InputError
from framework.security import dump_estimator, load_estimator

REFUSED = {
    "calls a function or a scorer that it is given": (
        "GenericUnivariateSelect GridSearchCV HalvingGridSearchCV HalvingRandomSearchCV "
        "RandomizedSearchCV SelectFdr SelectFpr SelectFwe SelectKBest SelectPercentile "
        "TunedThresholdClassifierCV"
    ),
    "holds a function": "SplineTransformer",
    "finds groups, outliers or densities; classifies nothing": (
        "AffinityPropagation AgglomerativeClustering BayesianGaussianMixture Birch "
        "BisectingKMeans DBSCAN EllipticEnvelope EmpiricalCovariance FeatureAgglomeration "
        "GaussianMixture GraphicalLasso GraphicalLassoCV HDBSCAN IsolationForest KMeans "
        "KernelDensity LedoitWolf LocalOutlierFactor MeanShift MinCovDet MiniBatchKMeans OAS "
        "OPTICS OneClassSVM SGDOneClassSVM ShrunkCovariance SpectralBiclustering "
        "SpectralClustering SpectralCoclustering"
    ),
    "draws records in a plane or in graphs": (
        "ClassicalMDS Isomap KNeighborsTransformer LocallyLinearEmbedding MDS "
        "RadiusNeighborsTransformer SpectralEmbedding TSNE"
    ),
    "solves a program in compiled code for each record": (
        "DictionaryLearning LatentDirichletAllocation MiniBatchDictionaryLearning MiniBatchNMF "
        "MiniBatchSparsePCA NMF SparseCoder SparsePCA"
    ),
    "reads texts, pictures or mappings, not tables": (
        "CountVectorizer DictVectorizer FeatureHasher HashingVectorizer PatchExtractor "
        "TfidfVectorizer"
    ),
    "is about labels": "MultiLabelBinarizer",
}
REASONS = {name: reason for reason, names in REFUSED.items() for name in names.split()}
ASKED = ("predict_proba", "predict", "decision_function", "transform")
NAMES = [name for name, _ in all_estimators() if name != "FrozenEstimator"]  # made below


def records():
    rng = np.random.default_rng(0)
    X = np.abs(rng.normal(size=(40, 4)))
    return X, (X[:, 0] > X[:, 1]).astype(int)


def fitted(name):
    """Yield what scikit-learn's own tests make of a class, fitted, with what it can be asked."""
    X, y = records()
    values = X[:, 0] + X[:, 1]
    for model in _construct_instances(dict(all_estimators())[name]):
        if "precomputed" in str(vars(model).values()):
            continue  # it is asked for distances, not for records
        wanted = values if model.__sklearn_tags__().estimator_type == "regressor" else y
        both = np.column_stack([wanted, wanted])
        for given in ((X, wanted), (wanted,), (X[:, 0], wanted), (X, both), (X @ X.T, wanted)):
            try:
                model.fit(*given)
            except (ValueError, TypeError, AttributeError, IndexError):
                continue  # it takes other records: the next
            yield model, given[0]
            break


def assert_comes_back(model, X, name):
    again = load_estimator(dump_estimator(model, name), name)
    for method in ASKED:
        if not hasattr(model, method):
            continue
        expected, found = getattr(model, method)(X), getattr(again, method)(X)
        if sparse.issparse(expected):
            expected, found = expected.toarray(), found.toarray()
        if name.startswith("Label"):  # the product's order follows the array's place in memory
            np.testing.assert_allclose(found, expected, rtol=1e-12)
        else:
            np.testing.assert_array_equal(found, expected)


@pytest.mark.quick(60)
@pytest.mark.parametrize("name", NAMES)
@pytest.mark.filterwarnings("ignore")
def test_it_comes_back_or_is_refused_for_a_reason(name):
    if name in REASONS:
        for model in _construct_instances(dict(all_estimators())[name]):
            with pytest.raises(InputError, match=rf"^{name}: expected (types|a model that can) "):
                dump_estimator(model, name)
        return
    made = [*fitted(name)]
    for model, X in made:
        if "stratified" not in str(vars(model)):  # which answers by chance
            assert_comes_back(model, X, name)
    assert made


def table():
    """Return a table as users have: gaps, words, truth values and categories."""
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(
        {
            "number": rng.normal(size=90),
            "whole": rng.integers(0, 5, 90).astype(float),
            "word": rng.choice(["x", "y", "z"], 90),
            "truth": rng.choice([True, False], 90),
        }
    )
    frame.loc[::7, "number"] = np.nan
    return frame, np.where(frame["whole"] > 2, "yes", np.where(frame["truth"], "no", "maybe"))


def prepared(model, **options):
    numbers = pipeline.make_pipeline(impute.SimpleImputer(), preprocessing.StandardScaler())
    words = pipeline.make_pipeline(
        impute.SimpleImputer(strategy="most_frequent"),
        preprocessing.OneHotEncoder(handle_unknown="ignore", **options),
    )
    columns = compose.make_column_transformer(
        (numbers, ["number", "whole"]), (words, ["word"]), remainder="passthrough"
    )
    return pipeline.make_pipeline(columns, model)


def linear():
    return linear_model.LogisticRegression()


def behind(transformer, columns, model=None, remainder="drop"):
    """Return a model behind a transformer of some columns."""
    made = compose.make_column_transformer((transformer, columns), remainder=remainder)
    return pipeline.make_pipeline(made, model or linear())


OF_TABLES = {
    "imputed, scaled and encoded": lambda: prepared(linear()),
    "dense": lambda: prepared(linear(), sparse_output=False).set_output(transform="pandas"),
    "stacked": lambda: ensemble.StackingClassifier(
        [("a", prepared(linear())), ("b", prepared(tree.DecisionTreeClassifier(max_depth=3)))], cv=2
    ),
    "chosen by type": lambda: behind(
        preprocessing.OrdinalEncoder(),
        compose.make_column_selector(dtype_exclude=np.number),
        ensemble.HistGradientBoostingClassifier(max_iter=3),
        remainder="passthrough",
    ),
    "imputed in turns": lambda: behind(impute.IterativeImputer(max_iter=2), ["number", "whole"]),
    "imputed from neighbours, marked": lambda: behind(
        impute.KNNImputer(add_indicator=True), ["number", "whole"]
    ),
    "encoded by the target": lambda: behind(preprocessing.TargetEncoder(), ["word"]),
}


@pytest.mark.quick(7)
@pytest.mark.parametrize("words", ["str", "object", "category"])
@pytest.mark.parametrize("what", OF_TABLES)
@pytest.mark.filterwarnings("ignore")
def test_pipelines_of_tables_come_back(what, words):
    frame, labels = table()
    frame["word"] = frame["word"].astype(words)
    assert_comes_back(OF_TABLES[what]().fit(frame, labels), frame, what)


def test_boosting_with_categories_comes_back():
    frame, labels = table()
    frame = frame.astype({"word": "category"})
    model = ensemble.HistGradientBoostingClassifier(max_iter=5, categorical_features="from_dtype")
    assert_comes_back(model.fit(frame, labels), frame, "histogram")
    model = LGBMClassifier(n_estimators=3, verbose=-1, n_jobs=1, monotone_constraints=[1, 0, 0])
    some = frame[["number", "whole", "word"]]
    assert_comes_back(model.fit(some, labels), some, "lightgbm")
    values = LGBMRegressor(n_estimators=3, verbose=-1, n_jobs=1).fit(some, frame["whole"])
    assert_comes_back(values, some, "lightgbm")


OF_NUMBERS = {
    "a frozen model, calibrated": lambda X, y: calibration.CalibratedClassifierCV(
        frozen.FrozenEstimator(linear().fit(X, y)), method="temperature"
    ),
    "splits of its own": lambda X, y: calibration.CalibratedClassifierCV(
        svm.LinearSVC(), cv=model_selection.StratifiedKFold(3, shuffle=True, random_state=0)
    ),
    "a union": lambda X, y: pipeline.make_pipeline(
        pipeline.FeatureUnion([("a", preprocessing.StandardScaler()), ("b", "passthrough")]),
        linear(),
    ),
    "features left out": lambda X, y: pipeline.make_pipeline(
        feature_selection.SelectFromModel(tree.DecisionTreeClassifier()), linear()
    ),
    "a sparse projection": lambda X, y: pipeline.make_pipeline(
        random_projection.SparseRandomProjection(3, random_state=0), linear()
    ),
    "hamming": lambda X, y: neighbors.KNeighborsClassifier(metric="hamming", algorithm="ball_tree"),
    "a state of its own": lambda X, y: ensemble.RandomForestClassifier(
        3, random_state=np.random.RandomState(0)
    ),
}


@pytest.mark.parametrize("what", OF_NUMBERS)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.filterwarnings("ignore")
def test_models_of_numbers_come_back(what, dtype):
    X, y = records()
    X = X.astype(dtype)
    assert_comes_back(OF_NUMBERS[what](X, y).fit(X, y), X, what)


def test_sparse_coefficients_come_back():
    X, y = records()
    model = linear_model.SGDClassifier(penalty="l1", random_state=0).fit(X, y).sparsify()
    assert_comes_back(model, X, "sparse")


SENTENCES = {
    "the function numpy.log1p, and no function is taken from a file": lambda: (
        preprocessing.FunctionTransformer(np.log1p)
    ),
    r"the function .*lambda": lambda: neighbors.KNeighborsClassifier(weights=lambda d: 1 / (1 + d)),
    r"GridSearchCV \(it calls a scorer; take its best_estimator_\)": lambda: (
        model_selection.GridSearchCV(linear(), {"C": [1.0]})
    ),
    r"SelectKBest \(it calls a function; take its choice of columns": lambda: (
        feature_selection.SelectKBest(k=2)
    ),
    "KNeighborsClassifier with sparse records of neighbours, which is not": lambda: (
        neighbors.KNeighborsClassifier()
    ),
    "SVC with sparse support vectors, which is not": lambda: svm.SVC(),
}


@pytest.mark.parametrize("sentence", SENTENCES)
def test_what_is_refused_is_refused_before_it_is_written(sentence):
    X, y = records()
    if "sparse" in sentence:
        X = sparse.csr_matrix(X)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = SENTENCES[sentence]().fit(X, y)
    with pytest.raises(InputError, match=sentence):
        dump_estimator(model, "mine")
