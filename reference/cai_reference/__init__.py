"""A float64 NumPy reference for training and decoding small language models.

The rooms stand in the order in which data flows, and none imports a later one::

    arithmetic → splitmix → text → autograd → layers → models → training → decoding → checkpoints
"""

from cai_reference.errors import CaiReferenceError

__version__ = "0.1.0"

__all__ = ["CaiReferenceError", "__version__"]
