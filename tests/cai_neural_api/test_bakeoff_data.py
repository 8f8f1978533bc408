"""What the bake-off trains on: rows of a file, filtered and counted, or stories made here."""

from __future__ import annotations

from pathlib import Path

import pytest

from cai_conformance.errors import InputError
from cai_neural_api.bakeoff import find_data
from cai_neural_api.bakeoff.data import read_data
from cai_neural_api.errors import BakeOffError
from support_bakeoff import TINY
from support_refusals import refuses


def files(folder: Path, rows: bytes, vocabulary: bytes = b"cat\nthe\n") -> tuple[Path, Path]:
    """Write a vocabulary and rows."""
    paths = folder / "vocabulary.txt", folder / "rows.csv"
    paths[0].write_bytes(vocabulary)
    paths[1].write_bytes(rows)
    return paths


class TestRowsOfAFile:
    """Non-empty rows with known ids only, and no more of them than the limit."""

    def test_what_is_kept_and_left_out_is_counted(self, tmp_path: Path) -> None:
        """An empty row, a row with an id beyond the nets, and a row beyond the limit."""
        found = read_data(*files(tmp_path, b"5,128\n\n129,140\n7\n8,9\n139\n"), 140, limit=3)
        assert ((5, 128), (7,), (8, 9)) == found.rows
        assert (6, 1, 1, 1) == (found.read, found.empty, found.too_large, found.beyond)
        assert found.comparable

    def test_no_more_is_read_than_the_limit_takes(self, tmp_path: Path) -> None:
        """Damage behind the last row that is needed is not met."""
        found = read_data(*files(tmp_path, b"1\n2\nx\n"), 140, limit=2)
        assert (((1,), (2,)), 2) == (found.rows, found.read)

    def test_reading_goes_on_where_rows_are_left_out(self, tmp_path: Path) -> None:
        """The limit counts usable rows, not lines."""
        found = read_data(*files(tmp_path, b"\n\n\n4\n\n5\n6\n"), 140, limit=2)
        assert ((4,), (5,)) == found.rows

    @pytest.mark.parametrize(
        ("rows", "problem"),
        [
            (b"1,2\n3,,4\n", "line 2, field 2: '' is not a token id"),
            (b"1,2\n3,x\n", "line 2, field 2: 'x' is not a token id"),
            (b"1\n2\n-3\n", "line 3, field 1: token id -3 is negative"),
            (b"1\n99999999999\n", "line 2, field 1: token id 99999999999 is too large; the largest is 2147483647"),
            (b"1\n2", "line 2 has no line end, so the file is cut off"),
            (b"1\r\n2\r\n", "line 1 holds a carriage return; lines end in LF alone, not in CR LF"),
        ],
    )
    def test_a_damaged_line_is_named(self, tmp_path: Path, rows: bytes, problem: str) -> None:
        """With the file and what is wrong."""
        paths = files(tmp_path, rows)
        with refuses(BakeOffError, "data-damaged") as caught:
            read_data(*paths, 140)
        assert f"{str(paths[1])!r}: {problem}" == str(caught.value)
        assert 2 == caught.value.exit_code

    def test_rows_of_which_none_is_usable_are_refused(self, tmp_path: Path) -> None:
        """Empty ones, and ones for larger nets."""
        with refuses(BakeOffError, "no-usable-row", match="2 rows, of which none has ids, all of them up to 139"):
            read_data(*files(tmp_path, b"\n140\n"), 140)

    def test_a_vocabulary_for_larger_nets_is_refused(self, tmp_path: Path) -> None:
        """With the line at which it grows too large."""
        with refuses(BakeOffError, "data-damaged", match="line 3 would get id 130, but the vocabulary holds 130 ids"):
            read_data(*files(tmp_path, b"1\n", b"a1\nb2\nc3\n"), 130)

    def test_a_missing_file_is_named(self, tmp_path: Path) -> None:
        """Whichever of the two it is."""
        vocabulary, rows = files(tmp_path, b"1\n")
        rows.unlink()
        with refuses(InputError, "input-unreadable", match=r"rows\.csv"):
            read_data(vocabulary, rows, 140)


class TestWhichData:
    """Two files or none."""

    def test_one_file_alone_is_refused(self, tmp_path: Path) -> None:
        """Ids mean nothing without their vocabulary."""
        vocabulary, rows = files(tmp_path, b"1\n")
        with refuses(BakeOffError, "data-incomplete", match="--rows needs --vocabulary beside it"):
            find_data(None, rows, TINY, 140, 1)
        with refuses(BakeOffError, "data-incomplete", match="--vocabulary needs --rows beside it"):
            find_data(vocabulary, None, TINY, 140, 1)

    def test_generated_stories_fit_the_nets_and_compare_with_nothing(self) -> None:
        """A row a story, ids of the fitted vocabulary, and a source that says so."""
        found = find_data(None, None, TINY, 140, 1)
        assert TINY.stories == len(found.rows) == found.read
        assert all(0 <= token < found.vocabulary.size <= 140 for row in found.rows for token in row)
        assert not found.comparable
        assert found.source.startswith("12 generated stories, vocabulary of 140 ids")

    def test_generated_data_depend_on_the_seed_alone(self) -> None:
        """The same seed gives the same vocabulary and rows."""
        assert find_data(None, None, TINY, 140, 7) == find_data(None, None, TINY, 140, 7)
