"""By what a loss was divided: numbers worked by hand."""

from __future__ import annotations

import math

import numpy as np
import pytest

from cai_conformance.diagnosis.steps import loss_normalizer, token_losses
from cai_reference.arithmetic.instances import FAST
from cai_reference.autograd import Tape
from support_fault_workloads import BATCHES, model_of

NLL = np.array([[1.0, 2.0, 3.0], [6.0, 50.0, 50.0]])
MASK = np.array([[True, True, True], [True, False, False]])


class TestNormalizers:
    """Which way to average gives a number."""

    @pytest.mark.parametrize(
        ("found", "name"),
        [
            (3.0, "mean over real targets"),
            (2.0, "padding in the denominator"),
            (4.0, "mean of the rows' means"),
            (12.0, "sum over real targets"),
            (6.0, "sum over real targets, divided by rows"),
            (112.0 / 6.0, "padding scored as targets"),
        ],
    )
    def test_the_way_that_fits_comes_first(self, found: float, name: str) -> None:
        """With no difference left."""
        first = loss_normalizer(NLL, MASK, found)[0]
        assert first.name == name and first.difference < 1e-12

    def test_perplexities_are_averaged_by_some(self) -> None:
        """Before the logarithm."""
        found = math.log((math.e + math.exp(2.0) + math.exp(3.0) + math.exp(6.0)) / 4.0)
        assert "perplexities" in loss_normalizer(NLL, MASK, found)[0].name

    def test_micro_batches_are_averaged_where_they_are_told(self) -> None:
        """Three rows in two parts: (6 + 2) / 4 and 11 / 1."""
        nll, mask = (
            np.array([[1.0, 5.0], [1.0, 1.0], [11.0, 0.0]]),
            np.array([[True, True], [True, True], [True, False]]),
        )
        first = loss_normalizer(nll, mask, 6.5, parts=((0, 1), (2,)))[0]
        assert (first.name, first.value) == ("mean of the micro-batches' means", 6.5)

    def test_padding_that_was_not_computed_is_no_candidate(self) -> None:
        """NaN there leaves the other ways as they are."""
        names = {way.name for way in loss_normalizer(np.where(MASK, NLL, math.nan), MASK, 3.0)}
        assert "padding scored as targets" not in names and "mean over real targets" in names

    def test_the_reference_tells_the_losses_of_tokens(self) -> None:
        """Their mean over real targets is its loss."""
        model = model_of("llama.gqa-window")
        nll, mask = token_losses(model, BATCHES[0])
        assert float(np.mean(nll[mask])) == pytest.approx(float(model.loss(Tape(FAST), BATCHES[0]).value), rel=1e-12)
        assert mask.tolist() == [[True] * 5, [True] * 3 + [False] * 2]
