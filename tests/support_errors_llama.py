"""One call for every error of Llama models and of the layers that only they have, with the error that it must raise."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace

import numpy as np

from cai_reference.arithmetic import STRICT
from cai_reference.autograd import Parameter, Tape
from cai_reference.errors import CaiReferenceError
from cai_reference.layers import errors as layer
from cai_reference.layers.rms_norm import InverseForm, RmsNorm, rms_norm
from cai_reference.layers.rope import Rope
from cai_reference.models import errors as model
from support_llama_models import PLAIN

Case = tuple[CaiReferenceError, Callable[[], object]]

TAPE = Tape(STRICT)


def norm_of(rows: list[list[float]], width: int) -> Callable[[], object]:
    """Return a call that normalises rows without an epsilon, with a gain of this width."""
    gain = Parameter("gain", np.ones(width))
    return lambda: rms_norm(TAPE, TAPE.constant(np.array(rows)), gain, 0.0, InverseForm.INVERSE_ROOT)


CASES: list[Case] = [
    (layer.InvalidNormEpsilon(-0.5), lambda: RmsNorm.initialize("n", 2, -0.5, InverseForm.INVERSE_ROOT)),
    (layer.GainShapeMismatch(2, (3,)), norm_of([[3.0, 4.0]], 3)),
    (layer.ZeroEnergyRow(1), norm_of([[3.0, 4.0], [0.0, 0.0]], 2)),
    (layer.KeyValueHeadsDoNotDivide(4, 3), lambda: replace(PLAIN, key_value_heads=3)),
    (layer.InvalidRopeBase(math.inf), lambda: Rope(math.inf)),
    (model.NegativeLayers(-1), lambda: replace(PLAIN, layers=-1)),
]
