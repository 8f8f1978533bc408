"""Sampled generation: `generate` with chance.

Paths, limits and stop rules are those of greedy generation: EOS is appended and ends, then the budget, then the
context. The course's decoders (chapter 36) have the same rules with a context of their positions plus one: their
last token may lack a position, because nothing is predicted from it.

Where two paths give the same bits, as those of a decoder do in `strict/1`, everything here is the same, too: tokens,
draws, intervals, and the state in which the generator is left.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from cai_reference.arithmetic import Arithmetic, Array
from cai_reference.decoding.generation import DecoderStop, Limits, Path, check_prompt, stop_after
from cai_reference.decoding.sampling import Choice, SamplingSettings, sample
from cai_reference.splitmix import SplitMix64


@dataclass(frozen=True)
class SampledGeneration:
    """What came after a prompt, and by which draws.

    Attributes:
        choices: the choice of each new token, EOS included where it ended.
        rows: for each new token the logits [vocabulary] it was drawn from.
        stop: why it ended.
        forwards: calls of the model, prefill included.
        state: the generator's, after the last draw.
    """

    choices: tuple[Choice, ...]
    rows: tuple[Array, ...]
    stop: DecoderStop
    forwards: int
    state: int

    @property
    def ids(self) -> tuple[int, ...]:
        """The new tokens."""
        return tuple(choice.token for choice in self.choices)


def sample_generation(
    path: Path,
    prompt: Sequence[int],
    limits: Limits,
    settings: SamplingSettings,
    generator: SplitMix64,
    arithmetic: Arithmetic,
) -> SampledGeneration:
    """Generate one token at a time; a budget of 0 calls nothing and draws nothing.

    Raises:
        DecodingError (empty-prompt, prompt-too-long): before any model call.
        SessionError, AutogradError: the path failed.
        SamplingError, `non-finite-logit`: a choice failed; the generator is where the token before has left it.
    """
    check_prompt(prompt, limits)
    ids = list(prompt)
    choices: list[Choice] = []
    rows: list[Array] = []
    stop: DecoderStop | None = None if limits.new_tokens > 0 else DecoderStop.LIMIT
    if stop is None:
        path.prefill(prompt[:-1])
    while stop is None:
        rows.append(path.after(ids, 1)[0][0])
        choices.append(sample(rows[-1], settings, arithmetic, generator))
        ids.append(choices[-1].token)
        stop = stop_after(ids[-1], len(rows), len(ids), limits)
    return SampledGeneration(tuple(choices), tuple(rows), stop, path.forwards, generator.state)
