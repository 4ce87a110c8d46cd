"""HAPEns, and its siblings QDO-ES and QO-ES."""

from __future__ import annotations

from algorithms.ensembling.evolution import EnsembleEvolution


class HAPEns(EnsembleEvolution):
    """Hardware-aware post-hoc ensembling: niches of loss correlation and of memory.

    Ensembles compete only within a niche of a 7 x 7 grid whose boundaries slide
    (:class:`~algorithms.ensembling.sliding_archive.SlidingArchive`): first when as many rows are
    in as there are models and a batch, then whenever their number is a multiple of the models'.
    Parameters and everything else: :class:`~algorithms.ensembling.evolution.EnsembleEvolution`;
    ``behavior`` takes another cost.

    Notes
    -----
    "HAPEns: Hardware-Aware Post-Hoc Ensembling for Tabular Data", Section 3 and Algorithm 1. More
    evaluations move the boundaries to large ensembles, so that the elites lose the cheap end; the
    run's front keeps it.
    """

    kind = "hapens"
    niches = ("loss_correlation", "memory")


class QDOES(EnsembleEvolution):
    """Quality-diversity optimisation: niches of config similarity and of loss correlation.

    Parameters and the rest: as for :class:`HAPEns`. Purucker et al. 2023, arXiv:2307.08364.
    """

    kind = "qdo_es"
    niches = ("config_similarity", "loss_correlation")


class QOES(EnsembleEvolution):
    """Quality optimisation: no niches, the 49 best ensembles are the elites.

    Parameters and the rest: as for :class:`HAPEns`, without ``behavior``. Purucker et al. 2023,
    arXiv:2307.08364.
    """

    kind = "qo_es"
    niches = None
