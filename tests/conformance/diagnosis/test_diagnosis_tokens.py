"""The first token that differs, and by what a loss was divided: numbers worked by hand."""

from __future__ import annotations

import math

import numpy as np
import pytest

from cai_conformance.diagnosis import TokenWord, diagnosis_of_tokens, loss_normalizer, token_findings, token_losses
from cai_reference.arithmetic import FAST
from cai_reference.autograd import Tape
from support_fault_vehicles import BATCHES, model_of

ROWS = [np.array([0.0, 3.0, 1.0]), np.array([2.0, 1.9, 2.0]), np.array([0.5, 0.0, 0.4])]
"""Logits behind three tokens, from which 1, 0 and 0 are chosen."""

NLL = np.array([[1.0, 2.0, 3.0], [6.0, 50.0, 50.0]])
MASK = np.array([[True, True, True], [True, False, False]])


class TestTokens:
    """A near tie, a tie that was broken by another rule, or a fault."""

    def test_equal_tokens_say_nothing(self) -> None:
        """Nothing is found."""
        assert token_findings([1, 0, 0], [1, 0, 0], ROWS, 0.0) is None

    @pytest.mark.parametrize(
        ("disagreement", "word"), [(1e-6, TokenWord.FAULT), (0.049, TokenWord.FAULT), (0.05, TokenWord.NEAR_TIE)]
    )
    def test_two_logits_may_each_be_off_by_what_was_measured(self, disagreement: float, word: TokenWord) -> None:
        """The gap of 0.1 is within twice 0.05."""
        finding = token_findings([1, 0, 0], [1, 0, 2], ROWS, disagreement)
        assert finding is not None
        assert (finding.place, finding.expected, finding.found, finding.word) == (2, 0, 2, word)
        assert finding.margin == pytest.approx(0.1)

    def test_an_exact_tie_names_the_rule(self) -> None:
        """The higher id of two equal maxima was taken, whatever was measured."""
        finding = token_findings([1, 0, 0], [1, 2, 1], ROWS, 0.0)
        assert finding is not None
        assert (finding.place, finding.word, finding.margin) == (1, TokenWord.TIE_RULE, 0.0)
        assert diagnosis_of_tokens(finding).conventions == ("argmax.last-maximum",)

    def test_the_gap_is_that_of_the_token_which_was_found(self) -> None:
        """Two maxima tie here, but the found id is behind both."""
        finding = token_findings([1, 0, 0], [1, 1, 1], ROWS, 0.01)
        assert finding is not None
        assert (finding.word, finding.margin) == (TokenWord.FAULT, 0.0)
        assert finding.gap == pytest.approx(0.1)

    def test_an_id_beyond_the_vocabulary_is_a_fault(self) -> None:
        """It has no logit."""
        finding = token_findings([1], [7], ROWS, 1e9)
        assert finding is not None and finding.word is TokenWord.FAULT

    @pytest.mark.parametrize(("found", "text"), [([1, 0], "found the end"), ([1, 0, 0, 5], "expected the end")])
    def test_another_length_is_said(self, found: list[int], text: str) -> None:
        """Where one ended and the other went on."""
        finding = token_findings([1, 0, 0], found, ROWS, 0.0)
        assert finding is not None
        assert finding.word is TokenWord.LENGTH and text in str(finding)


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
