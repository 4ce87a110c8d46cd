"""HAPEns, QDO-ES, QO-ES and Pareto-ES: one evolutionary search with different archives."""

from __future__ import annotations

from algorithms.ensembling.searches.archives import BestArchive, EliteArchive, FrontArchive
from algorithms.ensembling.searches.evolution import ELITES, EnsembleEvolution
from framework.arrays import FloatArray, IntArray
from framework.batch import Evaluated


class HAPEns(EnsembleEvolution):
    """Hardware-aware post-hoc ensembling: niches of loss correlation and of memory.

    Ensembles compete only within a niche of a 7 x 7 grid whose boundaries slide
    (:class:`~.sliding_archive.SlidingArchive`): first when the number of rows reaches that of the
    models plus a batch, then whenever it is a multiple of the number of models. Parameters and
    everything else: :class:`~.evolution.EnsembleEvolution`; ``behavior`` takes another cost.

    Notes
    -----
    "HAPEns: Hardware-Aware Post-Hoc Ensembling for Tabular Data", Section 3 and Algorithm 1. More
    evaluations move the boundaries to large ensembles, so that the elites lose the cheap end; the
    run's front keeps it.
    """

    niches = ("loss_correlation", "memory")


class QDOES(EnsembleEvolution):
    """Quality-diversity optimisation: niches of config similarity and of loss correlation.

    Parameters and the rest: as for :class:`HAPEns`. Purucker et al. 2023, arXiv:2307.08364.
    """

    niches = ("config_similarity", "loss_correlation")


class QOES(EnsembleEvolution):
    """Quality optimisation: no niches, the 49 best ensembles are the elites.

    Parameters and the rest: as for :class:`HAPEns`, without ``behavior``. Purucker et al. 2023,
    arXiv:2307.08364.
    """

    niches = None


class ParetoES(EnsembleEvolution):
    """HAPEns' operators on the front itself: the elites are all non-dominated rows so far.

    The single models are among them from the start, so that the cheap end is never lost; any
    number of objectives counts, and no behaviour. What it returns is the run's front.

    A front of few elites, such as one of a score and the number of members over a small pool, has
    few children. Where none of them is new, the next ones are bred from the 49 best rows by the
    fitness, dominated or not, until the front has new children again.

    Parameters and the rest: as for :class:`HAPEns`, without ``behavior``. This package.
    """

    niches = None
    with_singles = True

    def _new_archive(self) -> EliteArchive:
        self._best = BestArchive(ELITES)
        return FrontArchive()

    def _keep(self, rows: Evaluated, violation: FloatArray, loss: FloatArray) -> None:
        super()._keep(rows, violation, loss)
        self._best.add(self._descriptors(rows), violation, loss)

    def _reserve(self) -> IntArray | None:
        return self._best.ranked()

    def _descriptors(self, rows: Evaluated) -> FloatArray:
        return self.roles.losses(rows.values)
