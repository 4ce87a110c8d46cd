"""The contract of deployable models: they can be saved, loaded, described and used."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Any, ClassVar, NamedTuple, Self

import pandas as pd

from framework.models.files import ModelFiles


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
    """

    kind: ClassVar[str]

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
            A row a record, indexed as ``frame``.

        Raises
        ------
        InputError
            A column is missing, or a value cannot be used.
        """

    @abstractmethod
    def card(self) -> Card:
        """Return what the README says of the model."""
