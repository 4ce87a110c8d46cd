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

    from framework.front import Promise


class Card(NamedTuple):
    """The description of a model in its README, to which the store adds how to use it.

    Attributes
    ----------
    title : str
        One line, such as ``A weighted mean of 3 models``.
    text : str
        Markdown below the title: what it is, what it costs; tables welcome.
    answers : str
        Which columns :meth:`DeployableModel.predict_table` gives, after "written out with".
    methods : str
        Which methods the object has in Python, after "`model` is".
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

    ``save_model``, ``load_model``, the exported README, ``paretolab predict`` and MLflow then take
    it. Whoever loads a model may not trust who made it: :meth:`load_from` checks what it is given,
    raises :class:`~framework.errors.InputError` where that cannot be used, and gets files only
    through ``files``, which unpickle nothing.

    Attributes
    ----------
    kind : str
        Its name in the group of entry points, and in ``model.json``.
    keeps : tuple of str
        Columns of a table that answers show first, such as what names the records.
    """

    kind: ClassVar[str]
    keeps: tuple[str, ...] = ()

    @abstractmethod
    def save_into(self, files: ModelFiles) -> Mapping[str, Any]:
        """Write what is no JSON as files; return the rest, JSON values.

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

    @abstractmethod
    def predict_table(self, frame: pd.DataFrame) -> pd.DataFrame:
        """Answer the records of a table (n, any), whatever else is in it.

        Returns
        -------
        DataFrame
            One row per record, indexed as ``frame``.

        Raises
        ------
        InputError
            A column is missing, or a value cannot be used.
        """

    def check_columns(self, names: Collection[str]) -> None:
        """Check the names of the columns of a table, which need not be there yet.

        Every one of ``feature_names_in_`` must be among them; a model without those that has
        ``n_features_in_`` takes so many columns by their order.

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

    def take_promises(self, promises: Mapping[str, Promise]) -> None:  # noqa: B027
        """Keep what to expect on new records, by metric, where a format of its own says it.

        Called before a solution of a run is saved. The README says it of every model.
        """

    def failures(self) -> Mapping[str, int]:
        """Return of each part how many records it failed on, of kinds that then ask another."""
        return {}

    def answers(self, frame: pd.DataFrame, *, strict: bool = True) -> pd.DataFrame:
        """Return ``predict_table`` behind the columns of the table that are kept.

        ``paretolab predict``, ``paretolab serve`` and MLflow give them, of any kind of model.
        Unless ``strict``, records with a value that cannot be used have no answer, and a column
        ``error`` says why; where no record has an answer, that is an error as well.
        """
        import pandas as pd

        table = self.predict_table(frame) if strict else self._answered_apart(frame)
        beside = [
            name for name in self.keeps if name in frame.columns and name not in table.columns
        ]
        return pd.concat([frame[beside], table], axis=1) if beside else table

    def _answered_apart(self, frame: pd.DataFrame) -> pd.DataFrame:
        """Return ``predict_table`` of the records whose values can be used, and why of the others.

        Raises
        ------
        InputError
            The table cannot be used, or none of its records.
        """
        import pandas as pd

        numbered = frame.reset_index(drop=True)  # so that an error names records of a frame
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
            whole = {
                n: object for n in answers if answers[n].dtype.kind in "biu"
            }  # none is no number
            answers = answers.astype(whole).reindex(numbered.index)
            answers["error"] = pd.Series(errors, dtype=object).reindex(
                numbered.index, fill_value=""
            )
        return answers.set_axis(frame.index)

    @property
    def has_steps(self) -> bool:
        """Whether it takes a record whose features are acquired step by step."""
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
        """Return what the README says of the model."""
