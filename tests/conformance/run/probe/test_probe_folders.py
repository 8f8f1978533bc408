"""A model folder of anybody's: what is read of it, what is measured, and the command."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from cai_conformance.backends.reference.engine import ReferenceEngine
from cai_conformance.checks.finding import Finding
from cai_conformance.checks.probe.facts import ModelFacts, facts_of, facts_of_settings
from cai_conformance.checks.tolerance.policy import AUTO
from cai_conformance.engine import EngineBroken, Refused
from cai_conformance.errors import InputError
from cai_conformance.run.probe.folder import ProbedFolder
from cai_conformance.run.probe.runner import probe_ids, probe_of_folder, probed_verdicts
from cai_conformance.suites.probe import SELF_CHECKS
from cai_conformance.verdicts import Outcome
from cai_reference.arithmetic.instances import FAST
from support_cli import invoke
from support_engines import HEADS, NATIVE, SUITE, Wrapped
from support_foreign_engines import given, write_folder
from support_refusals import refuses


class TestFacts:
    """What is known of a model before it is asked."""

    @pytest.mark.parametrize(
        ("settings", "expected"),
        [
            ({}, ModelFacts()),
            ({"num_hidden_layers": "two"}, ModelFacts()),
            ({"num_hidden_layers": 2, "rope_theta": 1e4}, ModelFacts((None, None), rotary=True)),
            (
                {"num_hidden_layers": 2, "rope_theta": 1e4, "sliding_window": 7, "max_position_embeddings": 64},
                ModelFacts((7, 7), rotary=True, positions=64),
            ),
            ({"num_hidden_layers": 1, "sliding_window": 7, "use_sliding_window": False}, ModelFacts((None,))),
            (
                {
                    "num_hidden_layers": 2,
                    "sliding_window": 7,
                    "layer_types": ["sliding_attention", "full_attention"],
                    "rope_parameters": {},
                },
                ModelFacts((7, None), rotary=True),
            ),
            ({"model": "llama", "layers": 2, "window": 7}, ModelFacts((7, 7), rotary=True)),
            ({"mixers": "nothing that is known"}, ModelFacts()),
        ],
    )
    def test_settings_are_read(self, settings: dict[str, Any], expected: ModelFacts) -> None:
        """In the words of Hugging Face's files, and in this project's own; what is not understood is not known."""
        assert expected == facts_of_settings(settings)

    def test_windows_add_up_to_a_reach(self) -> None:
        """A layer that sees everything has no end."""
        assert (7, 12) == (ModelFacts((7, 7)).window, ModelFacts((7, 7)).reach)
        assert (7, None) == (ModelFacts((7, None)).window, ModelFacts((7, None)).reach)
        assert (None, None) == (ModelFacts().window, ModelFacts().reach)

    @pytest.mark.parametrize("suite", [SUITE, NATIVE, HEADS])
    def test_a_folder_says_what_the_suite_says(self, suite: str, tmp_path: Path) -> None:
        """Of windows, kinds of layers, heads and biases."""
        folder, known = write_folder(tmp_path / "model", suite), facts_of(given(suite))
        found = ProbedFolder(Wrapped(), folder).facts
        assert (known.windows, known.rotary, known.recurrent) == (found.windows, found.rotary, found.recurrent)
        assert set(known.later_heads) == set(found.later_heads)
        assert set(known.output_biases) == set(found.output_biases)

    @pytest.mark.parametrize("text", ["{", "[1]", '{"a": 1}'])
    def test_settings_that_cannot_be_read_are_refused(self, text: str, tmp_path: Path) -> None:
        """What is no object is no settings; a folder without them is one of which nothing is known."""
        assert ModelFacts() == ProbedFolder(Wrapped(), tmp_path).facts
        (tmp_path / "config.json").write_text(text, encoding="utf-8")
        if text == "{":
            with refuses(InputError, "folder-unreadable"):
                _ = ProbedFolder(Wrapped(), tmp_path).facts
        else:
            assert ModelFacts() == ProbedFolder(Wrapped(), tmp_path).facts
        with refuses(InputError, "folder-unreadable", match="there is no such folder"):
            _ = ProbedFolder(Wrapped(), tmp_path / "nowhere").facts


class TestFolders:
    """Loading, and loading anew with other values."""

    def test_a_folder_is_loaded_once(self, tmp_path: Path) -> None:
        """Again only when something else is wanted."""
        engine = Wrapped()
        model = ProbedFolder(engine, write_folder(tmp_path / "model", SUITE))
        model.load()
        model.load()
        assert 1 == engine.loads
        values = {name: np.zeros(value.shape) for name, value in model.tensors.items()}
        with model.changed("zeros", values):
            model.load()
            held = engine.inner._folder
            assert held is not None
            assert not held.model.parameters[0].value.any()
        model.load()
        assert 3 == engine.loads
        held = engine.inner._folder
        assert held is not None
        assert held.model.parameters[0].value.any()

    def test_values_that_lie_in_several_files_are_left_to_the_engine(self, tmp_path: Path) -> None:
        """So are those in a file that cannot be read here."""
        folder = write_folder(tmp_path / "model", SUITE)
        assert ProbedFolder(Wrapped(), folder).tensors
        (folder / "more.safetensors").write_bytes(b"")
        assert {} == ProbedFolder(Wrapped(), folder).tensors
        (folder / "model.safetensors").unlink()
        assert {} == ProbedFolder(Wrapped(), folder).tensors

    def test_channels_change_places_where_names_are_known(self, tmp_path: Path) -> None:
        """Else nothing is reordered."""
        model = ProbedFolder(Wrapped(), write_folder(tmp_path / "one", SUITE))
        moved = model.reordered(1)
        assert moved is not None
        assert {name: value.shape for name, value in model.tensors.items()} == {n: v.shape for n, v in moved.items()}
        assert ProbedFolder(Wrapped(), write_folder(tmp_path / "two", HEADS)).reordered(1) is None


class TestVerdicts:
    """The same judges, without a suite."""

    @pytest.mark.exhaustive
    def test_a_folder_is_judged(self, tmp_path: Path) -> None:
        """By every check, each with its cases; what is measured bounds what may differ."""
        probe = probe_of_folder(ReferenceEngine(FAST), write_folder(tmp_path / "model", SUITE), AUTO)
        verdicts = list(probed_verdicts(probe, lambda _: True))
        assert list(probe_ids()) == [each.check for each in verdicts]
        assert {Outcome.PASS, Outcome.SKIPPED} == {each.outcome for each in verdicts}
        floor = probe.rounding.used()
        assert floor is not None
        assert 1.0 <= floor.near.ulps < 64.0

    def test_a_check_behind_a_failure_is_blocked(self, tmp_path: Path) -> None:
        """And one whose engine refuses is skipped; one that is not selected is not judged."""
        probe = probe_of_folder(Wrapped(), write_folder(tmp_path / "model", SUITE), AUTO)
        steps = next(check for check in SELF_CHECKS if check.name == "kv.steps")
        twin = next(check for check in SELF_CHECKS if check.name == "spec.twin")
        failing = replace(steps, judge=lambda _: (Finding.failed("wrong"),))
        found = list(probed_verdicts(probe, lambda name: "twin" in name, (failing, twin)))
        assert [("probe::spec.twin", Outcome.BLOCKED)] == [(each.check, each.outcome) for each in found]

        def raising(error: Exception) -> Any:
            def judge(_: object) -> tuple[Finding, ...]:
                raise error

            return judge

        for error, outcome in (
            (Refused("engine", "it", "no"), Outcome.SKIPPED),
            (EngineBroken("engine", "crashed"), Outcome.ERRORED),
        ):
            (verdict,) = probed_verdicts(probe, lambda _: True, (replace(steps, judge=raising(error)),))
            assert outcome is verdict.outcome


class TestCommand:
    """`cai-conform probe`."""

    def test_a_folder_is_probed_from_the_command_line(self, tmp_path: Path) -> None:
        """Ids begin with `probe::`; the report is that of `run`."""
        folder = write_folder(tmp_path / "model", SUITE)
        result = invoke("probe", "--model", str(folder), "-a", "fast", "-k", "kv.steps or kv.window", "-f", "json")
        lines = [json.loads(line) for line in result.out.splitlines()]
        verdicts = [(line["check"], line["outcome"]) for line in lines if line["type"] == "verdict"]
        assert [
            ("probe::kv.steps", "pass"),
            ("probe::kv.window[full]", "pass"),
            ("probe::kv.window[cached]", "pass"),
        ] == (verdicts)
        assert 0 == result.code

    @pytest.mark.exhaustive
    def test_without_a_folder_a_suite_s_weights_are_probed(self) -> None:
        """Those of the model that most engines have."""
        result = invoke("probe", "-a", "fast", "-k", "kv.reuse", "-f", "json")
        assert 0 == result.code
        assert 2 == result.out.count('"outcome": "pass"')

    @pytest.mark.parametrize(
        ("arguments", "text"),
        [
            (["--model", "no-such-folder"], "there is no such folder"),
            (["-k", "nothing-like-this"], "nothing-like-this"),
            (["-b", "exec:true", "--model", "."], "cannot be driven call by call"),
        ],
    )
    def test_what_cannot_be_probed_is_refused(self, arguments: list[str], text: str) -> None:
        """With exit code 2."""
        result = invoke("probe", *arguments)
        assert 2 == result.code
        assert text in result.err + result.out
