"""The layout of this project's own checkpoint.

A safetensors file: the length of a JSON header in eight bytes, the header, the tensors. Its metadata have four keys::

    format   cai-conform checkpoint
    version  1
    state    the description of the run, JSON with sorted keys and without spaces
    digest   SHA-256 of the text of `state`, in hex digits

Tensors are doubles: `weights/NAME` for every parameter, and `first/NAME` and `second/NAME` for its moments from the
first step on. The description lists each with shape and SHA-256, so that no byte of the file that means something can
change unnoticed, and what changed is named. Its other keys::

    model        kind and sizes
    optimizer    the hyperparameters, the names that decay and those that do not
    schedule     kind and numbers
    run          largest norm, batch size, arithmetic
    progress     step, the optimiser's step and powers of beta
    data         number and digest of the examples; epoch, batch and generator of the place
    generators   states of all others, by name
    parameters   names in registry order

A state of a generator is a text of sixteen hex digits, because JSON readers in other languages round large numbers. A
double is a decimal that reads back as itself.
"""

from __future__ import annotations

from typing import Final

FORMAT: Final = "cai-conform checkpoint"
VERSION: Final = "1"
KEYS: Final = ("format", "version", "state", "digest")
WEIGHTS: Final = "weights/"
FIRST: Final = "first/"
SECOND: Final = "second/"
DOUBLE: Final = "F64"
LENGTH_BYTES: Final = 8
ALIGNMENT: Final = 8
