"""The names and shapes of a model folder's tensors, from the head of its file alone."""

from __future__ import annotations

from pathlib import Path

from safetensors import SafetensorError, safe_open

FILES = ("model.safetensors", "weights.safetensors")
"""What the file of weights is called, in the order in which it is looked for."""


def model_shapes(folder: Path) -> dict[str, tuple[int, ...]] | None:
    """Return the shape of each tensor of a model folder; None where it has no file that can be read."""
    for name in FILES:
        if not (folder / name).is_file():
            continue
        try:
            with safe_open(folder / name, "np") as file:
                return {key: tuple(file.get_slice(key).get_shape()) for key in file.keys()}  # noqa: SIM118
        except (OSError, SafetensorError):
            return None
    return None
