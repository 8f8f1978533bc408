"""How the given weights of a suite are laid out, and the file that holds them."""

from __future__ import annotations

from enum import StrEnum
from typing import Final


class WeightsLayout(StrEnum):
    """Names and shapes of the tensors.

    NATIVE has the reference's own names, and matrices [inputs, outputs]. HUGGING_FACE has those of the files of Llama
    models, matrices [outputs, inputs]; beside it stand the settings that make the folder a model.
    """

    NATIVE = "native"
    HUGGING_FACE = "hf"

    @property
    def file(self) -> str:
        """The name of the file with the weights."""
        return _FILES[self]


_FILES: Final = {WeightsLayout.NATIVE: "weights.safetensors", WeightsLayout.HUGGING_FACE: "model.safetensors"}
