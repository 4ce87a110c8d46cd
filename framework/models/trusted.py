"""The types that a file of an estimator may hold: a fixed list, each by the module that defines it.

A type belongs here if nothing that an attribute of it can be set to makes it run code, open a file
or reach the network when the object is made or asked for predictions. So nothing here takes a
callable: ``FunctionTransformer``, selectors with a score function, functions, partial
applications, bound methods and operators stay out.
"""

from __future__ import annotations

_BY_MODULE = {
    "lightgbm.basic": "Booster",
    "lightgbm.sklearn": "LGBMClassifier LGBMRegressor",
    "sklearn._loss.link": "HalfLogitLink IdentityLink Interval LogLink LogitLink MultinomialLogit",
    "sklearn._loss.loss": (
        "AbsoluteError ExponentialLoss HalfBinomialLoss HalfGammaLoss HalfMultinomialLoss "
        "HalfPoissonLoss HalfSquaredError HalfTweedieLoss HalfTweedieLossIdentity HuberLoss "
        "PinballLoss"
    ),
    "sklearn.calibration": "CalibratedClassifierCV _CalibratedClassifier _SigmoidCalibration",
    "sklearn.compose._column_transformer": "ColumnTransformer",
    "sklearn.compose._target": "TransformedTargetRegressor",
    "sklearn.cross_decomposition._pls": "PLSRegression",
    "sklearn.decomposition._pca": "PCA",
    "sklearn.decomposition._truncated_svd": "TruncatedSVD",
    "sklearn.discriminant_analysis": "LinearDiscriminantAnalysis QuadraticDiscriminantAnalysis",
    "sklearn.dummy": "DummyClassifier DummyRegressor",
    "sklearn.ensemble._bagging": "BaggingClassifier BaggingRegressor",
    "sklearn.ensemble._forest": (
        "ExtraTreesClassifier ExtraTreesRegressor RandomForestClassifier RandomForestRegressor"
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
    "sklearn.feature_selection._variance_threshold": "VarianceThreshold",
    "sklearn.gaussian_process._gpc": (
        "GaussianProcessClassifier _BinaryGaussianProcessClassifierLaplace"
    ),
    "sklearn.gaussian_process._gpr": "GaussianProcessRegressor",
    "sklearn.gaussian_process.kernels": (
        "ConstantKernel DotProduct ExpSineSquared Exponentiation Matern Product RBF "
        "RationalQuadratic Sum WhiteKernel"
    ),
    "sklearn.impute._base": "MissingIndicator SimpleImputer",
    "sklearn.impute._knn": "KNNImputer",
    "sklearn.isotonic": "IsotonicRegression",
    "sklearn.kernel_approximation": "Nystroem RBFSampler",
    "sklearn.kernel_ridge": "KernelRidge",
    "sklearn.linear_model._base": "LinearRegression",
    "sklearn.linear_model._bayes": "ARDRegression BayesianRidge",
    "sklearn.linear_model._coordinate_descent": "ElasticNet ElasticNetCV Lasso LassoCV",
    "sklearn.linear_model._glm.glm": "GammaRegressor PoissonRegressor TweedieRegressor",
    "sklearn.linear_model._huber": "HuberRegressor",
    "sklearn.linear_model._least_angle": "Lars LassoLars LassoLarsIC",
    "sklearn.linear_model._logistic": "LogisticRegression LogisticRegressionCV",
    "sklearn.linear_model._omp": "OrthogonalMatchingPursuit",
    "sklearn.linear_model._quantile": "QuantileRegressor",
    "sklearn.linear_model._ridge": "Ridge RidgeCV RidgeClassifier RidgeClassifierCV",
    "sklearn.linear_model._stochastic_gradient": "SGDClassifier SGDRegressor",
    "sklearn.linear_model._theil_sen": "TheilSenRegressor",
    "sklearn.multiclass": "OneVsOneClassifier OneVsRestClassifier _ConstantPredictor",
    "sklearn.naive_bayes": "BernoulliNB CategoricalNB ComplementNB GaussianNB MultinomialNB",
    "sklearn.neighbors._classification": "KNeighborsClassifier",
    "sklearn.neighbors._nearest_centroid": "NearestCentroid",
    "sklearn.neighbors._regression": "KNeighborsRegressor",
    "sklearn.neural_network._multilayer_perceptron": "MLPClassifier MLPRegressor",
    "sklearn.neural_network._stochastic_optimizers": "AdamOptimizer SGDOptimizer",
    "sklearn.pipeline": "FeatureUnion Pipeline",
    "sklearn.preprocessing._data": (
        "Binarizer MaxAbsScaler MinMaxScaler Normalizer PowerTransformer QuantileTransformer "
        "RobustScaler StandardScaler"
    ),
    "sklearn.preprocessing._discretization": "KBinsDiscretizer",
    "sklearn.preprocessing._encoders": "OneHotEncoder OrdinalEncoder",
    "sklearn.preprocessing._label": "LabelBinarizer LabelEncoder",
    "sklearn.preprocessing._polynomial": "PolynomialFeatures",
    "sklearn.svm._classes": "LinearSVC LinearSVR NuSVC NuSVR SVC SVR",
    "sklearn.tree._classes": (
        "DecisionTreeClassifier DecisionTreeRegressor ExtraTreeClassifier ExtraTreeRegressor"
    ),
}

OBJECTS = frozenset(
    f"{module}.{name}" for module, names in _BY_MODULE.items() for name in names.split()
)
"""Python objects: estimators, and what scikit-learn and LightGBM make them of."""

TREE = "sklearn.tree._tree.Tree"
SEARCH_TREES = frozenset(
    {"sklearn.neighbors._kd_tree.KDTree", "sklearn.neighbors._ball_tree.BallTree"}
)
DISTANCES = frozenset(
    f"sklearn.metrics._dist_metrics.{name}Distance64"
    for name in ("Chebyshev", "Euclidean", "Manhattan", "Minkowski")
)
"""Compiled objects whose state is checked number by number before they are made."""

LOSSES = frozenset(
    f"sklearn._loss._loss.Cy{name}"
    for name in (
        "AbsoluteError",
        "ExponentialLoss",
        "HalfBinomialLoss",
        "HalfGammaLoss",
        "HalfMultinomialLoss",
        "HalfPoissonLoss",
        "HalfSquaredError",
        "HalfTweedieLoss",
        "HalfTweedieLossIdentity",
        "HuberLoss",
        "PinballLoss",
    )
) | {
    f"sklearn.linear_model._sgd_fast.{name}"
    for name in (
        "EpsilonInsensitive",
        "Hinge",
        "ModifiedHuber",
        "SquaredEpsilonInsensitive",
        "SquaredHinge",
    )
}
"""Compiled loss functions, made of a few numbers."""

MAPPINGS = frozenset({"builtins.dict", "collections.OrderedDict", "sklearn.utils._bunch.Bunch"})
SCALARS = frozenset(
    f"numpy.{name}"
    for name in (
        "bool",
        "bool_",
        "float16",
        "float32",
        "float64",
        "int8",
        "int16",
        "int32",
        "int64",
        "str_",
        "uint8",
        "uint16",
        "uint32",
        "uint64",
    )
)
TYPES = (
    SCALARS
    | {f"builtins.{name}" for name in ("bool", "float", "int", "str")}
    | {"collections.OrderedDict"}
)
"""Types that may stand as values: of keys, of elements, of what a mapping lacks."""
