"""How much memory a net takes, told before any of it is asked for.

The context of a net is a number in its structure line that nothing else bears out: a damaged one may state any. What
grows with it is the outputs of a run over the whole context, the scores of its attention layers, and the caches of a
session.
"""

from __future__ import annotations

from typing import Final

from cai_conformance.nets.errors import NetTooLarge
from cai_conformance.nets.structure import ATTENTION
from cai_reference.nets.graph.net import Net

MOST: Final = 1 << 32
"""So many bytes may be taken."""

VALUE: Final = 8
"""Bytes of a number."""


def check_run(net: Net) -> None:
    """Refuse a net whose run over a whole context takes too much memory.

    Raises:
        NetTooLarge: it does.
    """
    context = net.context
    scores = sum(spec.kind == ATTENTION for spec in net.specs) * context
    _check(net, context * (scores + sum(shape.depth for shape in net.shapes)))


def check_session(net: Net, capacity: int) -> None:
    """Refuse a net whose session takes too much memory with room for so many tokens.

    Raises:
        NetTooLarge: it does.
    """
    _check(net, capacity * sum(2 * spec.integers[0] for spec in net.specs if spec.kind == ATTENTION))


def _check(net: Net, values: int) -> None:
    if VALUE * values > MOST:
        raise NetTooLarge(net.context, -(-VALUE * values >> 30), MOST >> 30)
