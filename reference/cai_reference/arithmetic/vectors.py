"""The shipped test vectors, read into data: `vectors.json` for `strict/1`, `c_library.json` for the C library.

This file only reads. What is done with the vectors is in `selftest`.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import TypedDict

import numpy as np

from cai_reference.arithmetic import Array
from cai_reference.arithmetic.bits import from_hex_bits

FUNCTIONS = ("exp", "log", "log1p", "tanh", "sin", "cos")


class _SumEntry(TypedDict):
    name: str
    about: str
    shape: list[int]
    axis: list[int] | None
    terms: list[str]
    sums: list[str]


class _ProductEntry(TypedDict):
    name: str
    about: str
    left_shape: list[int]
    right_shape: list[int]
    left: list[str]
    right: list[str]
    product_shape: list[int]
    product: list[str]


class _File(TypedDict):
    functions: dict[str, list[tuple[str, str]]]
    sums: list[_SumEntry]
    products: list[_ProductEntry]


@dataclass(frozen=True, eq=False)
class FunctionVectors:
    """Arguments of one elementary function and its results; two arrays `[cases]`."""

    function: str
    arguments: Array
    results: Array


@dataclass(frozen=True, eq=False)
class SumVector:
    """One sum: `terms` of any shape, the summed `axis` (None: all), and the `sums` row-major `[results]`."""

    name: str
    about: str
    terms: Array
    axis: tuple[int, ...] | None
    sums: Array


@dataclass(frozen=True, eq=False)
class ProductVector:
    """One matrix product: `left` `[..., n, k]`, `right` `[..., k, m]`, `product` `[..., n, m]`."""

    name: str
    about: str
    left: Array
    right: Array
    product: Array


@dataclass(frozen=True, eq=False)
class Vectors:
    """Everything that `vectors.json` holds."""

    functions: tuple[FunctionVectors, ...]
    sums: tuple[SumVector, ...]
    products: tuple[ProductVector, ...]


@cache
def strict_vectors() -> Vectors:
    """Return the vectors of `strict/1`."""
    entries = _read("vectors.json")
    return Vectors(
        functions=_function_vectors(entries),
        sums=tuple(
            SumVector(
                name=entry["name"],
                about=entry["about"],
                terms=_array(entry["terms"], entry["shape"]),
                axis=None if entry["axis"] is None else tuple(entry["axis"]),
                sums=_array(entry["sums"], [-1]),
            )
            for entry in entries["sums"]
        ),
        products=tuple(
            ProductVector(
                name=entry["name"],
                about=entry["about"],
                left=_array(entry["left"], entry["left_shape"]),
                right=_array(entry["right"], entry["right_shape"]),
                product=_array(entry["product"], entry["product_shape"]),
            )
            for entry in entries["products"]
        ),
    )


@cache
def c_library_vectors() -> tuple[FunctionVectors, ...]:
    """Return what glibc 2.36 on x86-64 with FMA gives, on arguments where other C libraries are known to differ."""
    return _function_vectors(_read("c_library.json"))


def _read(name: str) -> _File:
    text = files("cai_reference.arithmetic").joinpath(name).read_text(encoding="utf-8")
    entries: _File = json.loads(text)
    return entries


def _function_vectors(entries: _File) -> tuple[FunctionVectors, ...]:
    return tuple(
        FunctionVectors(
            function=function,
            arguments=_array([argument for argument, _ in entries["functions"][function]], [-1]),
            results=_array([result for _, result in entries["functions"][function]], [-1]),
        )
        for function in FUNCTIONS
    )


def _array(digits: list[str], shape: list[int]) -> Array:
    return np.array([from_hex_bits(text) for text in digits], dtype=np.float64).reshape(shape)
