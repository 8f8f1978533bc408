"""The library transformers: imported without its warnings, silent, and never on the network."""

from __future__ import annotations

import os
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    # Read while its client of the hub is imported; a user who wants the network can say so before.
    os.environ.setdefault("HF_HUB_OFFLINE", "1")
    import transformers
    import transformers.utils

from cai_conformance.torch_engine.computing import computing

# Much of the library is not typed, and what is differs from version to version.
AutoModelForCausalLM: Any = transformers.AutoModelForCausalLM
DynamicCache: Any = transformers.DynamicCache
GenerationConfig: Any = transformers.GenerationConfig
_messages: Any = transformers.utils.logging

__all__ = ["AutoModelForCausalLM", "DynamicCache", "GenerationConfig", "quiet", "version"]


def version() -> str:
    """Return the version of transformers."""
    return str(transformers.__version__)


@contextmanager
def quiet() -> Iterator[None]:
    """Run transformers on one thread, without gradients, warnings, messages or progress bars."""
    level, bars = _messages.get_verbosity(), _messages.is_progress_bar_enabled()
    _messages.set_verbosity_error()
    _messages.disable_progress_bar()
    try:
        with warnings.catch_warnings(), computing():
            warnings.simplefilter("ignore")
            yield
    finally:
        _messages.set_verbosity(level)
        if bars:
            _messages.enable_progress_bar()
