"""A weighted ensemble as an MLflow model: loaded by MLflow it answers as it does here."""

import pandas as pd
from sklearn.datasets import load_iris
from sklearn.linear_model import LogisticRegression
from sklearn.naive_bayes import GaussianNB

from algorithms.ensembling.model import WeightedEnsembleClassifier
from framework.models.store import save_model
from tracking.mlflow_log import deploy


def test_mlflow_serves_weighted_ensembles(tmp_path):
    import mlflow.pyfunc

    frame, y = load_iris(return_X_y=True, as_frame=True)
    pairs = [("bayes", GaussianNB()), ("linear", LogisticRegression(max_iter=500))]
    model = WeightedEnsembleClassifier(pairs, [1, 3]).fit(frame, y)
    save_model(model, tmp_path / "model")
    frame.head(3).to_csv(tmp_path / "model" / "example.csv", index=False)
    deploy.save_model(tmp_path / "model", tmp_path / "mlflow")
    loaded = mlflow.pyfunc.load_model(str(tmp_path / "mlflow"))
    answered = loaded.metadata.get_output_schema().input_names()
    assert answered == list(model.answers(frame).columns)
    pd.testing.assert_frame_equal(loaded.predict(frame), model.predict_table(frame))
    for body in (frame.to_dict("records"), frame.to_dict("list"), frame.iloc[0].to_dict()):
        answers = loaded.predict(body)
        pd.testing.assert_frame_equal(answers, model.predict_table(frame.head(len(answers))))
