"""One call for every error of nets that run and of their sessions, with the error that it must raise."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import numpy as np

from cai_reference.arithmetic import FAST
from cai_reference.errors import CaiReferenceError
from cai_reference.nets.builders import CaiConfiguration, build_cai_example
from cai_reference.nets.graph import errors
from cai_reference.nets.graph.cache import Eviction
from cai_reference.nets.graph.net import Net
from cai_reference.nets.graph.session import NetSession
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
        errors.LearnedDoesNotFit(1, "TNNetPointwiseConvLinear", ((3, 2), (3,)), ()),
        lambda: Net([source(4, 2), convolution(0, 3)], [None, None]),
    ),
    (errors.NetTokenOutOfRange(1, 13.0, 13), lambda: ATTENTION.run(FAST, [[1, 13]])),
    (errors.WrongInput(7, 1, (1, 8, 1)), lambda: ATTENTION.run(FAST, [[1] * 8])),
    (
        errors.FixedLength(2, 4),
        lambda: drawn([source(4, 2), spec("TransposeXD", 0), convolution(1, 3)]).run(FAST, np.ones((1, 2, 2))),
    ),
    (
        errors.WrongGradient((1, 2, 5), (1, 2, 13)),
        lambda: ATTENTION.gradients(FAST, ATTENTION.run(FAST, [[1, 2]]), np.zeros((1, 2, 5))),
    ),
    (errors.NonFiniteOutput(1, "TNNetPointwiseConvLinear"), run_with_an_infinite_bias),
]

SESSIONS: list[Case] = [
    (errors.NotStreamable(11, "TNNetTransposeXD"), lambda: NetSession(CAI, FAST, 4)),
    (errors.NoCapacity(-3), lambda: NetSession(ATTENTION, FAST, -3)),
    (errors.NothingFed(), lambda: fed().step([], 3)),
    (errors.CacheOverflow(3, 4, 5), lambda: fed().step([1, 2, 3, 4], 3)),
    (errors.CutOutOfRange(7, 3), lambda: fed().truncate(7)),
    (errors.RecurrenceStays(4, "TNNetDiagonalSSM", 2), lambda: fed(HYBRID).truncate(2)),
    (errors.EvictionRefused(4, 9, "the caches have room for 5"), lambda: fed().evict(Eviction(4, 9))),
    (errors.QuantisationRefused("caches in 8 bits are not copied"), step_in_eight_bits_and_copy),
    (
        errors.ForeignSnapshot("caches", (12, 12, 12), (8, 8, 8)),
        lambda: fed().restore(fed(HYBRID).snapshot()),
    ),
    (errors.SnapshotTooLong(3, 2), lambda: NetSession(ATTENTION, FAST, 2).restore(fed().snapshot())),
]

CASES: list[Case] = [*NETS, *SESSIONS]
