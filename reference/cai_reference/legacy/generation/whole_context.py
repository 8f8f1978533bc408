"""Generation by encoding the whole context again for every token, and what it makes of a text.

The ids stand at the start of the input. Behind them stands what the net read last: the library copies that input and
overwrites its start, but clears nothing. A net in which no token sees later ones gives the same rows whatever stands
there; any other one does not. At least one token is always generated, so that a prompt that fills the context becomes
one token longer than the context. Source: CAI NEURAL API, GenerateStringFromTokens; the stale tail was read, not
measured.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from cai_reference.arithmetic import Arithmetic
from cai_reference.legacy.generation.errors import LastInputLength, PromptOverrunsContext
from cai_reference.legacy.generation.steps import (
    FIRST_WORD,
    GenerationEnd,
    LegacyGeneration,
    Step,
    check_ids,
    check_net,
    choose,
    collect,
)
from cai_reference.legacy.sampling import Sampler
from cai_reference.legacy.tokenizer import Vocabulary, decode, encode
from cai_reference.nets.graph.net import Net


def whole_context(
    net: Net,
    arithmetic: Arithmetic,
    prompt: Sequence[int],
    sampler: Sampler | None = None,
    last_input: Sequence[int] | None = None,
) -> Iterator[Step]:
    """Return the steps that continue a prompt; what is wrong with it is told before the first one.

    Args:
        net: predicts the next token alone.
        arithmetic: of all forward passes, one a step.
        prompt: one id or more, at most as many as the context.
        sampler: chooses from a row; the first largest if left out.
        last_input: what the net read last, as many ids as the context; zeros, as in a fresh net, if left out.

    Raises:
        NotALanguageModel, SeveralFutureTokens: the net is not for this.
        NoPromptTokens, PromptTokenUnknown, PromptOverrunsContext, LastInputLength: the ids are not.
        NetError, LegacySamplingError: from a step, if the net cannot be run or nothing can be chosen.
    """
    vocabulary = check_net(net)
    check_ids(prompt, vocabulary)
    if len(prompt) > net.context:
        raise PromptOverrunsContext(len(prompt), net.context)
    tail = [0] * net.context if last_input is None else list(last_input)
    if len(tail) != net.context:
        raise LastInputLength(len(tail), net.context)
    return _steps(net, arithmetic, list(prompt), sampler, tail)


def _steps(
    net: Net, arithmetic: Arithmetic, ids: list[int], sampler: Sampler | None, volume: list[int]
) -> Iterator[Step]:
    end: GenerationEnd | None = None
    while end is None:
        volume[: len(ids)] = ids
        ids.append(choose(net.output(arithmetic, [volume])[0, len(ids) - 1], sampler))
        if ids[-1] < FIRST_WORD:
            end = GenerationEnd.TOKEN
        elif len(ids) >= net.context:
            end = GenerationEnd.CONTEXT
        yield Step(ids[-1], end)


def generate_whole_context(
    net: Net,
    arithmetic: Arithmetic,
    prompt: Sequence[int],
    sampler: Sampler | None = None,
    last_input: Sequence[int] | None = None,
) -> LegacyGeneration:
    """Continue a prompt to its end; arguments and errors are those of `whole_context`."""
    return collect(prompt, whole_context(net, arithmetic, prompt, sampler, last_input), GenerationEnd.CONTEXT)


def generate_text(
    net: Net,
    arithmetic: Arithmetic,
    vocabulary: Vocabulary,
    prompt: bytes,
    sampler: Sampler | None = None,
    last_input: Sequence[int] | None = None,
) -> bytes:
    """Return a text with its continuation.

    The control byte of an id that ends a text is part of it; ids beyond the vocabulary add nothing. The prompt stands
    as it was given, even where the tokenizer reads it as something else.

    Raises:
        ReservedByte: the text holds NUL or byte 29.
        NetError, LegacyError: as `whole_context`.
    """
    ids = encode(vocabulary, prompt)
    return prompt + decode(vocabulary, generate_whole_context(net, arithmetic, ids, sampler, last_input).new)
