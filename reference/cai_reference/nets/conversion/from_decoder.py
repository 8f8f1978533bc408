"""From a decoder or a draft to a net that the library loads.

Nets hold single precision, so every weight and the base of the rotary frequencies are rounded to it, to the nearest;
what single precision holds, such as the weights of a net, comes through unchanged.
"""

from __future__ import annotations

from cai_reference.models.decoder_configuration import DecoderConfiguration, DraftConfiguration
from cai_reference.nets.builders import build_decoder, build_draft
from cai_reference.nets.conversion.learned_layers import Model, learned_layers
from cai_reference.nets.format import NetFile
from cai_reference.nets.format.volumes import layer_volumes
from cai_reference.nets.shapes import layer_shapes
from cai_reference.nets.structure import LayerSpec


def decoder_to_net(model: Model) -> NetFile:
    """Return the net of a model, in single precision.

    Raises:
        WeightBeyondSingle: a weight is too large for single precision.
    """
    specs = build_net(model.configuration)
    learned = learned_layers(model)
    volumes = layer_volumes(specs, layer_shapes(specs))
    return NetFile(specs, tuple(next(learned).neurons() if expected else () for expected in volumes))


def build_net(configuration: DecoderConfiguration | DraftConfiguration) -> tuple[LayerSpec, ...]:
    """Return the layers of a decoder or a draft.

    Raises:
        HeadsDoNotDivide, OddRopeWidth, WindowTooSmall: the sizes of a decoder do not fit.
    """
    if isinstance(configuration, DraftConfiguration):
        return build_draft(configuration)
    return build_decoder(configuration)
