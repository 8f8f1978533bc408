"""The strict vector cases of Llama models see the other way to compute the inverse of a root, which is rounding alone.

Mistakes that are more than rounding are seeded faults (`cai_conformance.faults`), judged in the kill matrix.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from cai_conformance.backends.engine.given_model import GivenModel
from cai_conformance.backends.reference.decoder_answers import GivenReference
from cai_conformance.faults import Patch
from cai_conformance.fixtures.decoder_phases import phase_of, sizes_for
from cai_conformance.fixtures.goldens.store import locate
from cai_conformance.fixtures.vectors import read_vectors
from cai_reference.arithmetic.instances import STRICT
from cai_reference.layers.rms_norm import InverseForm, RmsNorm


@contextmanager
def read_as(form: InverseForm) -> Iterator[None]:
    """Let every norm read another form for a while."""
    patch = Patch()
    patch.setting(RmsNorm, "form", form)
    yield
    patch.suspend()


def failing(suite: str, names: tuple[str, ...]) -> list[str]:
    """Answer some accepted cases anew, and return those whose answer is another one, bit for bit."""
    phase = phase_of(suite)
    weights = (locate() / suite / phase.weights_layout.file).read_bytes()
    reference = GivenReference(GivenModel(phase, sizes_for(phase, "golden", 0), weights), STRICT)
    cases = {case.identifier: case for case in read_vectors((locate() / suite / "vectors.json").read_bytes()).cases}
    return [name for name in names if reference.answer(cases[name]) != cases[name].expected]


@pytest.mark.parametrize(
    ("suite", "form"),
    [
        ("course.decoder", InverseForm.INVERSE_ROOT),
        pytest.param("llama.dense", InverseForm.EXPONENTIAL, marks=pytest.mark.exhaustive),
    ],
)
def test_another_form_of_the_norm_fails(suite: str, form: InverseForm) -> None:
    """By its answers, and the reference as it is fails none of these cases."""
    names = ("fwd.oracle.last", "fwd.oracle.far")
    with read_as(form):
        assert list(names) == failing(suite, names)
    assert [] == failing(suite, names)
