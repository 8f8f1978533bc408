"""An engine with the suite's model in it: opened once, loaded again only when another folder is wanted."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Final

from cai_conformance.backends.decoder.given import Tensors
from cai_conformance.engines.description import Description
from cai_conformance.engines.given_model import GivenModel, folder_of
from cai_conformance.engines.protocol import Engine, Loaded


@dataclass(frozen=True)
class _Variant:
    """A model folder: a name, values if they are not the suite's, and a format if it is not the engine's own."""

    name: str
    values: Tensors | None
    precision: str | None


_PLAIN: Final = _Variant("plain", None, None)


class Holding:
    """Whose model an engine holds, where it serves one suite after the other."""

    def __init__(self) -> None:
        self.owner: OpenedModel | None = None


class OpenedModel:
    """The given model of one suite, in an engine.

    Attributes:
        engine: what is driven.
        given: the model.
        loaded: what the engine said about the folder that it loaded last.
    """

    def __init__(self, engine: Engine, given: GivenModel, holding: Holding | None = None) -> None:
        """Load nothing yet.

        Args:
            engine: what is driven.
            given: the model.
            holding: shared by all models that one engine is asked about; of its own if None.
        """
        self.engine, self.given = engine, given
        self.loaded = Loaded()
        self._holding = Holding() if holding is None else holding
        self._wanted = _PLAIN
        self._holds: tuple[str, str | None] | None = None

    @property
    def description(self) -> Description:
        """Who the engine is."""
        return self.engine.description

    def load(self) -> Loaded:
        """Have the model loaded unless it is the one that the engine holds; all slots are empty after a load.

        Raises:
            EngineError: the engine refuses, or failed.
        """
        return self._load(self._wanted)

    def paired(self) -> Loaded:
        """Have the model loaded whose every choice is a tie.

        Raises:
            EngineError: the engine refuses, or failed.
        """
        return self._load(_Variant("paired", self.given.paired, None))

    @contextmanager
    def changed(self, name: str, values: Tensors | None = None, precision: str | None = None) -> Iterator[None]:
        """Let `load` mean a changed model for a while.

        Args:
            name: of the values, by which they are known again.
            values: by the reference's names; the suite's own if None.
            precision: one of the engine's formats; its own if None.
        """
        before, self._wanted = self._wanted, _Variant(name, values, precision)
        try:
            yield
        finally:
            self._wanted = before

    def forget(self) -> None:
        """Load anew at the next call, whatever the engine holds: its weights were trained, or another suite's."""
        self._holds = None

    def _load(self, variant: _Variant) -> Loaded:
        if self._holding.owner is not self or self._holds != (variant.name, variant.precision):
            self._holds, self._holding.owner = None, self
            with folder_of(self.given.files(variant.values)) as folder:
                self.loaded = self.engine.load(folder, variant.precision)
            self._holds = (variant.name, variant.precision)
        return self.loaded
