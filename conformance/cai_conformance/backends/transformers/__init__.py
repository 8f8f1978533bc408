"""Hugging Face's transformers as an engine: its models, its caches, its generation loop.

Needs the extra `transformers`; importing this package without it raises `ModuleNotFoundError`.
"""

from __future__ import annotations

from cai_conformance.backends.transformers.engine import TransformersEngine

__all__ = ["TransformersEngine"]
