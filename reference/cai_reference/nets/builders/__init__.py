"""Builders: which layers a block, a decoder or a draft becomes, in the order in which the library creates them.

The order decides the indices of a structure line, the order of the weights, and which random number each weight gets,
so it is part of the file format (CAI NEURAL API, decode-features bake-off).
"""

from cai_reference.nets.builders.cai_block import CaiConfiguration, build_cai_example
from cai_reference.nets.builders.decoder import build_decoder
from cai_reference.nets.builders.draft import build_draft

__all__ = ["CaiConfiguration", "build_cai_example", "build_decoder", "build_draft"]
