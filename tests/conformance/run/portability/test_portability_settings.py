"""The settings, and what the goldens do under them."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from cai_conformance.backends.protocol import TraceRequest
from cai_conformance.fixtures.goldens.store import GoldenStore, locate
from cai_conformance.run.portability import matrix as making
from cai_conformance.run.portability.classes import RecordClass
from cai_conformance.run.portability.processes import NOT_HERE, Interpreter, PortabilityRun
from cai_conformance.run.portability.settings import settings_table
from cai_conformance.run.portability.table import of_file, write
from support_cli import invoke
from support_portability import FACTS, IDLE, OTHER, RUN, table_of
from support_traces import golden_bytes, with_field

MISSING = PortabilityRun("2.9.0", "kernel Yew", NOT_HERE, None)


def test_the_table_has_what_the_suites_promise() -> None:
    """Five kernels, one and two threads each, two SIMD levels, and a C library that hides FMA."""
    table = settings_table()
    assert 13 == len(table)
    assert len(table) == len({setting.name for setting in table})
    kernels = {setting.variables.get("OPENBLAS_CORETYPE") for setting in table} - {None}
    assert {"Prescott", "Nehalem", "Sandybridge", "Haswell", "SkylakeX"} == kernels


@pytest.fixture
def recorded(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Recordings that give the golden, but for kernel Elm in the arithmetics that are added to the list."""
    moving: list[str] = []

    def answer(path: str, run: PortabilityRun, requests: Sequence[TraceRequest]) -> tuple[bytes, ...]:
        assert run.counts
        moved = with_field("BITS|step=3", "batch_loss", "4016555824f35418")
        return tuple(
            (moved if run == OTHER and request.arithmetic in moving else golden_bytes()) for request in requests
        )

    found = Interpreter(sys.executable, (RUN, OTHER, IDLE, MISSING))
    monkeypatch.setattr(making, "examine", lambda path: found)
    monkeypatch.setattr(making, "examine_all", lambda paths: [found])
    monkeypatch.setattr(making, "record", answer)
    return moving


class TestGoldenSettings:
    """`cai-conform golden settings`: the goldens on this machine."""

    @pytest.mark.parametrize(("moving", "word"), [((), "same bytes"), (("strict/1",), "OTHER BYTES")])
    def test_each_setting_is_told(self, recorded: list[str], moving: tuple[str, ...], word: str) -> None:
        """One line a suite and setting, also of those that prove nothing; exit code 1 where the bytes changed."""
        recorded.extend(moving)
        done = invoke("golden", "settings", "ngram")
        assert bool(moving) == done.code
        assert [
            "course.ngram: no setting: same bytes",
            f"course.ngram: kernel Elm: {word}",
            "course.ngram: kernel Ash: same as no setting",
            "course.ngram: kernel Yew: does not run here",
        ] == done.out.splitlines()


class TestGoldenPortability:
    """`cai-conform golden portability`: the table."""

    def test_a_table_is_written(self, recorded: list[str], tmp_path: Path) -> None:
        """The classes of every arithmetic: a batch loss is 4016555824f35418 instead of 4016555824f35415.

        Kernel Elm is not recorded in `libm/1`.
        """
        recorded.extend(["libm/1", "fast"])
        path = tmp_path / "portability.json"
        done = invoke("golden", "portability", "ngram", "--output", path)
        table = of_file(path)
        assert (0, "", True) == (done.code, done.out, table is not None)
        assert table is not None
        assert (RUN, OTHER, IDLE, MISSING) == table.runs
        parts = table.suites["course.ngram"].arithmetics
        assert {} == parts["strict/1"].moved
        expected = {"BITS step=3": RecordClass(ulp=3, setting=OTHER.name)}
        assert ({}, expected) == (parts["libm/1"].moved, parts["fast"].moved)

    def test_strict_that_moves_is_exit_code_1(self, recorded: list[str], tmp_path: Path) -> None:
        """And the table tells it all the same."""
        recorded.append("strict/1")
        done = invoke("golden", "portability", "ngram", "--output", tmp_path / "portability.json")
        assert 1 == done.code
        assert "course.ngram: strict/1: 29 invariant, 1 " in done.err

    def test_part_of_the_suites_joins_what_is_there(self, recorded: list[str], tmp_path: Path) -> None:
        """The others stay; a table of other circumstances is refused and stays, too."""
        path, store = tmp_path / "portability.json", GoldenStore(locate())
        there = table_of(store, "cai.hybrid")
        path.write_bytes(write(replace(there, runs=(RUN, OTHER, IDLE, MISSING))))
        assert 0 == invoke("golden", "portability", "ngram", "--output", path).code
        table = of_file(path)
        assert table is not None
        assert ["cai.hybrid", "course.ngram"] == sorted(table.suites)
        before = write(replace(there, runs=(replace(RUN, facts=replace(FACTS, kernel="Yew")),)))
        path.write_bytes(before)
        done = invoke("golden", "portability", "ngram", "--output", path)
        assert (2, before) == (done.code, path.read_bytes())
        assert done.sentences[-1].endswith("which was recorded under other settings or libraries.")

    def test_a_damaged_table_is_refused_before_recording(self, tmp_path: Path) -> None:
        """Without a recording: none is prepared here."""
        path = tmp_path / "portability.json"
        path.write_bytes(b"{}")
        done = invoke("golden", "portability", "ngram", "--output", path)
        assert (2, f"cai-conform: The portability table {path} is damaged: the table lacks the key format.") == (
            done.code,
            done.sentences[0],
        )
