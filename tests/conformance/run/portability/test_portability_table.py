"""The portability table: written and read, joined, and held against the goldens."""

from __future__ import annotations

from pathlib import Path

import pytest

from cai_conformance.errors import GoldenError
from cai_conformance.fixtures.goldens.store import GoldenStore, locate
from cai_conformance.run.portability.processes import TableDamaged
from cai_conformance.run.portability.table import PortabilityTable, of_file, overview, read, suite_lines, write
from support_portability import OTHER, table_of
from support_refusals import refuses

NGRAM, HYBRID = "course.ngram", "cai.hybrid"


@pytest.fixture(scope="module")
def goldens() -> GoldenStore:
    """The goldens of this repository."""
    return GoldenStore(locate())


class TestFile:
    """Reading and writing."""

    def test_nothing_is_lost(self, goldens: GoldenStore) -> None:
        """And the same table gives the same bytes."""
        table = table_of(goldens, NGRAM, HYBRID)
        assert table == read(write(table), "here")
        assert write(table) == write(
            PortabilityTable(table.runs, {HYBRID: table.suites[HYBRID], NGRAM: table.suites[NGRAM]})
        )

    @pytest.mark.parametrize(
        ("before", "after", "problem"),
        [
            (b"{", b"[", "it is not JSON at line 2 column 11 (Expecting ',' delimiter)"),
            (b'"format": 1', b'"format": 2', "its format is 2, and this program knows format 1"),
            (b'"runs"', b'"ruins"', "the table lacks the key runs"),
            (b'"3 ULP"', b'"3 UPL"', "'3 UPL' is no class"),
            (b'"3 ULP"', b"3", "LOSS step=0 of fast of course.ngram is not a text"),
            (b'"PROOF": 1', b'"PROOF": -1', "PROOF of fast of course.ngram is not a count"),
            (b'  "format"', b' "format"', "it is not written as this program writes it"),
            (b'"threads": "1"', b'"threads": ""', "threads of facts of run 0 is not a text"),
        ],
    )
    def test_damage_is_one_sentence(self, goldens: GoldenStore, before: bytes, after: bytes, problem: str) -> None:
        """With the path."""
        data = write(table_of(goldens, NGRAM))
        assert before in data
        with pytest.raises(TableDamaged) as caught:
            read(data.replace(before, after, 1), "golden/portability.json")
        assert f"The portability table golden/portability.json is damaged: {problem}." == str(caught.value)

    def test_no_file_is_no_table(self, tmp_path: Path) -> None:
        """But a folder in its place is damage."""
        assert of_file(tmp_path / "portability.json") is None
        with pytest.raises(TableDamaged, match="Is a directory"):
            of_file(tmp_path)


class TestJoining:
    """Part of the suites, recorded later."""

    def test_suites_are_added_and_replaced(self, goldens: GoldenStore) -> None:
        """The newer one wins."""
        old, new = table_of(goldens, NGRAM, golden="0" * 64), table_of(goldens, NGRAM, HYBRID)
        assert [NGRAM] == list(old.stale(goldens))
        joined = old.joined(new, "here")
        assert ({NGRAM, HYBRID}, ()) == (set(joined.suites), joined.stale(goldens))

    def test_other_circumstances_are_refused(self, goldens: GoldenStore) -> None:
        """What was recorded under other settings says something else."""
        old, new = table_of(goldens, NGRAM), table_of(goldens, HYBRID)
        with refuses(GoldenError, "other-circumstances", match="cannot join here"):
            old.joined(PortabilityTable(new.runs[:-1], new.suites), "here")


class TestSummary:
    """The table in a few lines."""

    def test_each_arithmetic_has_its_counts_and_its_worst_record(self, goldens: GoldenStore) -> None:
        """Over all suites; a setting without effect is not counted."""
        found = dict(overview(table_of(goldens, NGRAM, HYBRID), goldens))
        text, _, rest = found["portability"].partition("; not recorded: ")
        assert "2 suites, 2 settings, NumPy 2.9.0" == text
        assert len(goldens.suites()) - 2 == len(rest.split(", "))
        assert "6 invariant under 2 settings" == found["portable strict/1"]
        assert "6 invariant under 1 setting" == found["portable libm/1"]
        assert (
            "2 invariant, 4 within 3 ULP, 2 token-stable under 2 settings; most: "
            f"course.ngram DECODE arm=full prompt=0, token-stable: 4 in the last digit, digests ({OTHER.name})"
        ) == found["portable fast"]
        assert ["portability", "portable strict/1", "portable libm/1", "portable fast"] == list(found)

    def test_a_table_of_other_goldens_says_so(self, goldens: GoldenStore) -> None:
        """With the suite."""
        found = dict(overview(table_of(goldens, NGRAM, golden="0" * 64), goldens))
        assert "OTHER GOLDENS than now: course.ngram; not recorded: " in found["portability"]

    def test_a_line_a_suite_and_arithmetic(self, goldens: GoldenStore) -> None:
        """In the order strict, libm, fast."""
        lines = list(suite_lines(table_of(goldens, NGRAM)))
        assert ["course.ngram: strict/1: 3 invariant", "course.ngram: libm/1: 3 invariant"] == lines[:2]
        assert lines[2].startswith("course.ngram: fast: 1 invariant, 2 within 3 ULP, 1 token-stable; most: ")
