"""The `.nn` files of the CAI NEURAL API: text, a structure line and a data line.

`parse_net` reads the bytes of a file, `format_net` writes them; what the library wrote comes back byte for byte. A
damaged file is refused with one error that names the line or the layer.
"""

from cai_neural_api.format.data_line import NetFile, Neuron
from cai_neural_api.format.file import format_net, parse_net
from cai_neural_api.format.numbers import format_number
from cai_neural_api.format.structure_line import format_structure, parse_structure

__all__ = ["NetFile", "Neuron", "format_net", "format_number", "format_structure", "parse_net", "parse_structure"]
