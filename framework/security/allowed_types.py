"""The types that a file of an estimator may hold: a fixed list, and the classes that users trust.

Each is named by the module that defines it. A type belongs here if no value of its attributes can
make it run code, open a file or reach the network when the object is made or predicts. So no type
here takes a callable: selectors with a score function, functions, partial applications, bound
methods and operators are excluded, and ``FunctionTransformer`` is accepted only without a function
(``ColumnTransformer`` makes such ones for ``"passthrough"``).
"""

from __future__ import annotations

import os
import re
from collections.abc import Sequence

from framework import registry
from framework.errors import InputError

_VARIABLE = "PARETOLAB_TRUST"  # passes the trusted classes on to child processes and workers


def _named(template: str, names: str) -> frozenset[str]:
    """Return the full names of types; ``names`` is separated by blanks."""
    return frozenset(template.format(name) for name in names.split())


_BY_MODULE = {
    "lightgbm.basic": "Booster",
    "lightgbm.sklearn": "LGBMClassifier LGBMRegressor",
    "sklearn._loss.link": "HalfLogitLink IdentityLink Interval LogLink LogitLink MultinomialLogit",
    "sklearn._loss.loss": (
        "AbsoluteError ExponentialLoss HalfBinomialLoss HalfGammaLoss HalfMultinomialLoss "
        "HalfPoissonLoss HalfSquaredError HalfTweedieLoss HalfTweedieLossIdentity HuberLoss "
        "PinballLoss"
    ),
    "sklearn.calibration": (
        "CalibratedClassifierCV _CalibratedClassifier _SigmoidCalibration _TemperatureScaling"
    ),
    "sklearn.compose._column_transformer": "ColumnTransformer make_column_selector",
    "sklearn.compose._target": "TransformedTargetRegressor",
    "sklearn.cross_decomposition._pls": "CCA PLSCanonical PLSRegression PLSSVD",
    "sklearn.decomposition._factor_analysis": "FactorAnalysis",
    "sklearn.decomposition._fastica": "FastICA",
    "sklearn.decomposition._incremental_pca": "IncrementalPCA",
    "sklearn.decomposition._kernel_pca": "KernelPCA",
    "sklearn.decomposition._pca": "PCA",
    "sklearn.decomposition._truncated_svd": "TruncatedSVD",
    "sklearn.discriminant_analysis": "LinearDiscriminantAnalysis QuadraticDiscriminantAnalysis",
    "sklearn.dummy": "DummyClassifier DummyRegressor",
    "sklearn.ensemble._bagging": "BaggingClassifier BaggingRegressor",
    "sklearn.ensemble._forest": (
        "ExtraTreesClassifier ExtraTreesRegressor RandomForestClassifier RandomForestRegressor "
        "RandomTreesEmbedding"
    ),
    "sklearn.ensemble._gb": "GradientBoostingClassifier GradientBoostingRegressor",
    "sklearn.ensemble._hist_gradient_boosting.binning": "_BinMapper",
    "sklearn.ensemble._hist_gradient_boosting.gradient_boosting": (
        "HistGradientBoostingClassifier HistGradientBoostingRegressor"
    ),
    "sklearn.ensemble._hist_gradient_boosting.predictor": "TreePredictor",
    "sklearn.ensemble._stacking": "StackingClassifier StackingRegressor",
    "sklearn.ensemble._voting": "VotingClassifier VotingRegressor",
    "sklearn.ensemble._weight_boosting": "AdaBoostClassifier AdaBoostRegressor",
    "sklearn.feature_extraction.text": "TfidfTransformer",
    "sklearn.feature_selection._from_model": "SelectFromModel",
    "sklearn.feature_selection._rfe": "RFE RFECV",
    "sklearn.feature_selection._sequential": "SequentialFeatureSelector",
    "sklearn.feature_selection._variance_threshold": "VarianceThreshold",
    "sklearn.frozen._frozen": "FrozenEstimator",
    "sklearn.gaussian_process._gpc": (
        "GaussianProcessClassifier _BinaryGaussianProcessClassifierLaplace"
    ),
    "sklearn.gaussian_process._gpr": "GaussianProcessRegressor",
    "sklearn.gaussian_process.kernels": (
        "CompoundKernel ConstantKernel DotProduct ExpSineSquared Exponentiation Hyperparameter "
        "Matern PairwiseKernel Product RBF RationalQuadratic Sum WhiteKernel"
    ),
    "sklearn.impute._base": "MissingIndicator SimpleImputer",
    "sklearn.impute._iterative": "IterativeImputer",
    "sklearn.impute._knn": "KNNImputer",
    "sklearn.isotonic": "IsotonicRegression",
    "sklearn.kernel_approximation": (
        "AdditiveChi2Sampler Nystroem PolynomialCountSketch RBFSampler SkewedChi2Sampler"
    ),
    "sklearn.kernel_ridge": "KernelRidge",
    "sklearn.linear_model._base": "LinearRegression",
    "sklearn.linear_model._bayes": "ARDRegression BayesianRidge",
    "sklearn.linear_model._coordinate_descent": (
        "ElasticNet ElasticNetCV Lasso LassoCV MultiTaskElasticNet MultiTaskElasticNetCV "
        "MultiTaskLasso MultiTaskLassoCV"
    ),
    "sklearn.linear_model._glm.glm": "GammaRegressor PoissonRegressor TweedieRegressor",
    "sklearn.linear_model._huber": "HuberRegressor",
    "sklearn.linear_model._least_angle": "Lars LarsCV LassoLars LassoLarsCV LassoLarsIC",
    "sklearn.linear_model._logistic": "LogisticRegression LogisticRegressionCV",
    "sklearn.linear_model._omp": "OrthogonalMatchingPursuit OrthogonalMatchingPursuitCV",
    "sklearn.linear_model._passive_aggressive": (
        "PassiveAggressiveClassifier PassiveAggressiveRegressor"
    ),
    "sklearn.linear_model._perceptron": "Perceptron",
    "sklearn.linear_model._quantile": "QuantileRegressor",
    "sklearn.linear_model._ransac": "RANSACRegressor",
    "sklearn.linear_model._ridge": "Ridge RidgeCV RidgeClassifier RidgeClassifierCV",
    "sklearn.linear_model._stochastic_gradient": "SGDClassifier SGDRegressor",
    "sklearn.linear_model._theil_sen": "TheilSenRegressor",
    "sklearn.model_selection._classification_threshold": "FixedThresholdClassifier",
    "sklearn.model_selection._split": (
        "GroupKFold GroupShuffleSplit KFold LeaveOneGroupOut LeaveOneOut PredefinedSplit "
        "ShuffleSplit StratifiedGroupKFold StratifiedKFold StratifiedShuffleSplit TimeSeriesSplit"
    ),
    "sklearn.multiclass": (
        "OneVsOneClassifier OneVsRestClassifier OutputCodeClassifier _ConstantPredictor"
    ),
    "sklearn.multioutput": (
        "ClassifierChain MultiOutputClassifier MultiOutputRegressor RegressorChain"
    ),
    "sklearn.naive_bayes": "BernoulliNB CategoricalNB ComplementNB GaussianNB MultinomialNB",
    "sklearn.neighbors._classification": "KNeighborsClassifier RadiusNeighborsClassifier",
    "sklearn.neighbors._nca": "NeighborhoodComponentsAnalysis",
    "sklearn.neighbors._nearest_centroid": "NearestCentroid",
    "sklearn.neighbors._regression": "KNeighborsRegressor RadiusNeighborsRegressor",
    "sklearn.neighbors._unsupervised": "NearestNeighbors",
    "sklearn.neural_network._multilayer_perceptron": "MLPClassifier MLPRegressor",
    "sklearn.neural_network._rbm": "BernoulliRBM",
    "sklearn.neural_network._stochastic_optimizers": "AdamOptimizer SGDOptimizer",
    "sklearn.pipeline": "FeatureUnion Pipeline",
    "sklearn.preprocessing._data": (
        "Binarizer KernelCenterer MaxAbsScaler MinMaxScaler Normalizer PowerTransformer "
        "QuantileTransformer RobustScaler StandardScaler"
    ),
    "sklearn.preprocessing._discretization": "KBinsDiscretizer",
    "sklearn.preprocessing._encoders": "OneHotEncoder OrdinalEncoder",
    "sklearn.preprocessing._function_transformer": "FunctionTransformer",
    "sklearn.preprocessing._label": "LabelBinarizer LabelEncoder",
    "sklearn.preprocessing._polynomial": "PolynomialFeatures",
    "sklearn.preprocessing._target_encoder": "TargetEncoder",
    "sklearn.random_projection": "GaussianRandomProjection SparseRandomProjection",
    "sklearn.semi_supervised._label_propagation": "LabelPropagation LabelSpreading",
    "sklearn.semi_supervised._self_training": "SelfTrainingClassifier",
    "sklearn.svm._classes": "LinearSVC LinearSVR NuSVC NuSVR SVC SVR",
    "sklearn.tree._classes": (
        "DecisionTreeClassifier DecisionTreeRegressor ExtraTreeClassifier ExtraTreeRegressor"
    ),
}

OBJECTS = frozenset(
    f"{module}.{name}" for module, names in _BY_MODULE.items() for name in names.split()
)
"""Python objects: estimators, and the parts of which scikit-learn and LightGBM make them."""

TREE = "sklearn.tree._tree.Tree"
SEARCH_TREES = frozenset(
    {"sklearn.neighbors._kd_tree.KDTree", "sklearn.neighbors._ball_tree.BallTree"}
)
DISTANCES = _named(
    "sklearn.metrics._dist_metrics.{}Distance64",
    "BrayCurtis Canberra Chebyshev Dice Euclidean Hamming Jaccard Manhattan Minkowski "
    "RogersTanimoto RussellRao SokalSneath",
)
"""Compiled objects whose state is checked number by number before they are made."""

LOSSES = _named(
    "sklearn._loss._loss.Cy{}",
    "AbsoluteError ExponentialLoss HalfBinomialLoss HalfGammaLoss HalfMultinomialLoss "
    "HalfPoissonLoss HalfSquaredError HalfTweedieLoss HalfTweedieLossIdentity HuberLoss "
    "PinballLoss",
) | _named(
    "sklearn.linear_model._sgd_fast.{}",
    "EpsilonInsensitive Hinge ModifiedHuber SquaredEpsilonInsensitive SquaredHinge",
)
"""Compiled loss functions, made of a few numbers."""

IDENTITY = "sklearn.preprocessing._function_transformer.FunctionTransformer"
"""Accepted only if it returns its input, or checks it by ``CHECK``."""
CHECK = "sklearn.utils.validation.check_array"
"""The function by which boosting on histograms checks the columns that are no categories."""

BIT_GENERATORS = frozenset({"MT19937", "PCG64", "PCG64DXSM", "Philox", "SFC64"})
"""The bit generators of numpy."""

SPARSE = frozenset(
    f"scipy.sparse._{kind}.{kind}_{form}" for kind in ("csc", "csr") for form in ("array", "matrix")
)
TUPLES = frozenset({"builtins.tuple", "sklearn.impute._iterative._ImputerTriplet"})
MAPPINGS = frozenset({"builtins.dict", "collections.OrderedDict", "sklearn.utils._bunch.Bunch"})
SCALARS = _named(
    "numpy.{}",
    "bool bool_ float16 float32 float64 int8 int16 int32 int64 str_ uint8 uint16 uint32 uint64",
)
TYPES = (
    SCALARS
    | {f"builtins.{name}" for name in ("bool", "float", "int", "object", "str")}
    | {"collections.OrderedDict", "numpy.number", "numpy.object_"}
)
"""Types that a file may name as such: of keys, of elements, of a mapping's default values."""


def trust(paths: Sequence[str]) -> None:
    """Let classes be imported and run, in this process and those that it starts.

    Raises
    ------
    InputError
        One of the paths is not the dotted path of a class.
    """
    for path in paths:
        if not re.fullmatch(r"[A-Za-z_]\w*(\.[A-Za-z_]\w*)+", path):
            raise InputError(f"--trust: expected a class such as mine.model.Mine, found {path!r}")
    if paths:
        os.environ[_VARIABLE] = ",".join(dict.fromkeys([*trusted(), *paths]))


def trusted() -> list[str]:
    """Return the dotted paths of the classes that the user trusts."""
    return [path for path in os.environ.get(_VARIABLE, "").split(",") if path]


def trusted_types() -> list[str]:
    """Return the full names of the classes that files may hold in addition to the fixed list.

    These are the classes that the user trusts and those that installed packages register.
    """
    names = registry.names("classifiers")
    classes = [registry.load("classifiers", name) for name in names]
    return [*trusted(), *(f"{cls.__module__}.{cls.__qualname__}" for cls in classes)]
