"""The sub-classifiers that candidates share: held as bits in this process, kept on disk as models.

Exact methods read the bits of the sub-classifiers of all feature sets.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import Any

import numpy as np

from algorithms.moves.bits import words_for
from algorithms.multistage.bit_planes import ComponentTable, StageTables, features_of
from algorithms.multistage.kernels import scoring
from algorithms.multistage.metrics import HeldOutRecords, held_out_records
from algorithms.multistage.records import StageData
from algorithms.multistage.stage_classifiers import Recipe, fitted, restore, train
from framework.arrays import Array, IntArray, WordArray
from framework.components import Components, ComponentStore
from framework.errors import InputError
from framework.machine import cache_dir
from framework.models.classifiers import Prototype

_CHUNK = 4096  # trained or read at a time when those of all feature sets are needed


class SubClassifiers:
    """The sub-classifiers of a problem.

    Parameters
    ----------
    stages : int
        Most stages of a candidate; with a single one, only the set of all features is needed.
    rule : Rule
        How records go through stages.
    stored : bool
        Whether models that are slow to write are kept on disk, too.

    Attributes
    ----------
    table : ComponentTable
        The sub-classifiers that this process holds.
    store : ComponentStore or None
        Those on disk, with their models; None without :meth:`open_store`.
    """

    def __init__(
        self,
        data: StageData,
        recipe: Recipe,
        feature_names: Sequence[str],
        stages: int,
        rule: scoring.Rule,
        stored: bool = True,
    ) -> None:
        self._data, self._names, self._stages = data, feature_names, stages
        self._recipe, self._stored = recipe, stored
        self.table = ComponentTable(words_for(data.n_features), data.planes, data.words, rule)
        self.store: ComponentStore | None = None

    @cached_property
    def records(self) -> tuple[HeldOutRecords, HeldOutRecords]:
        """The records that candidates are scored on, and the test records."""
        return held_out_records(self._data)

    def open_store(self, fingerprint: str, name: str) -> None:
        """Keep sub-classifiers on this machine's disk as well, and read those that are there."""
        folder = cache_dir()
        if folder is not None:
            shape = self._data.planes, self._data.words
            self.store = ComponentStore(folder, fingerprint, *shape, name)

    def missing(self, items: Array) -> WordArray:
        """Return the keys (m, words) of sub-classifiers that partitions (n, features) still need.

        Those on disk are read into the table first.
        """
        missing = scoring.missing(items, self.table.slots, self.table.keys)
        if self.store is not None and len(missing):
            self.table.add(self.store.get(missing))
            missing = scoring.missing(items, self.table.slots, self.table.keys)
        # the largest first: they take longest, and at the end no worker should wait for one
        sizes = np.bitwise_count(missing).sum(axis=1, dtype=np.int64)
        return missing[np.argsort(-sizes, kind="stable")]

    def of(self, items: Array) -> ComponentTable:
        """Return the table with the sub-classifiers of partitions; train those that are missing."""
        missing = self.missing(items)
        if len(missing):
            self.add(self.build(missing))
        return self.table

    def build(self, keys: WordArray) -> Components:
        """Train the sub-classifiers of keys (m, words)."""
        return train(self._data, self._recipe, keys, stored=self._stored)

    def add(self, components: Components) -> None:
        """Add sub-classifiers to the table and, if they come with models, to the disk."""
        self.table.add(components)
        if self.store is not None and components.models:
            self.store.put(components)

    @property
    def quickly_restored(self) -> bool:
        """Whether lost answers are back in little time: from the disk, or from fits in memory."""
        return self._recipe.together or self.store is not None

    def error_of(self, keys: Sequence[WordArray]) -> str | None:
        """Return why a sub-classifier could not be trained, the first among keys; else None."""
        for key in keys:
            number = self.table.find(key)
            if number in self.table.errors:
                names = [self._names[f] for f in features_of(key, self._data.n_features)]
                return f"sub-classifier on {', '.join(names)}: {self.table.errors[number]}"
        return None

    def classifiers(self, keys: WordArray, classes: Sequence[Any]) -> list[Any]:
        """Return the classifiers of keys (m, words), read from the disk or trained (again).

        The data must not have folds, whose classifiers are several for each key.

        Raises
        ------
        InputError
            One of them cannot be trained.
        """
        by_key: dict[bytes, bytes] = {}
        if self.store is not None:
            stored = self.store.get(keys)
            by_key = {k.tobytes(): m for k, m in zip(stored.keys, stored.models, strict=True)}
        data, classifiers = self._data, []
        for key in keys:
            model = by_key.get(key.tobytes())
            if isinstance(self._recipe.parameters, Prototype):  # of the user's, never stored
                classifiers.append(fitted(data, self._recipe, key, classes))
                continue
            if not model:
                trained = train(data, self._recipe, key[None], keep_all=True)
                if trained.errors:
                    raise InputError(f"problem.classifier: {trained.errors[0]}")
                model = trained.models[0]
                self.add(trained)
            classifiers.append(restore(model, data, self._recipe, classes, key))
        return classifiers

    def missing_sets(self) -> WordArray:
        """Return the feature sets whose sub-classifier :meth:`stage_tables` would have to train.

        Those on disk are read into the table first.

        Returns
        -------
        numpy.ndarray of uint64, shape (m, 1)
            Keys of components, at most 2^n - 1; n below 64.
        """
        missing = np.setdiff1d(self._all_sets(), self._held_sets())[:, None]
        if self.store is None:
            return missing
        for start in range(0, len(missing), _CHUNK):
            self.table.add(self.store.get(missing[start : start + _CHUNK]))
        return np.setdiff1d(missing[:, 0], self._held_sets())[:, None]

    def stage_tables(self, level: int = 0) -> StageTables:
        """Return the bits of the sub-classifiers of all feature sets; train those that are missing.

        If candidates have one stage, only the row of all features is filled.

        Parameters
        ----------
        level : int
            Gene value of the threshold, 0 if there is no choice.

        Raises
        ------
        InputError
            One of the 2^n - 1 sub-classifiers cannot be trained.
        """
        keys, words = self._trained_sets(), self._data.validation_words
        conclusive, right = np.zeros((2, 2**self._data.n_features, words), dtype=np.uint64)
        bits = self.table.bits[: len(keys), :, :words]
        conclusive[keys] = bits[:, self.table.rule.sure + level - 1 if level else 0]
        right[keys] = bits[:, 1] & conclusive[keys]
        everyone = self.records[0].everyone
        return StageTables(conclusive, right, everyone, self._data.n_validation)

    def stage_planes(self) -> tuple[WordArray, scoring.Rule, WordArray, int]:
        """Return all planes of bits, for exact methods where stages decide by costs.

        See :meth:`stage_tables`.

        Returns
        -------
        numpy.ndarray of uint64, shape (2^n, planes, words)
            The planes by feature set.
        Rule
            What each plane says.
        numpy.ndarray of uint64, shape (words,)
            One bit per record.
        int
            Number of records.
        """
        keys, words = self._trained_sets(), self._data.validation_words
        planes = np.zeros((2**self._data.n_features, self._data.planes, words), dtype=np.uint64)
        planes[keys] = self.table.bits[: len(keys), :, :words]
        return planes, self.table.rule, self.records[0].everyone, self._data.n_validation

    def _trained_sets(self) -> IntArray:
        """Train what is missing; return the sets of all components by number.

        Raises InputError if the sub-classifier of a set that a stage may have cannot be trained.
        """
        missing, least = self.missing_sets(), int(self._all_sets()[0])
        for start in range(0, len(missing), _CHUNK):
            self.add(self.build(missing[start : start + _CHUNK]))
        keys = self._held_sets().astype(np.int64)
        for number, error in self.table.errors.items():
            if keys[number] >= least:
                names = [name for f, name in enumerate(self._names) if keys[number] >> f & 1]
                raise InputError(
                    "problem.classifier: expected a sub-classifier of every feature set, found "
                    f"none on {', '.join(names)}: {error}"
                )
        return keys

    def _held_sets(self) -> WordArray:
        return self.table.keys[: self.table.n, 0]

    def _all_sets(self) -> WordArray:
        """Return every feature set that a stage may have; there are fewer than 64 features."""
        n = self._data.n_features
        return np.arange(1 if self._stages > 1 else 2**n - 1, 2**n, dtype=np.uint64)
