"""One call for every error of Llama models and of the layers that only they have, with the error that it must raise."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace

import numpy as np

from cai_reference.arithmetic.instances import STRICT
from cai_reference.autograd import Parameter, Tape
from cai_reference.errors import CaiReferenceError, LayerError, ModelError
from cai_reference.layers.rms_norm import InverseForm, RmsNorm, rms_norm
from cai_reference.layers.rope import Rope
from support_llama_models import PLAIN

Case = tuple[CaiReferenceError, Callable[[], object]]

TAPE = Tape(STRICT)


def norm_of(rows: list[list[float]], width: int) -> Callable[[], object]:
    """Return a call that normalises rows without an epsilon, with a gain of this width."""
    gain = Parameter("gain", np.ones(width))
    return lambda: rms_norm(TAPE, TAPE.constant(np.array(rows)), gain, 0.0, InverseForm.INVERSE_ROOT)


CASES: list[Case] = [
    (
        LayerError("invalid-norm-epsilon", epsilon=-0.5),
        lambda: RmsNorm.initialize("n", 2, -0.5, InverseForm.INVERSE_ROOT),
    ),
    (LayerError("gain-shape-mismatch", width=2, shape=(3,)), norm_of([[3.0, 4.0]], 3)),
    (LayerError("zero-energy-row", row=1), norm_of([[3.0, 4.0], [0.0, 0.0]], 2)),
    (
        LayerError("key-value-heads-do-not-divide", heads=4, key_value_heads=3),
        lambda: replace(PLAIN, key_value_heads=3),
    ),
    (LayerError("invalid-rope-base", base=math.inf), lambda: Rope(math.inf)),
    (ModelError("negative-layers", layers=-1), lambda: replace(PLAIN, layers=-1)),
]
