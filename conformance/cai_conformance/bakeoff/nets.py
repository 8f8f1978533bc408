"""The nets of a phase as the published program makes them, from one generator that is read in its order.

A run of the published program seeds the generator, loads its vocabulary, which draws while it is sorted, and then makes
its nets. Phase 5 makes the net of phase 1 while it reads its file, so that the draft's weights are drawn behind those.
In which order phase 9 makes its two nets is not known here; the one that is trained comes first. (CAI NEURAL API,
decode-features bake-off. The initial weights of a net were measured; what precedes them in phases 5 and 9 was not.)
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from cai_conformance.bakeoff.files import OutputFolder
from cai_conformance.bakeoff.phases import PHASES, BakePhase
from cai_conformance.bakeoff.settings import BakeSettings
from cai_reference.legacy.initialization import initialize
from cai_reference.legacy.mersenne import MersenneTwister
from cai_reference.legacy.tokenizer import Vocabulary
from cai_reference.nets.conversion.from_decoder import build_net
from cai_reference.nets.format import NetFile
from cai_reference.nets.format.volumes import layer_volumes
from cai_reference.nets.shapes import layer_shapes
from cai_reference.nets.structure import LayerSpec


@dataclass(frozen=True)
class PhaseNets:
    """What a phase starts with.

    Attributes:
        initial: the net that is trained, before that.
        target: the trained net of phase 1, where a draft is trained for it.
        sequential: an untrained net of phase 1, where forward passes are timed beside those of the initial net.
        generator: what batches are drawn from.
    """

    initial: NetFile
    target: NetFile | None
    sequential: NetFile | None
    generator: MersenneTwister


def make_nets(phase: BakePhase, settings: BakeSettings, vocabulary: Vocabulary, folder: OutputFolder) -> PhaseNets:
    """Make the nets of a phase.

    Raises:
        CheckpointMissing, CheckpointDiffers, UnreadableNet: the net of phase 1 is needed and cannot be had.
    """
    generator = MersenneTwister(settings.seed)
    vocabulary.replay_loading(generator)
    first = build_net(settings.decoder(PHASES[0]))
    target = None
    if phase.trains_draft:
        target = folder.read_target(first)
        initialize(first, generator)
    initial = initialize(build_net(settings.trained(phase)), generator)
    sequential = initialize(first, generator) if phase.times_forwards else None
    return PhaseNets(initial, target, sequential, generator)


def weights_of(specs: Sequence[LayerSpec]) -> int:
    """Return how many weights the library counts in a net; biases are not among them."""
    return sum(volume.count * volume.weights for own in layer_volumes(specs, layer_shapes(specs)) for volume in own)
