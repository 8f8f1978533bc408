"""Which stories train and which validate: by position alone, and never the same text on both sides."""

from __future__ import annotations

from collections.abc import Sequence

from cai_conformance.stories.errors import EmptyTraining, EmptyValidation, InvalidValidationStep


def split_stories(stories: Sequence[str], validation_every: int) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return the training and the validation stories, each in the order given.

    Stories `validation_every`, 2 `validation_every`, … (counted from 1) validate. The others train, except those whose
    text is also the text of a validation story: they are left out, wherever they stand.

        split_stories(["a", "b", "c", "b", "d", "e"], 2)  →  (("a", "c", "d"), ("b", "b", "e"))

    Raises:
        InvalidValidationStep: `validation_every` is below 2.
        EmptyValidation: there are fewer stories than `validation_every`.
        EmptyTraining: nothing is left to train on.
    """
    if validation_every < 2:
        raise InvalidValidationStep(validation_every)
    validation = tuple(stories[validation_every - 1 :: validation_every])
    if not validation:
        raise EmptyValidation(len(stories), validation_every)
    held_out = frozenset(validation)
    training = tuple(story for story in stories if story not in held_out)
    if not training:
        raise EmptyTraining(len(stories), validation_every)
    return training, validation
