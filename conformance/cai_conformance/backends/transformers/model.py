"""The transformers library: how it is imported, and the formats it computes in.

A model of transformers, and how it continues a sequence.

A sequence is a start position and a cache. A step works on a copy of the cache, so that what raises changes nothing.
"""

from __future__ import annotations

import copy
import inspect
import json
import os
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import torch

from cai_conformance.backends.torch.computing import computing
from cai_conformance.backends.torch.generation import check_prompt, greedy, likeliest
from cai_conformance.engine import Generated, GenerationOrder, Precision

PRECISIONS: Final = {
    "float64": Precision("float64", "float32", "float64", "float32", "float64"),
    "float32": Precision.uniform("float32"),
    "bfloat16": Precision("bfloat16", "bfloat16", "bfloat16", "float32", "bfloat16"),
}
"""The formats that a model is loaded in, finest first."""


with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    # Read while its client of the hub is imported; a user who wants the network can say so before.
    os.environ.setdefault("HF_HUB_OFFLINE", "1")
    import transformers
    import transformers.utils


# Much of the library is not typed, and what is differs from version to version.
AutoModelForCausalLM: Any = transformers.AutoModelForCausalLM
DynamicCache: Any = transformers.DynamicCache
GenerationConfig: Any = transformers.GenerationConfig
_messages: Any = transformers.utils.logging


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


FAMILIES: Final = ("llama", "mistral")
"""The models of the suites. Of a folder that names no family, transformers would guess by the folder's name."""


@dataclass(frozen=True)
class HeldSequence:
    """A sequence: where it starts, how many tokens were fed, and transformers' own cache of them."""

    start: int
    length: int
    cache: Any

    @property
    def end(self) -> int:
        """The position of the next token."""
        return self.start + self.length


class CausalModel:
    """A loaded model."""

    def __init__(self, model: Any) -> None:
        self._model = model
        # What the folder says about generation would fill in whatever an order leaves open, such as no stop id.
        model.generation_config = GenerationConfig()
        parameters = inspect.signature(model.forward).parameters
        self._cache_argument = "cache" if "cache" in parameters else "past_key_values"

    @classmethod
    def load(cls, folder: Path, dtype: torch.dtype, device: str, attention: str) -> CausalModel:
        """Load a model folder.

        Raises:
            OSError: a file cannot be read.
            ValueError: it is no model of the suites, or a tensor found no place.
        """
        settings = json.loads((folder / "config.json").read_bytes())
        family = settings.get("model_type") if isinstance(settings, dict) else None
        if family not in FAMILIES:
            raise ValueError(f"model_type is {family!r}, not one of {', '.join(FAMILIES)}")
        model, info = AutoModelForCausalLM.from_pretrained(
            folder, dtype=dtype, attn_implementation=attention, local_files_only=True, output_loading_info=True
        )
        wrong = {kind: sorted(map(str, names)) for kind, names in info.items() if names}
        if wrong:
            raise ValueError(f"not every tensor found its place: {wrong}")
        return cls(model.to(device).eval())

    @property
    def vocabulary(self) -> int:
        """How many ids there are."""
        return int(self._model.config.vocab_size)

    @property
    def context(self) -> int:
        """The longest sequence."""
        return int(self._model.config.max_position_embeddings)

    @property
    def weight_bytes(self) -> int:
        """How many bytes the parameters take."""
        return sum(each.numel() * each.element_size() for each in self._model.parameters())

    def after(
        self, held: HeldSequence | None, position: int, tokens: Sequence[int]
    ) -> tuple[torch.Tensor, HeldSequence]:
        """Continue a sequence, or begin one at a position.

        Returns:
            The logits [tokens, vocabulary], and the sequence then.
        """
        start, length = (position, 0) if held is None else (held.start, held.length)
        cache = DynamicCache(config=self._model.config) if held is None else copy.deepcopy(held.cache)
        device = self._model.device
        positions = torch.arange(position, position + len(tokens), device=device)[None]
        ids = torch.tensor([list(tokens)], device=device)
        cached = {self._cache_argument: cache}
        logits: torch.Tensor = self._model(ids, position_ids=positions, use_cache=True, **cached).logits[0]
        return logits, HeldSequence(start, length + len(tokens), cache)

    def cut(self, held: HeldSequence, length: int) -> HeldSequence:
        """Return a sequence without its newest tokens.

        Raises:
            ValueError: a layer with a window has let go of rows that would be needed.
        """
        dropped = held.length - length
        if dropped == 0:
            return held
        window = self._model.config.sliding_window if self._model.config.model_type == "mistral" else None
        if window is not None and held.length >= window:
            raise ValueError(f"caches with a window of {window} cannot be cut from {held.length} tokens")
        cache = copy.deepcopy(held.cache)
        # Negative, it is a number of tokens in every version; positive ones have meant two things.
        cache.crop(-dropped)
        return HeldSequence(held.start, length, cache)

    def copy(self, held: HeldSequence) -> HeldSequence:
        """Return a sequence that shares nothing with another one."""
        return copy.deepcopy(held)

    def generate(self, order: GenerationOrder) -> Generated:
        """Generate by transformers' own loop, with its cache.

        Raises:
            ValueError: the prompt does not fit, or more likeliest ids are wanted than there are.
        """
        check_prompt(order.prompt, self.context)
        budget = min(order.new_tokens, self.context - len(order.prompt))
        if budget < 1:
            return Generated(())
        settings = GenerationConfig(
            max_new_tokens=budget,
            do_sample=False,
            use_cache=True,
            bos_token_id=None,
            # One sequence is never padded; without an id for it transformers looks for one.
            pad_token_id=0,
            eos_token_id=order.stop,
            output_logits=bool(order.top),
            return_dict_in_generate=True,
        )
        ids = torch.tensor([list(order.prompt)], device=self._model.device)
        found = self._model.generate(ids, attention_mask=torch.ones_like(ids), generation_config=settings)
        new = tuple(found.sequences[0, len(order.prompt) :].tolist())
        top = tuple(likeliest(row[0], order.top) for row in found.logits) if order.top else ()
        return Generated(new, top)

    def generate_in_full(self, order: GenerationOrder) -> Generated:
        """Generate by a loop of our own that encodes the whole sequence for each token.

        Raises:
            ValueError: as `generate`.
        """

        def logits_after(sequence: Sequence[int]) -> torch.Tensor:
            ids = torch.tensor([list(sequence)], device=self._model.device)
            logits: torch.Tensor = self._model(ids, use_cache=False).logits[0, -1]
            return logits

        return greedy(order, self.context, logits_after)
