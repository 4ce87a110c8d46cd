"""The vote as a model."""

import pandas as pd

from paretolab import Card, DeployableModel


class Voter(DeployableModel):
    """Says yes where most of some columns do."""

    kind = "voter"

    def __init__(self, columns):
        self.columns = self.feature_names_in_ = columns

    def save_into(self, files):
        return {"columns": self.columns}

    @classmethod
    def load_from(cls, files, description):
        return cls([str(name) for name in description["columns"]])

    def predict_checked(self, frame):
        yes = 2 * frame[self.columns].sum(axis=1) > len(self.columns)
        return pd.DataFrame({"label": yes.astype(int)}, index=frame.index)

    def card(self):
        text = f"It asks {', '.join(self.columns)}."
        return Card("A vote", text, "the column `label`", "an object with `predict_table`")
