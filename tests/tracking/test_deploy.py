"""A weighted ensemble as an MLflow model: loaded by MLflow it answers as it does here."""

import pandas as pd
from sklearn.datasets import load_iris
from sklearn.linear_model import LogisticRegression
from sklearn.naive_bayes import GaussianNB

from algorithms.ensembling.model import WeightedEnsembleClassifier
from framework.models.store import save_model
from tests.trust.forging import describe_anew
from tracking.mlflow_log import deploy


def test_mlflow_serves_weighted_ensembles(tmp_path):
    import mlflow.pyfunc
    from mlflow.models import infer_signature

    frame, y = load_iris(return_X_y=True, as_frame=True)
    pairs = [("bayes", GaussianNB()), ("linear", LogisticRegression(max_iter=500))]
    model = WeightedEnsembleClassifier(pairs, [1, 3]).fit(frame, y)
    save_model(model, tmp_path / "model", example=frame.head(3))
    deploy.save_model(tmp_path / "model", tmp_path / "mlflow")
    loaded = mlflow.pyfunc.load_model(str(tmp_path / "mlflow"))
    assert loaded.metadata.signature == infer_signature(None, model.answers(frame.head(3)))
    pd.testing.assert_frame_equal(loaded.predict(frame), model.predict_table(frame))
    for body in (frame.to_dict("records"), frame.to_dict("list"), frame.iloc[0].to_dict()):
        answers = loaded.predict(body)
        pd.testing.assert_frame_equal(answers, model.predict_table(frame.head(len(answers))))


def test_mlflow_infers_no_schema_of_records_where_types_of_answers_are_missing(tmp_path):
    import mlflow.pyfunc

    frame, y = load_iris(return_X_y=True, as_frame=True)
    model = WeightedEnsembleClassifier([("bayes", GaussianNB())], [1]).fit(frame, y)
    save_model(model, tmp_path / "model", example=frame.head(3))
    describe_anew(tmp_path / "model", top={"answers": None})
    deploy.save_model(tmp_path / "model", tmp_path / "mlflow")
    assert mlflow.pyfunc.load_model(str(tmp_path / "mlflow")).metadata.signature is None
