"""What is told about a smallest case: its sizes beside those of the first one, and the command that replays it.

Writing a smallest case as a folder: the model that engines load, and beside it what was asked.
"""

from __future__ import annotations

import json
import shlex
from collections.abc import Sequence
from itertools import groupby
from pathlib import Path
from typing import Final

from cai_conformance.backends.engine.given_model import GivenModel
from cai_conformance.checks.finding import counted
from cai_conformance.errors import InputError
from cai_conformance.run.probe.batches import Batches
from cai_conformance.run.probe.calls import Calls
from cai_conformance.run.probe.sequences import SequenceCheck
from cai_conformance.run.shrink.failures import Smallest
from cai_conformance.run.shrink.models import SmallModel
from cai_conformance.run.shrink.search import Case
from cai_reference.models.decoder import AttentionSpec, DecoderConfiguration, LatentSpec, MixerSpec

MANY_IDS: Final = 12
"""Longer prompts, and more rows, are counted and not spelt."""


def facts_of(case: Case) -> dict[str, str]:
    """Return the sizes of a case by their names, as words."""
    return {**_of_model(case.model), **_of_question(case)}


def remaining(case: Case) -> str:
    """Return what is left in one line: `1 layer, 1 head of 4 channels, vocabulary 4, prompt 0 0 1`."""
    model, sizes = case.model, case.model.configuration
    parts = [
        counted(model.layers, "layer"),
        f"{counted(sizes.heads, 'head')} of {model.head_width} channels",
        f"vocabulary {sizes.vocabulary}",
    ]
    if model.window is not None:
        parts.append(f"window {model.window}")
    if isinstance(case.asked, Calls):
        parts.append(f"prompt {' '.join(map(str, case.asked.prompt))}")
        parts += [f"from position {case.asked.start}"] if case.asked.start else []
    elif isinstance(case.asked, Batches):
        parts.append(counted(len(case.asked.steps), "step"))
    return ", ".join(parts)


def replay_arguments(found: Smallest, backend: str, folder: str, more: Sequence[str] = ()) -> list[str]:
    """Return the arguments of the command that asks about the case again.

    Args:
        found: the case.
        backend: its specification.
        folder: where its model was written.
        more: further options.
    """
    check, asked = found.check, found.last.asked
    # The calls say which case of a check is meant, and brackets would have to be quoted.
    name = check.identifier if asked is None else check.identifier.partition("[")[0]
    arguments = ["probe", "--backend", backend, "--model", folder, "-k", name]
    if isinstance(asked, Calls):
        arguments += ["--prompt", ",".join(map(str, asked.prompt))]
        arguments += ["--start", str(asked.start)] if asked.start else []
        vocabulary = found.last.model.configuration.vocabulary
        usual = isinstance(check, SequenceCheck) and (asked,) == check.asked(asked.prompt, asked.start, vocabulary)
        arguments += [] if usual else ["--calls", asked.text]
    elif isinstance(asked, Batches):
        for text in asked.texts:
            arguments += ["--batch", text]
    return [*arguments, *more]


def replay_command(found: Smallest, backend: str, folder: str, more: Sequence[str] = ()) -> str:
    """Return the command line of `replay_arguments`, quoted for a shell."""
    return shlex.join(["cai-conform", *replay_arguments(found, backend, folder, more)])


def _of_model(model: SmallModel) -> dict[str, str]:
    sizes = model.configuration
    facts = {
        "layers": str(model.layers),
        "heads": f"{sizes.heads} of {model.head_width} channels",
        "width": str(sizes.width),
        "feed-forward": str(sizes.feed_forward),
        "vocabulary": str(sizes.vocabulary),
    }
    if isinstance(sizes, DecoderConfiguration):
        facts["mixers"] = ", ".join(map(_mixer, sizes.mixers))
        facts["wiring"] = sizes.wiring.value
        facts["groups"] = "none" if sizes.channels_per_group is None else f"{sizes.channels_per_group} channels or more"
        facts["futures"] = str(sizes.futures)
    else:
        facts["key heads"] = str(sizes.groups)
        facts["window"] = "none" if sizes.window is None else str(sizes.window)
    facts["weights"] = "the suite's" if model.seed is None else f"drawn, seed {model.seed}"
    return facts


def _of_question(case: Case) -> dict[str, str]:
    asked = case.asked
    if isinstance(asked, Calls):
        return {"prompt": _ids(asked.prompt), "calls": _calls(asked), "start": str(asked.start)}
    if isinstance(asked, Batches):
        rows = sum(map(len, asked.steps))
        return {
            "steps": str(len(asked.steps)),
            "rows": f"{rows} of {len(asked.ids)} ids" if len(asked.ids) > MANY_IDS else " ".join(asked.texts),
        }
    return {}


def _ids(ids: tuple[int, ...]) -> str:
    return f"{len(ids)} ids" if len(ids) > MANY_IDS else " ".join(map(str, ids))


def _calls(calls: Calls) -> str:
    """Return the calls, many equal ones as `24 of 1`."""
    words = ((word, len(list(run))) for word, run in groupby(calls.text.split(",")))
    return ", ".join(f"{count} of {word}" if count > 2 else ", ".join([word] * count) for word, count in words)


def _mixer(mixer: MixerSpec) -> str:
    if isinstance(mixer, AttentionSpec):
        return "attention" if mixer.window is None else f"attention with window {mixer.window}"
    if isinstance(mixer, LatentSpec):
        return f"latent attention {mixer.latent} + {mixer.rope}"
    return "diagonal ssm"


CASE: Final = "case.json"
"""The name of the file that says what was asked."""
WRITTEN: Final = (CASE, "config.json", "generation_config.json", "model.safetensors", "weights.safetensors")
"""All names of files that are ever written."""


def check_free(folder: Path) -> None:
    """Refuse a folder that holds something else than a case.

    Raises:
        InputError (folder-taken): it does, or is no folder.
    """
    if not folder.exists() or (folder.is_dir() and (not any(folder.iterdir()) or (folder / CASE).is_file())):
        return
    raise InputError("folder-taken", folder=str(folder))


def write_case(found: Smallest, given: GivenModel, folder: Path, backend: str, command: str) -> None:
    """Write a case, in the place of one that was there before.

    Args:
        found: the case.
        given: the model of the suite.
        folder: which is made if need be.
        backend: its specification.
        command: which replays the case.

    Raises:
        InputError (folder-taken): the folder holds something else.
        OSError: it cannot be written.
    """
    check_free(folder)
    folder.mkdir(parents=True, exist_ok=True)
    for name in WRITTEN:
        (folder / name).unlink(missing_ok=True)
    for name, data in found.last.model.files(given).items():
        (folder / name).write_bytes(data)
    document = {
        "suite": found.suite,
        "check": found.check.identifier,
        "backend": backend,
        "command": command,
        **_question(found),
        "sizes": facts_of(found.last),
        "message": found.last_judged.message,
    }
    (folder / CASE).write_text(json.dumps(document, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")


def _question(found: Smallest) -> dict[str, object]:
    asked = found.last.asked
    if isinstance(asked, Calls):
        return {"prompt": asked.prompt, "start": asked.start, "calls": asked.text}
    return {"batches": asked.steps} if isinstance(asked, Batches) else {}
