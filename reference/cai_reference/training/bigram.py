"""The bigram: the baseline that a trained model has to beat (course, chapters 6 and 34).

The next token from the current one alone: p(b | a) = (c(a, b) + α) / (Σ c(a, ·) + α·V), with c counted over adjacent
tokens of whole documents, BOS and EOS included. α > 0, so that nothing is impossible.
"""

from __future__ import annotations

import itertools
import math
from collections import Counter
from collections.abc import Sequence

from cai_reference.training.final_errors import BigramTokenOutOfRange, InvalidSmoothing, NoBigramVocabulary


class Bigram:
    """Counts, and what they say of the next token.

    Raises:
        NoBigramVocabulary, InvalidSmoothing: the vocabulary is empty, or α not finite and positive.
        BigramTokenOutOfRange: a document has an id beyond the vocabulary.
    """

    def __init__(self, documents: Sequence[Sequence[int]], vocabulary: int, smoothing: float = 1.0) -> None:
        if vocabulary < 1:
            raise NoBigramVocabulary(vocabulary)
        if not (math.isfinite(smoothing) and smoothing > 0.0):
            raise InvalidSmoothing(smoothing)
        self.vocabulary = vocabulary
        self.smoothing = smoothing
        self.documents = len(documents)
        self._counts: Counter[tuple[int, int]] = Counter()
        self._totals: Counter[int] = Counter()
        for document in documents:
            for token in document:
                self._check(token)
            self._counts.update(itertools.pairwise(document))
            self._totals.update(document[:-1])

    @property
    def transitions(self) -> int:
        """How many pairs of adjacent tokens were counted."""
        return self._counts.total()

    def count(self, current: int, following: int) -> int:
        """Return how often one token followed the other."""
        return self._counts[current, following]

    def probability(self, current: int, following: int) -> float:
        """Return p(following | current).

        Raises:
            BigramTokenOutOfRange: an id is beyond the vocabulary.
        """
        self._check(current)
        self._check(following)
        total = float(self._totals[current]) + self.smoothing * float(self.vocabulary)
        return (float(self._counts[current, following]) + self.smoothing) / total

    def _check(self, token: int) -> None:
        if not 0 <= token < self.vocabulary:
            raise BigramTokenOutOfRange(token, self.vocabulary)
