"""Greedy generation by a loop of its own."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch

from cai_conformance.backends.torch.computing import widened
from cai_conformance.engine import Generated, GenerationOrder


def greedy(order: GenerationOrder, context: int, logits_after: Callable[[Sequence[int]], torch.Tensor]) -> Generated:
    """Generate until the stop id, the budget or a full context.

    Args:
        order: what is asked for.
        context: the longest sequence.
        logits_after: returns the logits [vocabulary] behind a sequence, which grows by one id at a time.

    Raises:
        ValueError: the prompt is empty or fills the context, or more likeliest ids are wanted than there are.
    """
    check_prompt(order.prompt, context)
    sequence, top = list(order.prompt), []
    while len(sequence) - len(order.prompt) < order.new_tokens and len(sequence) < context:
        logits = logits_after(sequence)
        # Of equal maxima, argmax returns the first one.
        chosen = int(torch.argmax(logits))
        sequence.append(chosen)
        if order.top:
            top.append(likeliest(logits, order.top))
        if chosen == order.stop:
            break
    return Generated(tuple(sequence[len(order.prompt) :]), tuple(top))


def check_prompt(prompt: Sequence[int], context: int) -> None:
    """Refuse a prompt that nothing can follow.

    Raises:
        ValueError: it is empty or fills the context.
    """
    if not prompt:
        raise ValueError("the prompt is empty")
    if len(prompt) >= context:
        raise ValueError(f"a prompt of {len(prompt)} tokens leaves no room in a context of {context}")


def likeliest(logits: torch.Tensor, count: int) -> tuple[tuple[int, float], ...]:
    """Return the likeliest ids with their log-probabilities, of equal ones the lower id first.

    Raises:
        ValueError: there are not so many ids.
    """
    if not 0 <= count <= logits.shape[-1]:
        raise ValueError(f"the {count} likeliest of {logits.shape[-1]} ids are wanted")
    log_probabilities = torch.log_softmax(widened(logits), dim=-1)
    values, ids = torch.sort(log_probabilities, descending=True, stable=True)
    return tuple(zip(ids[:count].tolist(), values[:count].tolist(), strict=True))
