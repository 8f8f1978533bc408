"""`published`: a table for people, lines for programs, and an exit code."""

from __future__ import annotations

import json

import pytest

from cai_neural_api import published
from cai_neural_api.published import Figure
from support_cli import invoke

pytestmark = pytest.mark.usefixtures("without_ci")

FIGURES = (
    Figure("One source", "weights of a model with quite a long name", "weights", 1_309_700, 1_309_700),
    Figure("One source", "saved", "%", 0.0, 0.0),
    Figure("Another source", "smaller", "times", 2.76, 2.76),
)
PLANTED = (*FIGURES[:1], Figure("One source", "saved", "%", 46.9, 46.8), *FIGURES[2:])
SUMMARY = {"type": "summary", "counts": {"figures": 3, "equal": 3, "different": 0}, "exit_code": 0}


@pytest.fixture
def right(monkeypatch: pytest.MonkeyPatch) -> None:
    """Three equal figures."""
    monkeypatch.setattr(published, "published_figures", lambda: FIGURES)


@pytest.fixture
def wrong(monkeypatch: pytest.MonkeyPatch) -> None:
    """One figure is wrong."""
    monkeypatch.setattr(published, "published_figures", lambda: PLANTED)


def lines(text: str) -> list[dict[str, object]]:
    """Return the objects of JSON lines."""
    return [json.loads(line) for line in text.splitlines()]


@pytest.mark.exhaustive
def test_every_figure_is_equal() -> None:
    """On the real models, in a pipe; exit code 0, nothing on standard error."""
    result = invoke("published")
    *figures, summary = lines(result.out)
    assert (0, "") == (result.code, result.err)
    assert {"type": "summary", "counts": {"figures": 66, "equal": 66, "different": 0}, "exit_code": 0} == summary
    assert all(figure["equal"] is True and figure["published"] == figure["counted"] for figure in figures)
    assert 66 == len(figures)


@pytest.mark.usefixtures("right")
def test_lines_for_programs() -> None:
    """Numbers are numbers; the same with and without --format json."""
    result = invoke("published")
    first = {
        "type": "figure",
        "source": "One source",
        "figure": "weights of a model with quite a long name",
        "unit": "weights",
        "published": 1_309_700,
        "counted": 1_309_700,
        "equal": True,
    }
    found = lines(result.out)
    assert (first, SUMMARY, 4) == (found[0], found[-1], len(found))
    assert result.out == invoke("published", "--format", "json", environment={"FORCE_COLOR": "1"}).out


@pytest.mark.usefixtures("right")
def test_a_table_for_people() -> None:
    """A heading a source, aligned columns, one verdict."""
    result = invoke("published", "--format", "table", environment={"COLUMNS": "100"})
    expected = """\
One source
  figure                                     published    counted  unit     equal
  weights of a model with quite a long name  1,309,700  1,309,700  weights  yes
  saved                                            0.0        0.0  %        yes

Another source
  figure   published  counted  unit   equal
  smaller       2.76     2.76  times  yes

3 figures: 3 equal, 0 different. Exit 0: as published.
"""
    assert (0, expected) == (result.code, result.out)


@pytest.mark.usefixtures("right")
def test_a_terminal_gets_the_table() -> None:
    """In colour, unless told otherwise."""
    result = invoke("published", environment={"FORCE_COLOR": "1", "COLUMNS": "100"})
    assert "\x1b[1mOne source\x1b[0m" in result.out
    assert "\x1b[1;32mExit 0: as published.\x1b[0m" in result.out


@pytest.mark.usefixtures("right")
def test_a_narrow_terminal_folds_names() -> None:
    """Numbers stay whole."""
    result = invoke("published", "--format", "table", environment={"COLUMNS": "60"})
    assert "  weights of a model    1,309,700  1,309,700  weights  yes\n  with quite a long\n" in result.out
    assert 60 >= max(map(len, result.out.splitlines()))


@pytest.mark.usefixtures("wrong")
def test_a_difference_is_exit_code_1() -> None:
    """In both formats."""
    table = invoke("published", "--format", "table", environment={"COLUMNS": "100"})
    assert 1 == table.code
    assert "  saved                                           46.9       46.8  %        NO\n" in table.out
    assert table.out.endswith("3 figures: 2 equal, 1 different. Exit 1: they differ.\n")
    found = invoke("published")
    counts = {"figures": 3, "equal": 2, "different": 1}
    assert (1, {"type": "summary", "counts": counts, "exit_code": 1}) == (found.code, lines(found.out)[-1])


@pytest.mark.usefixtures("wrong")
def test_quiet_leaves_what_differs() -> None:
    """And the summary, in both formats."""
    found = invoke("published", "-q")
    assert (1, ["saved", None]) == (found.code, [line.get("figure") for line in lines(found.out)])
    expected = """\
One source
  figure  published  counted  unit  equal
  saved        46.9     46.8  %     NO

3 figures: 2 equal, 1 different. Exit 1: they differ.
"""
    table = invoke("published", "--quiet", "--format", "table")
    assert (1, expected) == (table.code, table.out)


@pytest.mark.usefixtures("right")
def test_quiet_says_little_where_all_is_equal() -> None:
    """One line in each format."""
    assert [SUMMARY] == lines(invoke("published", "-q").out)
    assert "3 figures: 3 equal, 0 different. Exit 0: as published.\n" == invoke("published", "-q", "-f", "table").out
