"""What the tests of shrinking share: small models of two families, and engines with a seeded fault."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Final

from cai_conformance.backends.engine.given_model import GivenModel, folder_of
from cai_conformance.checks.tolerance.policy import parse_policy
from cai_conformance.engine import Engine, Evaluated, Loaded, Piece, Refused
from cai_conformance.fixtures.goldens.store import GoldenStore, locate
from cai_conformance.fixtures.weight_files import WeightsLayout
from cai_conformance.run.probe.calls import Calls
from cai_conformance.run.probe.judged import CheckedFolder
from cai_conformance.run.probe.runner import probe_of_folder
from cai_conformance.run.probe.sequences import SEQUENCE_CHECKS, SequenceCheck
from cai_conformance.run.questions import Options, question_for
from cai_conformance.run.shrink.failures import Found, Smallest, smallest
from cai_conformance.run.shrink.models import SmallModel
from cai_conformance.run.shrink.search import Case
from cai_conformance.run.shrink.trial import driver_of, trials_on, wrong_backend
from cai_conformance.suites import find_suite
from cai_reference.layers.rope import RopeLayout
from cai_reference.models.decoder import AttentionSpec, DecoderConfiguration, LatentSpec, SsmSpec
from cai_reference.models.llama import LlamaConfiguration
from support_engines import Wrapped

SUITE: Final = "llama.gqa-window"

LLAMA: Final = SmallModel(
    LlamaConfiguration(
        7, 48, 16, 4, 5, 2, key_value_heads=2, head_width=4, window=3, tied=True, rope_base=1000000.0, epsilon=3e-4
    ),
    WeightsLayout.HUGGING_FACE,
    seed=1,
)
"""Everything in which a Llama model can be special, in the layout of engines."""

ADJACENT: Final = SmallModel(
    LlamaConfiguration(
        6, 48, 8, 2, 3, 1, key_value_heads=2, head_width=4, rope_layout=RopeLayout.ADJACENT, rope_base=10000.0
    ),
    WeightsLayout.NATIVE,
    seed=1,
)
"""Adjacent pairs, which the file of engines cannot state."""

DECODER: Final = SmallModel(
    DecoderConfiguration(
        9, 48, 8, 2, 4, (SsmSpec(), LatentSpec(3, 2), AttentionSpec(2)), channels_per_group=4, futures=2
    ),
    WeightsLayout.NATIVE,
    seed=1,
)
"""All mixers, groups, and two heads of output."""

PROMPT: Final = (0, 3, 5, 1, 2, 6)


def sequence_check(identifier: str) -> SequenceCheck:
    """Return a check of sequences."""
    return next(check for check in SEQUENCE_CHECKS if check.identifier == identifier)


@cache
def given_model(suite: str = SUITE) -> GivenModel:
    """Return the model that a suite gives."""
    request = question_for(find_suite(suite), GoldenStore(locate()), Options("strict", profile="edges")).request
    given = GivenModel.of(request)
    assert given is not None
    return given


@contextmanager
def loaded(model: SmallModel, engine: Engine) -> Iterator[CheckedFolder]:
    """Put a model into an engine for a while."""
    with folder_of(model.files(given_model())) as path:
        yield CheckedFolder(probe_of_folder(engine, path, parse_policy("auto")), path)


def shrunk(slug: str, identifier: str, model: SmallModel, calls: Calls, most: int = 600) -> Smallest:
    """Shrink a sequence on which the reference with a seeded fault fails."""
    check = sequence_check(identifier)
    with trials_on(driver_of(wrong_backend(slug)), given_model(), parse_policy("auto")) as trials:
        judged = trials.judged(check, case := Case(model, calls))
        assert judged.fails, judged.message
        return smallest(Found(check, case, judged), SUITE, trials, most)


def write_model(model: SmallModel, folder: Path) -> Path:
    """Write the folder of a model."""
    folder.mkdir()
    for name, data in model.files(given_model()).items():
        (folder / name).write_bytes(data)
    return folder


class OwnModelOnly(Wrapped):
    """An engine that loads the suite's model and no other, and whose logits are wrong by a tenth."""

    def load(self, folder: Path, precision: str | None = None) -> Loaded:
        """Load the suite's model."""
        if (folder / "model.safetensors").read_bytes() != given_model().weights:
            raise Refused("stubborn", "the folder", "it is not the suite's")
        return super().load(folder)

    def evaluate(self, pieces: Sequence[Piece], *, observe: bool = False) -> tuple[Evaluated, ...]:
        """Evaluate wrongly."""
        found = super().evaluate(pieces, observe=observe)
        return tuple(replace(each, logits=each.logits + 0.1) for each in found)
