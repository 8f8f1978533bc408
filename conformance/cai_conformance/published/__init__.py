"""Every published figure of the decode-features bake-off that needs no clock, beside what is counted here.

The models are made at the published size, sessions on them are opened and fed, and the arrays are measured. Speeds,
losses and texts of the publication are not looked at.
"""

from __future__ import annotations

from cai_conformance.published.cache_tables import cache_figures
from cai_conformance.published.figure import SOURCES, Figure
from cai_conformance.published.models import Models
from cai_conformance.published.weights import weight_figures

__all__ = ["Figure", "published_figures"]


def published_figures() -> tuple[Figure, ...]:
    """Count everything, source by source, weights before caches.

    Raises:
        CacheMiscounted: a cache accounts for something else than its arrays hold.
    """
    models = Models()
    figures = (*weight_figures(models), *cache_figures(models))
    return tuple(sorted(figures, key=lambda figure: SOURCES.index(figure.source)))
