"""Tensors of model folders by the file's names and by the reference's, there and back."""

from __future__ import annotations

import numpy as np
import pytest
from safetensors.numpy import load

from cai_conformance.backends.engine.files import file_names, file_tensors, native_tensors
from cai_conformance.fixtures.weight_files import read_tensor_file
from cai_reference.checkpoints.tensor_file import read_tensors
from support_engines import HEADS, SUITE
from support_foreign_engines import given


@pytest.mark.parametrize("suite", [SUITE, "llama.dense", HEADS])
def test_there_and_back_gives_every_bit(suite: str) -> None:
    """Names, shapes and values, in either layout."""
    model = given(suite)
    layout = model.phase.weights_layout
    there = file_tensors(layout, model.tensors)
    back = native_tensors(layout, there)
    assert list(model.tensors) == list(back)
    assert all(np.array_equal(value, back[name]) for name, value in model.tensors.items())


@pytest.mark.parametrize("suite", [SUITE, "llama.dense", HEADS])
def test_they_are_those_of_the_shipped_file(suite: str) -> None:
    """By name, shape and value, as the library of safetensors reads it."""
    model = given(suite)
    shipped = load(model.weights)
    found = file_tensors(model.phase.weights_layout, model.tensors)
    assert set(shipped) == set(found) == set(file_names(model.phase.weights_layout, model.tensors))
    for name, value in shipped.items():
        assert value.shape == found[name].shape
        assert np.array_equal(value.astype(np.float64), found[name])


def test_a_name_of_no_file_is_no_tensor() -> None:
    """Of a Llama model; the other layout has whatever names there are."""
    with pytest.raises(KeyError):
        native_tensors(given(SUITE).phase.weights_layout, {"model.layers.0.self_attn.bias": np.zeros(1)})
    assert ["anything"] == list(native_tensors(given(HEADS).phase.weights_layout, {"anything": np.zeros(1)}))


@pytest.mark.parametrize("suite", [SUITE, HEADS])
def test_tensors_come_in_the_order_of_their_names(suite: str) -> None:
    """In every run the same, although the library that reads the file has no order."""
    weights = given(suite).weights
    names = sorted(load(weights))
    assert len(names) > 10
    assert names == list(read_tensor_file(weights, "weights"))
    assert names == list(read_tensors(weights)[0])
