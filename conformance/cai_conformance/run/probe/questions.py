"""Asking about what somebody names: a prompt, where it starts and in which calls it is fed, or rows to train on."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from cai_conformance.errors import InputError
from cai_conformance.run.probe.batches import BATCH_CHECKS, BatchCheck, Batches, judge_batches
from cai_conformance.run.probe.calls import Calls, read_ids
from cai_conformance.run.probe.judged import CheckedFolder, Judged
from cai_conformance.run.probe.runner import NAME
from cai_conformance.run.probe.sequences import SEQUENCE_CHECKS, SequenceCheck, judge_all
from cai_conformance.verdicts import WALL, Verdict

Task: TypeAlias = tuple[SequenceCheck, Calls | None] | tuple[BatchCheck, Batches]
"""A check, and what it is asked: calls, every way to feed the prompt that it knows, or batches."""


@dataclass(frozen=True)
class ProbeQuestion:
    """What is asked.

    Attributes:
        prompt: ids; empty where nothing is to be fed.
        start: the position of the first.
        calls: in which calls they are fed; None for every way that a check knows.
        batches: to train on, one step each; None where nothing is trained.
    """

    prompt: tuple[int, ...] = ()
    start: int = 0
    calls: Calls | None = None
    batches: Batches | None = None

    @classmethod
    def of(
        cls, prompt: str | None, start: int = 0, calls: str | None = None, batches: Sequence[str] = ()
    ) -> ProbeQuestion | None:
        """Read a question; None where nothing is named.

        Raises:
            InputError (calls-unreadable, batch-unreadable): something cannot be read, or is named without a prompt.
        """
        trained = Batches.of(batches) if batches else None
        if prompt is None:
            if calls is not None or start:
                raise InputError(
                    "calls-unreadable", text=calls or f"from {start}", problem="there is no prompt that they feed"
                )
            return None if trained is None else cls(batches=trained)
        ids = read_ids(prompt)
        named = None if calls is None else Calls.of(ids, calls, start)
        return cls(ids, Calls.at_once(ids, start).start, named, trained)

    @property
    def tasks(self) -> tuple[Task, ...]:
        """The checks that can be asked, in their order."""
        found: list[Task] = []
        if self.prompt:
            found += [(check, self.calls) for check in SEQUENCE_CHECKS if self.calls is None or check.fits(self.calls)]
        if self.batches is not None:
            found += [(check, self.batches) for check in BATCH_CHECKS]
        return tuple(found)

    @property
    def identifiers(self) -> tuple[str, ...]:
        """Their full ids."""
        return tuple(_identifier(check) for check, _ in self.tasks)


def asked_verdicts(
    folder: CheckedFolder, question: ProbeQuestion, selected: Callable[[str], bool]
) -> Iterator[Verdict]:
    """Judge what is asked, and yield each verdict as it is found.

    Raises:
        InputError (calls-unreadable, batch-unreadable): an id is none of the model's.
        InputError (folder-unreadable): the reference has to read the folder, and cannot.
        EngineError: the engine cannot say how many ids there are.
    """
    vocabulary = folder.probe.vocabulary
    if question.prompt and max(question.prompt) >= vocabulary:
        raise InputError("calls-unreadable", text=str(max(question.prompt)), problem=f"the model has {vocabulary} ids")
    if question.batches is not None and max(question.batches.ids) >= vocabulary:
        raise InputError(
            "batch-unreadable", text=str(max(question.batches.ids)), problem=f"the model has {vocabulary} ids"
        )
    for check, asked in question.tasks:
        if not selected(_identifier(check)):
            continue
        begun = WALL()
        if isinstance(check, SequenceCheck):
            assert not isinstance(asked, Batches)
            judged = _judged(check, asked, question, folder)
        else:
            assert isinstance(asked, Batches)
            judged = judge_batches(check, asked, folder)
        seconds = WALL() - begun
        yield Verdict(
            _identifier(check), check.level, judged.outcome, judged.message, judged.differences, seconds=seconds
        )


def _judged(check: SequenceCheck, calls: Calls | None, question: ProbeQuestion, folder: CheckedFolder) -> Judged:
    every = check.asked(question.prompt, question.start, folder.probe.vocabulary) if calls is None else (calls,)
    judged, failed = judge_all(check, every, folder)
    if failed is None or len(every) == 1:
        return judged
    return Judged(judged.outcome, f"--calls {failed.text}: {judged.message}", judged.differences, judged.way)


def _identifier(check: SequenceCheck | BatchCheck) -> str:
    return f"{NAME}::{check.identifier}"
