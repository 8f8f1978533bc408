"""Nets and weights that come from and go to other programs: `.nn` files, and weights files with their configuration."""

from cai_conformance.interchange.nets import import_net, read_net, write_net
from cai_conformance.interchange.sources import load_source
from cai_conformance.interchange.weights import read_weights, write_weights

__all__ = ["import_net", "load_source", "read_net", "read_weights", "write_net", "write_weights"]
