"""The way between nets of the CAI NEURAL API and the decoders and drafts of `cai_reference.models`."""

from cai_reference.nets.conversion.from_decoder import decoder_to_net
from cai_reference.nets.conversion.learned_layers import Model
from cai_reference.nets.conversion.to_decoder import net_to_decoder

__all__ = ["Model", "decoder_to_net", "net_to_decoder"]
