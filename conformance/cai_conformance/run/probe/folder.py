"""A model folder of anybody's in an engine: loaded as it is, or with other values where its tensors can be read."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cached_property
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final

import numpy as np
from safetensors import SafetensorError
from safetensors.numpy import load_file, save_file

from cai_conformance.backends.engine.files import checked, file_tensors, native_tensors
from cai_conformance.backends.engine.given_model import SETTINGS
from cai_conformance.checks.probe.facts import ModelFacts, facts_of_settings, with_heads
from cai_conformance.checks.tolerance.reordering import reordered
from cai_conformance.engine import Description, Engine, Loaded
from cai_conformance.errors import InputError
from cai_conformance.fixtures.given_weights import Tensors
from cai_conformance.fixtures.weight_files import WeightsLayout

MOST_BYTES: Final = 64 << 20
"""Of weights that are read and written anew; larger files are left to the engine."""
MOST_BESIDE: Final = 16 << 20
"""Of a file that is copied beside changed weights."""
PLAIN: Final = "plain"


class ProbedFolder:
    """A model folder in an engine.

    Args:
        engine: what is driven.
        folder: what it loads.
    """

    def __init__(self, engine: Engine, folder: Path) -> None:
        self._engine, self._folder = engine, folder.absolute()
        self._loaded = Loaded()
        self._wanted: tuple[str, Tensors | None, str | None] = (PLAIN, None, None)
        self._holds: tuple[str, str | None] | None = None

    @property
    def engine(self) -> Engine:
        """What is driven."""
        return self._engine

    @property
    def description(self) -> Description:
        """Who the engine is."""
        return self._engine.description

    @cached_property
    def facts(self) -> ModelFacts:
        """What `config.json` says; nothing where there is none.

        Raises:
            InputError (folder-unreadable): there is no folder, or its settings cannot be read.
        """
        if not self._folder.is_dir():
            raise InputError("folder-unreadable", folder=str(self._folder), problem="there is no such folder")
        path = self._folder / SETTINGS
        try:
            settings: Any = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}
        except (OSError, ValueError, RecursionError) as error:
            raise InputError("folder-unreadable", folder=str(self._folder), problem=f"{SETTINGS}: {error}") from None
        facts = facts_of_settings(settings if isinstance(settings, dict) else {})
        return with_heads(facts, tuple(self.tensors))

    @cached_property
    def tensors(self) -> Tensors:
        """The values by the file's names; empty where they lie in no one file that can be read here."""
        path = self._weights
        if path is None or path.stat().st_size > MOST_BYTES:
            return {}
        try:
            return {name: np.asarray(value, dtype=np.float64) for name, value in load_file(path).items()}
        except (OSError, SafetensorError, KeyError, TypeError, ValueError, AttributeError):
            # Formats that NumPy has not, such as bfloat16, are for the engine alone.
            return {}

    def load(self) -> Loaded:
        """Have the wanted variant loaded unless it is held; all slots are empty after a load.

        Raises:
            EngineError: the engine refuses, or failed.
        """
        name, values, precision = self._wanted
        if self._holds != (name, precision):
            self._holds = None
            if values is None:
                self._loaded = self._engine.load(self._folder, precision)
            else:
                with self._rewritten(values) as folder:
                    self._loaded = self._engine.load(folder, precision)
            self._holds = (name, precision)
        return self._loaded

    def forget(self) -> None:
        """Load anew at the next call."""
        self._holds = None

    @contextmanager
    def changed(self, name: str, values: Tensors | None = None, precision: str | None = None) -> Iterator[None]:
        """Let `load` mean a changed model for a while."""
        before, self._wanted = self._wanted, (name, values, precision)
        try:
            yield
        finally:
            self._wanted = before

    def by_name(self, found: Tensors) -> Tensors:
        """Return tensors of the file's names and shapes.

        Raises:
            EngineError (answer-out-of-shape): some are missing, or of another shape.
        """
        return checked(found, self.tensors, self.description.name)

    def reordered(self, seed: int) -> Tensors | None:
        """Return the values with channels in another order; None where they have not the names of a Llama model."""
        try:
            native = native_tensors(WeightsLayout.HUGGING_FACE, self.tensors)
            return file_tensors(WeightsLayout.HUGGING_FACE, reordered(native, seed)) if native else None
        except (KeyError, StopIteration, ValueError, IndexError):
            return None

    @property
    def _weights(self) -> Path | None:
        """The one file of weights; None where there is none, or where there are several."""
        found = sorted(self._folder.glob("*.safetensors"))
        return found[0] if len(found) == 1 else None

    @contextmanager
    def _rewritten(self, values: Tensors) -> Iterator[Path]:
        """Write the folder with other values, in single precision, into one that is gone afterwards."""
        weights = self._weights
        assert weights is not None, "values were read from it"
        with TemporaryDirectory(prefix="cai-conform-") as name:
            folder = Path(name)
            for path in self._folder.iterdir():
                if path.is_file() and path != weights and path.stat().st_size <= MOST_BESIDE:
                    shutil.copyfile(path, folder / path.name)
            written = {tensor: np.ascontiguousarray(value, dtype=np.float32) for tensor, value in values.items()}
            save_file(written, folder / weights.name, metadata={"format": "pt"})
            yield folder
