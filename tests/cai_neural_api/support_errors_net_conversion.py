"""One call for every error between nets and models, with the error that it must raise."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np

from cai_neural_api.conversion import decoder_to_net, net_to_decoder
from cai_neural_api.errors import NetError
from cai_neural_api.format import NetFile, Neuron
from cai_neural_api.net.structure import LayerSpec
from cai_reference.errors import CaiReferenceError
from support_net_models import TINY, drawn

Case = tuple[CaiReferenceError, Callable[[], object]]

DRAFT = TINY["draft"]


def net_with(place: int, *neurons: Neuron) -> Callable[[], object]:
    """Return a call that converts a draft with other neurons in one layer."""
    net = decoder_to_net(drawn(DRAFT))
    return lambda: net_to_decoder(NetFile(net.specs, (*net.neurons[:place], neurons, *net.neurons[place + 1 :])))


def net_without_norms() -> None:
    """Convert a net that ends behind its embedding."""
    net = decoder_to_net(drawn(DRAFT))
    net_to_decoder(NetFile(net.specs[:2], net.neurons[:2]))


def net_with_suppressed_biases() -> None:
    """Convert a draft whose hidden layer has no biases."""
    net = decoder_to_net(drawn(DRAFT))
    hidden: LayerSpec = replace(net.specs[3], integers=(9, 1, 0, 1, 1, 0, 0, 0))
    net_to_decoder(NetFile((*net.specs[:3], hidden, *net.specs[4:]), net.neurons))


def model_with_a_large_weight() -> None:
    """Convert a draft with a weight that only double precision holds."""
    model = drawn(DRAFT)
    bias = next(parameter for parameter in model.parameters if parameter.name == "hidden.bias")
    values = bias.value.copy()
    values[4] = -1e39
    bias.assign(values)
    decoder_to_net(model)


MIX = np.full(6, 0.5)

CASES: list[Case] = [
    (NetError("not-a-decoder", missing="TNNetDyT"), net_without_norms),
    (NetError("layer-differs", layer=3, aspect="integer 4", expected="0", found="1"), net_with_suppressed_biases),
    (NetError("neurons-differ", layer=2, kind="TNNetTokenShift", expected="1 neurons", found="0"), net_with(2)),
    (
        NetError("unused-bias", layer=2, kind="TNNetTokenShift", neuron=0, bias=0.25),
        net_with(2, Neuron(0.25, MIX, (1, 1, 6))),
    ),
    (NetError("weight-beyond-single", parameter="hidden.bias", value=-1e39), model_with_a_large_weight),
]
