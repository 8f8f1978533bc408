"""The given model of a suite under probe."""

from __future__ import annotations

from contextlib import AbstractContextManager
from dataclasses import dataclass

from cai_conformance.backends.decoder.given import Tensors
from cai_conformance.engines.description import Description
from cai_conformance.engines.opened import OpenedModel
from cai_conformance.engines.protocol import Engine, Loaded
from cai_conformance.engines.tensor_names import answered_tensors


@dataclass(frozen=True)
class SuiteModel:
    """What a suite opened, with its tensors by the reference's names."""

    opened: OpenedModel

    @property
    def engine(self) -> Engine:
        """What is driven."""
        return self.opened.engine

    @property
    def description(self) -> Description:
        """Who the engine is."""
        return self.opened.description

    @property
    def tensors(self) -> Tensors:
        """The given values."""
        return self.opened.given.tensors

    def load(self) -> Loaded:
        """Have the model loaded.

        Raises:
            EngineError: the engine refuses, or failed.
        """
        return self.opened.load()

    def forget(self) -> None:
        """Load anew at the next call."""
        self.opened.forget()

    def changed(
        self, name: str, values: Tensors | None = None, precision: str | None = None
    ) -> AbstractContextManager[None]:
        """Let `load` mean a changed model for a while."""
        return self.opened.changed(name, values, precision)

    def by_name(self, found: Tensors) -> Tensors:
        """Return tensors by the reference's names.

        Raises:
            AnswerOutOfShape: some are missing, unknown or of another shape.
        """
        layout = self.opened.given.phase.weights_layout
        return answered_tensors(layout, found, self.tensors, self.description.name)
