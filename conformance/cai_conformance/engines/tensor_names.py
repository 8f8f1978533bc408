"""Between the tensors of a model folder's file and the reference's parameters: names, and which are transposed."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import numpy as np

from cai_conformance.backends.decoder import hugging_face
from cai_conformance.backends.decoder.given import Tensors
from cai_conformance.backends.decoder.weights_layout import WeightsLayout
from cai_conformance.engines.errors import AnswerOutOfShape
from cai_reference.arithmetic import Array


def file_names(layout: WeightsLayout, names: Iterable[str]) -> tuple[str, ...]:
    """Return what the file calls parameters of the reference."""
    if layout is WeightsLayout.NATIVE:
        return tuple(names)
    return tuple(map(hugging_face.hugging_face_name, names))


def native_tensors(layout: WeightsLayout, tensors: Mapping[str, Array]) -> Tensors:
    """Return tensors of the file's names and shapes by the reference's.

    Raises:
        KeyError: a name is none of the file's.
    """
    if layout is WeightsLayout.NATIVE:
        return dict(tensors)
    values: Tensors = {}
    for name, tensor in tensors.items():
        ours = hugging_face.native_name(name)
        values[ours] = np.ascontiguousarray(tensor.T) if hugging_face.is_transposed(ours) else tensor
    return values


def file_tensors(layout: WeightsLayout, tensors: Mapping[str, Array]) -> Tensors:
    """Return parameters of the reference by the file's names, in the file's shapes."""
    if layout is WeightsLayout.NATIVE:
        return dict(tensors)
    return {
        hugging_face.hugging_face_name(name): np.ascontiguousarray(
            tensor.T if hugging_face.is_transposed(name) else tensor
        )
        for name, tensor in tensors.items()
    }


def answered_tensors(layout: WeightsLayout, found: Mapping[str, Array], wanted: Tensors, engine: str) -> Tensors:
    """Return what an engine gave by the file's names, by the reference's.

    Raises:
        AnswerOutOfShape: some are missing, unknown or of another shape than those wanted.
    """
    try:
        named = native_tensors(layout, found)
    except KeyError as error:
        raise AnswerOutOfShape(engine, f"a tensor {error}", "those of the model's file") from None
    return checked(named, wanted, engine)


def checked(found: Tensors, wanted: Tensors, engine: str) -> Tensors:
    """Return the wanted tensors of what an engine gave.

    Raises:
        AnswerOutOfShape: one is missing, or of another shape.
    """
    for name, value in wanted.items():
        if name not in found or found[name].shape != value.shape:
            got = "nothing" if name not in found else f"shape {list(found[name].shape)}"
            raise AnswerOutOfShape(engine, got, f"the tensor {name} of shape {list(value.shape)}")
    return {name: found[name] for name in wanted}
