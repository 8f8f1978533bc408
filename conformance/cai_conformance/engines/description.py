"""What an engine says about itself, by its first name: `cai_conformance.engine` has it."""

from cai_conformance.engine import MANTISSA_BITS, PRECISIONS, Description, Feature, Nondeterminism, Precision

__all__ = ["MANTISSA_BITS", "PRECISIONS", "Description", "Feature", "Nondeterminism", "Precision"]
