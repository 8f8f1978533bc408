"""The reference's answers to the vector cases of the decode suites, on given weights.

What is a matter of the model is asked of the reference's own engine, as of any other engine. The rest are samplers, and
the optimiser of the course (chapter 33): laws, kept sets, choices, draws, speculation by chance, updates.

Answers that are ids mean the same in every arithmetic: no case has a draw close to the border of an interval. A row of
logits that has to be refused is answered by −1, and takes no draw.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Final

import numpy as np

from cai_conformance.backends.engine.answers import DRAFT_SLOT, OPERATIONS, Input, continued
from cai_conformance.backends.engine.given_model import GivenModel, OpenedModel
from cai_conformance.backends.engine.session import EngineReencoding, EngineSession
from cai_conformance.backends.reference.engine import LATENT_ARMS, USUAL_ARMS, ReferenceEngine
from cai_conformance.engine import Refused
from cai_conformance.fixtures.vectors import Answer, VectorCase
from cai_reference.arithmetic import Arithmetic, Array
from cai_reference.arithmetic.bits import from_hex_bits
from cai_reference.autograd import Parameter
from cai_reference.decoding.generation import Limits, Path, StreamingPath
from cai_reference.decoding.sampled_generation import sample_generation
from cai_reference.decoding.sampling import SamplingSettings, choose, distribution_of, sample
from cai_reference.decoding.stochastic_speculation import (
    Proposal,
    SampledDraft,
    Source,
    acceptance,
    residual,
    sample_speculatively,
    verify,
)
from cai_reference.errors import ModelError
from cai_reference.splitmix import SplitMix64
from cai_reference.training.adamw import AdamW, AdamWConfiguration, all_but_gains
from cai_reference.training.clipping import clip_to

REFUSED: Final = -1
"""The answer to a row from which nothing may be drawn."""

# Its loops are the reference's, so that its choice among equal maxima is its own in every arm.
OF_THE_MODEL: Final = {**OPERATIONS, "decoder.generate": continued}


class GivenReference:
    """The given model of a suite in the reference's own engine.

    Args:
        given: the model.
        arithmetic: in which it answers.
    """

    def __init__(self, given: GivenModel, arithmetic: Arithmetic) -> None:
        self.arithmetic = arithmetic
        engine = ReferenceEngine(arithmetic, given.sizes.slack, USUAL_ARMS | LATENT_ARMS)
        self.opened = OpenedModel(engine, given)

    def answer(self, case: VectorCase) -> Answer:
        """Return the reference's answer to one case.

        Raises:
            CaiReferenceError: it cannot compute this.
        """
        if case.operation in OF_NO_MODEL:
            return OF_NO_MODEL[case.operation](case.input, self)
        try:
            found = OF_THE_MODEL[case.operation](case.input, self.opened)
        except Refused as error:
            # What the reference cannot compute is a mistake of its own, not a thing that it does not offer.
            raise error.__cause__ or error from None
        assert found is not None, f"the reference has every arm, {case.identifier} too"
        return found


class Listed:
    """Units from a list, in order."""

    def __init__(self, units: Sequence[float]) -> None:
        self._units: Iterator[float] = iter(units)

    def unit(self) -> float:
        """Return the next one."""
        return next(self._units)


def _distribution(given: Input, setting: GivenReference) -> Answer:
    found = distribution_of(_doubles(given["logits"]), _settings(given), setting.arithmetic)
    return Answer(values=tuple(found.probabilities.tolist()))


def _kept(given: Input, setting: GivenReference) -> Answer:
    return Answer(ids=distribution_of(_doubles(given["logits"]), _settings(given), setting.arithmetic).kept)


def _choices(given: Input, setting: GivenReference) -> Answer:
    found = distribution_of(_doubles(given["logits"]), _settings(given), setting.arithmetic)
    return Answer(ids=tuple(choose(found.probabilities, from_hex_bits(unit)).token for unit in given["units"]))


def _draws(given: Input, setting: GivenReference) -> Answer:
    """Draw once from each row with one generator, and return the tokens and the state behind the last draw."""
    generator, settings = SplitMix64(given["seed"]), _settings(given)
    tokens: list[int] = []
    for row in given["rows"]:
        try:
            tokens.append(sample(_doubles(row), settings, setting.arithmetic, generator).token)
        except ModelError as error:
            if error.code != "non-finite-logit":
                raise
            tokens.append(REFUSED)
    return Answer(ids=(*tokens, generator.state))


def _acceptance(given: Input, _: GivenReference) -> Answer:
    target, law = _doubles(given["target"]), _doubles(given["law"])
    guesses = [token for token in range(len(law)) if law[token] > 0.0]
    return Answer(values=tuple(acceptance(target, Proposal(token, law)) for token in guesses))


def _residual(given: Input, _: GivenReference) -> Answer:
    return Answer(values=tuple(residual(_doubles(given["target"]), _doubles(given["law"])).tolist()))


def _pass(given: Input, _: GivenReference) -> Answer:
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


def _law(given: Input, _: GivenReference) -> Answer:
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


def _sampled(given: Input, setting: GivenReference) -> Answer:
    """Sample a continuation by one of three arms; return its tokens and the state behind the last draw."""
    opened, arithmetic = setting.opened, setting.arithmetic
    opened.load()
    generator, settings, prompt = SplitMix64(given["seed"]), _settings(given), given["prompt"]
    limits = Limits(None, given["new_tokens"], opened.given.sizes.context)
    cached = StreamingPath(EngineSession(opened.engine))
    if given["arm"] == "speculative":
        drafting = StreamingPath(EngineSession(opened.engine, DRAFT_SLOT))
        draft, block = SampledDraft(drafting, _settings(given["draft"]), arithmetic), opened.given.sizes.block
        drafted = sample_speculatively(cached, draft, prompt, limits, settings, block, generator, arithmetic)
        return Answer(ids=(*drafted.ids, drafted.state))
    path: Path = EngineReencoding(opened.engine) if given["arm"] == "full" else cached
    plain = sample_generation(path, prompt, limits, settings, generator, arithmetic)
    return Answer(ids=(*plain.ids, plain.state))


def _update(given: Input, _: GivenReference) -> Answer:
    """Take updates with stored gradients; return the norm of each before clipping, then all weights at the end."""
    parameters = [
        Parameter(name, np.array([from_hex_bits(digits) for digits in values]))
        for name, values in given["weights"].items()
    ]
    rates = [from_hex_bits(digits) for digits in given["rates"]]
    numbers = (from_hex_bits(given[name]) for name in ("beta1", "beta2", "epsilon", "weight_decay"))
    optimizer = AdamW(AdamWConfiguration(rates[0], *numbers), all_but_gains(parameters))
    norms: list[float] = []
    for rate, gradients in zip(rates, given["gradients"], strict=True):
        for parameter in parameters:
            parameter.gradient = np.array([from_hex_bits(digits) for digits in gradients[parameter.name]])
        clip = clip_to(parameters, from_hex_bits(given["maximum_norm"]))
        optimizer.step_at(rate, parameters, clip.transform)
        norms.append(clip.before)
    weights = [value for parameter in parameters for value in parameter.value.tolist()]
    return Answer(values=(*norms, *weights))


OF_NO_MODEL: Final[Mapping[str, Callable[[Input, GivenReference], Answer]]] = {
    "sampling.distribution": _distribution,
    "sampling.kept": _kept,
    "sampling.choose": _choices,
    "sampling.draws": _draws,
    "speculation.acceptance": _acceptance,
    "speculation.residual": _residual,
    "speculation.pass": _pass,
    "speculation.law": _law,
    "decoder.sample": _sampled,
    "course.update": _update,
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
