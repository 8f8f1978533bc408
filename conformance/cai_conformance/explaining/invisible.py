"""Which seeded faults a measured tolerance would let pass: those that move rows, but by less than is allowed."""

from __future__ import annotations

from typing import Final

import numpy as np

from cai_conformance.backends.decoder.edges import answer
from cai_conformance.backends.decoder.setting import DecoderSetting
from cai_conformance.engines.given_model import GivenModel
from cai_conformance.faults import FAULTS, Place
from cai_conformance.measuring.distances import distance_between
from cai_conformance.measuring.floor import NoiseFloor, row_cases
from cai_conformance.measuring.policy import FACTOR
from cai_conformance.vectors import VectorCase
from cai_reference.arithmetic import FAST, Array
from cai_reference.errors import CaiReferenceError

NOTICEABLE: Final = 1e-10
"""Logits that move by less have only been rounded in another way."""


def invisible_faults(given: GivenModel, cases: tuple[VectorCase, ...], floor: NoiseFloor) -> tuple[str, ...]:
    """Return the faults of the forward pass and of sessions that move a row, and none beyond what is allowed.

    Nobody else may use the reference in this process meanwhile.
    """
    setting = DecoderSetting(given.phase, given.sizes, FAST, given.weights)
    asked = tuple(row_cases(cases))
    right = {case.identifier: _row(case, setting) for case in asked}
    hidden: list[str] = []
    for fault in FAULTS:
        if not fault.places & {Place.BATCH, Place.SESSION}:
            continue
        moved, seen = False, False
        with fault.planted():
            for case in asked:
                try:
                    row = _row(case, setting)
                except (CaiReferenceError, ArithmeticError, ValueError, IndexError):
                    seen = True
                    break
                distance = distance_between(right[case.identifier], row, floor.precision)
                moved = moved or distance.absolute > NOTICEABLE
                seen = seen or distance.ulps > FACTOR * floor.level(case).ulps
                if seen:
                    break
        if moved and not seen:
            hidden.append(fault.slug)
    return tuple(hidden)


def _row(case: VectorCase, setting: DecoderSetting) -> Array:
    return np.array(answer(case, setting).values)
