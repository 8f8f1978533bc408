"""A case: a model, and what is asked about it. A check with questions of its own is asked about the model alone."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TypeAlias

from cai_conformance.probing.batches import BatchCheck, Batches
from cai_conformance.probing.calls import Calls
from cai_conformance.probing.sequences import SequenceCheck
from cai_conformance.shrinking.small_models import SmallModel
from cai_conformance.suites.decoder.engine_checks import SelfCheck

Asked: TypeAlias = Calls | Batches | None


@dataclass(frozen=True)
class ModelCheck:
    """A check of self-consistency with questions of its own, or one case of it."""

    check: SelfCheck
    case: str = ""

    @property
    def identifier(self) -> str:
        """Name and case, such as `kv.window[full]`."""
        return f"{self.check.name}[{self.case}]" if self.case else self.check.name


AnyCheck: TypeAlias = SequenceCheck | BatchCheck | ModelCheck


@dataclass(frozen=True)
class Case:
    """A model, and what is asked about it.

    Attributes:
        model: which, with its weights.
        asked: a sequence in calls, or batches to train on; None where the check asks by itself.
    """

    model: SmallModel
    asked: Asked

    @property
    def ids(self) -> tuple[int, ...]:
        """Every id that is fed, in order."""
        if isinstance(self.asked, Calls):
            return self.asked.prompt
        return self.asked.ids if isinstance(self.asked, Batches) else ()

    def with_ids(self, ids: Sequence[int]) -> Case:
        """Return the same question with other ids, as many."""
        if isinstance(self.asked, Calls):
            return replace(self, asked=self.asked.with_ids(ids))
        if isinstance(self.asked, Batches):
            return replace(self, asked=self.asked.with_ids(ids))
        return self
