"""One call for every error of nets that run and of their sessions, with the error that it must raise."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import numpy as np

from cai_neural_api.errors import NetError, NetSessionError
from cai_neural_api.net.cache import Eviction
from cai_neural_api.net.graph import Net
from cai_neural_api.net.session import NetSession
from cai_reference.arithmetic.instances import FAST
from cai_reference.errors import CaiReferenceError
from support_cai_block import CaiConfiguration, build_cai_example
from support_net_graph import convolution, drawn, source, spec
from support_net_models import TINY, layers_of

Case = tuple[CaiReferenceError, Callable[[], object]]

ATTENTION: Final = drawn(layers_of(TINY["attention"]))
HYBRID: Final = drawn(layers_of(TINY["hybrid"]))
CAI: Final = drawn(build_cai_example(CaiConfiguration(9, 4, 4, heads=2, intermediate=3, blocks=1)))


def fed(net: Net = ATTENTION, capacity: int = 5) -> NetSession:
    """Return a session of three tokens."""
    session = NetSession(net, FAST, capacity)
    session.step([1, 2, 3], 0)
    return session


def run_with_an_infinite_bias() -> None:
    """Let a convolution end in infinity."""
    net = drawn([source(2, 2), convolution(0, 1)])
    known = net.layers[1].learned
    assert known is not None
    known.biases[0] = np.inf
    net.run(FAST, np.ones((1, 2, 2)))


def step_in_eight_bits_and_copy() -> None:
    """Take a snapshot of what is not copied."""
    session = NetSession(ATTENTION, FAST, 5)
    session.quantise()
    session.snapshot()


NETS: list[Case] = [
    (
        NetError("learned-does-not-fit", layer=1, kind="TNNetPointwiseConvLinear", expected=((3, 2), (3,)), given=()),
        lambda: Net([source(4, 2), convolution(0, 3)], [None, None]),
    ),
    (NetError("net-token-out-of-range", position=1, token=13.0, vocabulary=13), lambda: ATTENTION.run(FAST, [[1, 13]])),
    (NetError("wrong-input", context=7, depth=1, shape=(1, 8, 1)), lambda: ATTENTION.run(FAST, [[1] * 8])),
    (
        NetError("fixed-length", tokens=2, context=4),
        lambda: drawn([source(4, 2), spec("TransposeXD", 0), convolution(1, 3)]).run(FAST, np.ones((1, 2, 2))),
    ),
    (
        NetError("wrong-gradient", given=(1, 2, 5), expected=(1, 2, 13)),
        lambda: ATTENTION.gradients(FAST, ATTENTION.run(FAST, [[1, 2]]), np.zeros((1, 2, 5))),
    ),
    (NetError("non-finite-output", layer=1, kind="TNNetPointwiseConvLinear"), run_with_an_infinite_bias),
]

SESSIONS: list[Case] = [
    (NetSessionError("not-streamable", layer=11, kind="TNNetTransposeXD"), lambda: NetSession(CAI, FAST, 4)),
    (NetSessionError("no-capacity", capacity=-3), lambda: NetSession(ATTENTION, FAST, -3)),
    (NetSessionError("nothing-fed"), lambda: fed().step([], 3)),
    (NetSessionError("cache-overflow", length=3, tokens=4, capacity=5), lambda: fed().step([1, 2, 3, 4], 3)),
    (NetSessionError("cut-out-of-range", wanted=7, length=3), lambda: fed().truncate(7)),
    (NetSessionError("recurrence-stays", layer=4, kind="TNNetDiagonalSSM", wanted=2), lambda: fed(HYBRID).truncate(2)),
    (
        NetSessionError("eviction-refused", sinks=4, recent=9, reason="the caches have room for 5"),
        lambda: fed().evict(Eviction(4, 9)),
    ),
    (NetSessionError("quantisation-refused", reason="caches in 8 bits are not copied"), step_in_eight_bits_and_copy),
    (
        NetSessionError("foreign-snapshot", what="caches", given=(12, 12, 12), expected=(8, 8, 8)),
        lambda: fed().restore(fed(HYBRID).snapshot()),
    ),
    (
        NetSessionError("snapshot-too-long", needed=3, capacity=2),
        lambda: NetSession(ATTENTION, FAST, 2).restore(fed().snapshot()),
    ),
]

CASES: list[Case] = [*NETS, *SESSIONS]
