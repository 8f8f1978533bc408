from __future__ import annotations

import pytest

from cai_conformance.report.formats import Format, default_format


@pytest.mark.parametrize(("is_terminal", "expected"), [(True, Format.TABLE), (False, Format.JSON)])
def test_a_terminal_gets_the_table_and_a_pipe_json(is_terminal: bool, expected: Format) -> None:
    """The format that nobody asked for depends on the stream alone."""
    assert expected == default_format(is_terminal)


def test_the_formats_are_those_of_the_command_line() -> None:
    """`--format` accepts four words."""
    assert ["table", "json", "markdown", "junit"] == [str(name) for name in Format]
