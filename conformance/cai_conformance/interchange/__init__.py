"""Nets and weights that come from and go to other programs: `.nn` files, and weights files with their configuration.

What nets can be made of besides files is in `cai_conformance.interchange.sources`, which knows all suites.
"""

from cai_conformance.interchange.nets import import_net, read_net, write_net
from cai_conformance.interchange.weights import read_weights, write_weights

__all__ = ["import_net", "read_net", "read_weights", "write_net", "write_weights"]
