from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len

from cai_conformance.report.terminal import Column, clip, fold, printable, table_lines, widest_word

PLAIN = st.text(st.characters(categories=("L", "N", "P", "S")), max_size=80).filter(lambda text: "::" not in text)


@pytest.mark.parametrize(
    ("raw", "expected"),
    [
        ("two\n lines\tand  more ", "two lines and more"),
        ("\x1b[31mred\x07", r"\x1b[31mred\x07"),
        ("right\u202eleft", r"right\u202eleft"),
        ("half \udc80", r"half \udc80"),
        ("é😀", "é😀"),
    ],
)
def test_nothing_that_disturbs_a_terminal_gets_through(raw: str, expected: str) -> None:
    """Control, format and surrogate characters are spelt out, white space becomes one space."""
    assert expected == printable(raw)


def test_what_the_encoding_lacks_is_spelt_out() -> None:
    """A terminal that knows only ASCII gets ASCII."""
    assert r"\xe9\U0001f600 ok" == printable("é😀 ok", "ascii")


@pytest.mark.parametrize(
    ("text", "width", "expected"),
    [
        ("one two three", 7, ["one two", "three"]),
        ("one two three", 80, ["one two three"]),
        ("abcdefgh ij", 3, ["abc", "def", "gh", "ij"]),
        ("see course.ngram::fwd now", 5, ["see", "course.ngram::fwd", "now"]),
        ("日本 日本", 4, ["日本", "日本"]),
        ("", 5, [""]),
    ],
)
def test_folding_breaks_between_words_and_never_in_ids(text: str, width: int, expected: list[str]) -> None:
    """Lines are filled by cells; only a word wider than a line is cut, and an id not even then."""
    assert expected == fold(text, width)


@given(text=PLAIN, width=st.integers(2, 40))
def test_folded_lines_fit_and_lose_nothing(text: str, width: int) -> None:
    """Without ids, no line is wider than asked, and all characters survive in order."""
    lines = fold(text, width)
    assert all(cell_len(line) <= width for line in lines)
    assert text.replace(" ", "") == "".join(lines).replace(" ", "")


@pytest.mark.parametrize(
    ("text", "width", "expected"),
    [
        ("one two three", 13, "one two three"),
        ("one two three", 12, "one two ..."),
        ("one two three", 10, "one ..."),
        ("sha256:abcdef", 10, "sha256:..."),
        ("course.ngram::fwd", 10, "..."),
        ("see course.ngram::fwd", 14, "see ..."),
    ],
)
def test_clipping_keeps_whole_words(text: str, width: int, expected: str) -> None:
    """What does not fit is left out word by word; an id is never shown in part."""
    assert expected == clip(text, width)


def test_a_table_folds_the_columns_that_may_be_folded() -> None:
    """Widths are counted in cells; numbers stand at the right; what is not to be cut is whole."""
    columns = (Column("name", folded=True), Column("id"), Column("count", right=True))
    rows = [("日本 日本 \x07", "a.very::long[id]", "7"), ("x", "b", "12345678")]
    assert 4 == widest_word("a 日本 bc")
    expected = """\
  name        id                   count
  日本 日本   a.very::long[id]         7
  \\x07
  x           b                 12345678
""".splitlines()
    assert expected == [line.plain for line in table_lines(columns, rows, 30)]
