"""The contract of deployable models: they can be saved, loaded, described and used."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Collection, Mapping
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple, Self

from framework.errors import CellsError, InputError, RecordsError
from framework.models.files import ModelFiles
from framework.registry import require_columns

if TYPE_CHECKING:
    import pandas as pd

    from framework.data.table_files import FileOptions
    from framework.front import Promise


class Card(NamedTuple):
    """The description of a model in its README, to which the store adds how to use it.

    Attributes
    ----------
    title : str
        One line, such as ``A weighted mean of 3 models``.
    text : str
        Markdown below the title, with what the model is and what it costs.
    answers : str
        The columns that :meth:`DeployableModel.predict_table` returns; follows "the answers have".
    methods : str
        The methods that the object has in Python; follows "`model` is".
    """

    title: str
    text: str
    answers: str
    methods: str


class DeployableModel(ABC):
    """A fitted model that can be saved and loaded, and that predicts the records of a table.

    A kind of model is one such class, registered under its ``kind``::

        [project.entry-points."paretolab.models"]
        pair = "mine.model:Pair"

    ``save_model``, ``load_model``, the exported README, ``paretolab predict`` and MLflow then
    support it. A user may load a model of unknown origin: :meth:`load_from` checks its arguments,
    raises :class:`~framework.errors.InputError` if they cannot be used, and reads files only
    through ``files``, which unpickles nothing.

    Attributes
    ----------
    kind : str
        Its name in the group of entry points, and in ``model.json``.
    keeps : tuple of str
        Columns of a table that precede its answers, such as the names of the records.
    """

    kind: ClassVar[str]
    keeps: tuple[str, ...] = ()

    @abstractmethod
    def save_into(self, files: ModelFiles) -> Mapping[str, Any]:
        """Write whatever is not JSON to files; return the rest as JSON values.

        Raises
        ------
        InputError
            A part has no open format.
        """

    @classmethod
    @abstractmethod
    def load_from(cls, files: ModelFiles, description: Mapping[str, Any]) -> Self:
        """Return the model that :meth:`save_into` wrote.

        Parameters
        ----------
        files : ModelFiles
        description : mapping
            What :meth:`save_into` returned. It may have been tampered with: ``KeyError``,
            ``TypeError``, ``ValueError`` and the like become "found it damaged".

        Raises
        ------
        InputError
            The parts do not fit together.
        """

    def predict_table(self, frame: pd.DataFrame) -> pd.DataFrame:
        """Predict the records of a table of shape (n, any); further columns do not matter.

        Parameters
        ----------
        frame : DataFrame (n, any)
            A column for each feature, in any order, and any others. If the features have no names,
            the columns of the features only.

        Returns
        -------
        DataFrame
            One row per record, indexed as ``frame``; :meth:`predict_checked` names the columns.

        Raises
        ------
        InputError
            A column is missing, or a value cannot be used.
        """
        from sklearn.utils.validation import check_is_fitted

        from framework.models.checks import named_as

        if hasattr(self, "fit"):
            check_is_fitted(self)
        frame = named_as(self, frame)
        self.check_columns(frame.columns)
        return self.predict_checked(frame)

    @abstractmethod
    def predict_checked(self, frame: pd.DataFrame) -> pd.DataFrame:
        """Do as :meth:`predict_table` does, with the columns that :meth:`check_columns` asks for.

        The names of the features are those of ``feature_names_in_``.
        """

    def check_columns(self, names: Collection[str]) -> None:
        """Check the names of the columns of a table before the table is made.

        All of ``feature_names_in_`` must be among them. A model without these that has
        ``n_features_in_`` needs exactly that number of columns, in the order of the features.

        Raises
        ------
        RecordsError
            A column is missing, or their number is another.
        """
        needed = getattr(self, "feature_names_in_", None)
        if needed is not None:
            require_columns(needed, names)
        elif len(names) != (width := getattr(self, "n_features_in_", len(names))):
            raise RecordsError(
                f"data: expected {width} columns, the features in their order, found {len(names)}"
            )

    @property
    def texts(self) -> Mapping[str, Collection[str]]:
        """Columns whose values in a CSV file are texts, as written, with the categories of each.

        By default those of the attribute ``encoder_``, if the model has one.
        """
        encoder = getattr(self, "encoder_", None)
        return {} if encoder is None else encoder.texts

    @property
    def file_options(self) -> FileOptions:
        """How a file of records is read, so that no answer depends on the other records."""
        from framework.data.table_files import GAPS, FileOptions

        texts = {**dict.fromkeys(self.keeps, GAPS), **self.texts}
        return FileOptions(categories={name.strip(): of for name, of in texts.items()})

    def take_promises(self, promises: Mapping[str, Promise]) -> None:  # noqa: B027
        """Store what to expect of each metric on new records, if the model's format includes it.

        Called before a solution of a run is saved. The README of every model includes it anyway.
        """

    def failures(self) -> Mapping[str, int]:
        """Return the number of records that each part failed on, so that another part was asked."""
        return {}

    def answers(self, frame: pd.DataFrame, *, strict: bool = True) -> pd.DataFrame:
        """Return the result of ``predict_table``, preceded by the columns in ``keeps``.

        This is what ``paretolab predict``, ``paretolab serve`` and MLflow return for any kind of
        model. Unless ``strict``, records with an unusable value have no answer, and a column
        ``error`` says why; an error is raised only if no record can be answered.
        """
        import pandas as pd

        table = self.predict_table(frame) if strict else self._answered_apart(frame)
        beside = [
            name for name in self.keeps if name in frame.columns and name not in table.columns
        ]
        return pd.concat([frame[beside], table], axis=1) if beside else table

    def _answered_apart(self, frame: pd.DataFrame) -> pd.DataFrame:
        """Return ``predict_table`` of the usable records, with a column of errors of the others."""
        import pandas as pd

        numbered = frame.reset_index(drop=True)  # errors refer to records by their positions
        errors: dict[int, str] = {}
        first: CellsError | None = None
        while True:
            try:
                answers = self.predict_table(numbered.drop(index=list(errors)))
                break
            except CellsError as error:
                first = first or error
                if not error.sentences.keys() - errors.keys():
                    raise
                errors.update(error.sentences)
                if len(errors) == len(frame):
                    raise first from error
        if errors:
            # integers and booleans have no value for "missing": those columns become objects
            objects = {name: object for name in answers if answers[name].dtype.kind in "biu"}
            answers = answers.astype(objects).reindex(numbered.index)
            answers["error"] = pd.Series(errors, dtype=object).reindex(
                numbered.index, fill_value=""
            )
        return answers.set_axis(frame.index)

    @property
    def has_steps(self) -> bool:
        """Whether :meth:`next_features` is supported: features can be acquired step by step."""
        return type(self).next_features is not DeployableModel.next_features

    def next_features(self, record: Mapping[str, Any]) -> dict[str, Any]:
        """Return the answer to a partly known record, or what to acquire next, as JSON values.

        Raises
        ------
        InputError
            The model takes whole records only.
        """
        raise InputError(
            f"model: expected one that acquires features step by step, found one of kind "
            f"{self.kind}; give it whole records"
        )

    @abstractmethod
    def card(self) -> Card:
        """Return the description of the model for its README."""
