"""A float64 NumPy reference for training and decoding small language models.

The rooms stand in the order in which data flows, and none imports a later one::

    arithmetic → splitmix → text → autograd → layers → models → training → decoding
"""

from cai_reference.errors import CaiReferenceError
from cai_reference.version import __version__

__all__ = ["CaiReferenceError", "__version__"]
