"""The reference's answers to the vector cases about sampling: laws, kept sets, choices, draws, speculation by chance.

Answers that are ids mean the same in every arithmetic: no case has a draw close to the border of an interval. A row of
logits that has to be refused is answered by −1, and takes no draw.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Final

import numpy as np

from cai_conformance.backends.decoder.setting import DecoderSetting, Input, Operation
from cai_conformance.vectors import Answer
from cai_reference.arithmetic import Array, from_hex_bits
from cai_reference.decoding.generation import Limits, ReencodingPath
from cai_reference.decoding.sampling import SamplingSettings, choose, distribution_of, sample, sample_generation
from cai_reference.decoding.stochastic_drafts import Proposal, SampledDraft
from cai_reference.decoding.stochastic_speculation import (
    Source,
    acceptance,
    residual,
    sample_speculatively,
    verify,
)
from cai_reference.models.errors import NonFiniteLogit
from cai_reference.splitmix import SplitMix64

REFUSED: Final = -1
"""The answer to a row from which nothing may be drawn."""


class Listed:
    """Units from a list, in order."""

    def __init__(self, units: Sequence[float]) -> None:
        self._units: Iterator[float] = iter(units)

    def unit(self) -> float:
        """Return the next one."""
        return next(self._units)


def _distribution(given: Input, setting: DecoderSetting) -> Answer:
    found = distribution_of(_doubles(given["logits"]), _settings(given), setting.arithmetic)
    return Answer(values=tuple(found.probabilities.tolist()))


def _kept(given: Input, setting: DecoderSetting) -> Answer:
    return Answer(ids=distribution_of(_doubles(given["logits"]), _settings(given), setting.arithmetic).kept)


def _choices(given: Input, setting: DecoderSetting) -> Answer:
    found = distribution_of(_doubles(given["logits"]), _settings(given), setting.arithmetic)
    return Answer(ids=tuple(choose(found.probabilities, from_hex_bits(unit)).token for unit in given["units"]))


def _draws(given: Input, setting: DecoderSetting) -> Answer:
    """Draw once from each row with one generator, and return the tokens and the state behind the last draw."""
    generator, settings = SplitMix64(given["seed"]), _settings(given)
    tokens: list[int] = []
    for row in given["rows"]:
        try:
            tokens.append(sample(_doubles(row), settings, setting.arithmetic, generator).token)
        except NonFiniteLogit:
            tokens.append(REFUSED)
    return Answer(ids=(*tokens, generator.state))


def _acceptance(given: Input, _: DecoderSetting) -> Answer:
    target, law = _doubles(given["target"]), _doubles(given["law"])
    guesses = [token for token in range(len(law)) if law[token] > 0.0]
    return Answer(values=tuple(acceptance(target, Proposal(token, law)) for token in guesses))


def _residual(given: Input, _: DecoderSetting) -> Answer:
    return Answer(values=tuple(residual(_doubles(given["target"]), _doubles(given["law"])).tolist()))


def _pass(given: Input, _: DecoderSetting) -> Answer:
    """Verify a block of guesses with listed draws; return how many were accepted, then what is committed."""
    targets, laws = ([_doubles(row) for row in given[name]] for name in ("targets", "laws"))
    units = Listed([from_hex_bits(unit) for unit in given["units"]])
    tokens: list[int] = []
    for token, law, target in zip(given["guesses"], laws, targets, strict=False):
        commit = verify(target, Proposal(token, law), units)
        tokens.append(commit.token)
        if commit.source is not Source.ACCEPTED:
            return Answer(ids=(len(tokens) - 1, *tokens))
    return Answer(ids=(len(tokens), *tokens, choose(targets[-1], units.unit()).token))


def _law(given: Input, _: DecoderSetting) -> Answer:
    """Count what is committed at one place over a grid of draws: the guess's, the test's, the residual's."""
    target, law, grid = _doubles(given["target"]), _doubles(given["law"]), given["grid"]
    units = [(place + 0.5) / grid for place in range(grid)]
    counts = [0] * len(target)
    for first in units:
        proposal = Proposal(choose(law, first).token, law)
        for second in units:
            tried = verify(target, proposal, Listed([second, 0.0]))
            if tried.source is Source.ACCEPTED:
                counts[tried.token] += grid
                continue
            for third in units:
                counts[verify(target, proposal, Listed([second, third])).token] += 1
    return Answer(ids=tuple(counts))


def _sampled(given: Input, setting: DecoderSetting) -> Answer:
    """Sample a continuation by one of three arms; return its tokens and the state behind the last draw."""
    model, generator, settings = setting.model(), SplitMix64(given["seed"]), _settings(given)
    limits, prompt = Limits(None, given["new_tokens"], setting.sizes.context), given["prompt"]
    if given["arm"] == "speculative":
        draft = SampledDraft(setting.streaming(model), _settings(given["draft"]), setting.arithmetic)
        block, path = setting.sizes.block, setting.streaming(model)
        drafted = sample_speculatively(path, draft, prompt, limits, settings, block, generator, setting.arithmetic)
        return Answer(ids=(*drafted.ids, drafted.state))
    full = ReencodingPath(model, setting.arithmetic)
    plain = sample_generation(
        full if given["arm"] == "full" else setting.streaming(model),
        prompt,
        limits,
        settings,
        generator,
        setting.arithmetic,
    )
    return Answer(ids=(*plain.ids, plain.state))


SAMPLING_OPERATIONS: Final[Mapping[str, Operation]] = {
    "sampling.distribution": _distribution,
    "sampling.kept": _kept,
    "sampling.choose": _choices,
    "sampling.draws": _draws,
    "speculation.acceptance": _acceptance,
    "speculation.residual": _residual,
    "speculation.pass": _pass,
    "speculation.law": _law,
    "decoder.sample": _sampled,
}


def _settings(given: Input) -> SamplingSettings:
    return SamplingSettings(
        from_hex_bits(given["temperature"]),
        given["top_k"],
        from_hex_bits(given["top_p"]),
        from_hex_bits(given["min_p"]),
    )


def _doubles(digits: Sequence[str]) -> Array:
    return np.array([from_hex_bits(text) for text in digits], dtype=np.float64)
