"""The `-k` filter: words, wild cards, brackets, and the logic that combines them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cai_conformance.errors import SelectionError
from cai_conformance.run.questions import compile_expression
from cai_conformance.suites import find_suite
from support_refusals import refuses

IDS = find_suite("course.ngram").check_ids()


def selected(expression: str) -> list[str]:
    """Return the ids that an expression selects."""
    predicate = compile_expression(expression)
    return [check for check in IDS if predicate(check)]


@pytest.mark.parametrize("word", ["golden", "GOLDEN", "course.ngram::", "tok.fit[tie]", "[", "fit[t"])
def test_a_word_matches_anywhere_in_any_case(word: str) -> None:
    """Brackets and dots are letters like all others."""
    expected = [check for check in IDS if word.lower() in check.lower()]
    assert expected == selected(word)
    assert expected


def test_stars_and_question_marks_are_wild() -> None:
    """A star is any text, a question mark one character."""
    assert [check for check in IDS if "tok." in check and "[" in check.partition("tok.")[2]] == selected("tok.*[")
    assert [check for check in IDS if "::tok.fit[" in check] == selected("t?k.fit")
    assert list(IDS) == selected("*")


@pytest.mark.parametrize(
    ("expression", "same"),
    [
        ("golden and bits or replay", "(golden and bits) or replay"),
        ("replay or golden and bits", "replay or (golden and bits)"),
        ("not golden and tok", "(not golden) and tok"),
        ("not not golden", "golden"),
        ("not(golden or tok)", "not golden and not tok"),
        ("((golden))", "golden"),
        ("android", "*android*"),
    ],
)
def test_not_binds_closer_than_and_than_or(expression: str, same: str) -> None:
    """As in Python and pytest."""
    assert selected(same) == selected(expression)


WORDS = st.sampled_from(["golden", "tok", "run.", "bits", "[", "nothing"])
EXPRESSIONS = st.recursive(
    WORDS,
    lambda inner: st.one_of(
        inner.map(lambda one: f"not {one}"),
        inner.map(lambda one: f"({one})"),
        st.tuples(inner, st.sampled_from(["and", "or"]), inner).map(" ".join),
    ),
    max_leaves=8,
)


@given(EXPRESSIONS, st.sampled_from(IDS))
def test_expressions_mean_what_python_says(expression: str, check: str) -> None:
    """Python evaluates the same text, with each word replaced by whether it occurs."""
    tokens = expression.replace("(", " ( ").replace(")", " ) ").split()
    operators = {"and", "or", "not", "(", ")"}
    spelt = " ".join(token if token in operators else str(token in check) for token in tokens)
    assert eval(spelt) == compile_expression(expression)(check)


@pytest.mark.parametrize(
    ("expression", "problem"),
    [
        ("", "it is empty"),
        ("  ", "it is empty"),
        ("and", "'and' is not expected there"),
        ("golden or", "it ends too early"),
        ("not", "it ends too early"),
        ("golden bits", "'bits' is not expected there"),
        ("(golden", "a parenthesis is not closed"),
        ("golden)", "')' is not expected there"),
        ("()", "')' is not expected there"),
        ("golden and and bits", "'and' is not expected there"),
        ("not " * 101 + "bits", "it has more than 100 parentheses and negations"),
    ],
)
def test_what_cannot_be_read_says_why(expression: str, problem: str) -> None:
    """The error carries the expression and the problem."""
    with refuses(SelectionError, "invalid-expression") as caught:
        compile_expression(expression)
    assert (expression, problem) == (caught.value.fields["expression"], caught.value.fields["problem"])


def test_long_and_deep_expressions_are_read() -> None:
    """Many alternatives, and as much nesting as is allowed, exhaust no stack."""
    assert selected("tok") == selected(" or ".join(["nothing"] * 900 + ["tok"]))
    assert selected("tok") == selected("(tok and " * 99 + "(tok)" + ")" * 99)


@given(st.text(max_size=30))
def test_no_text_does_more_than_be_refused(expression: str) -> None:
    """Any text is an expression or an `invalid-expression`."""
    try:
        compile_expression(expression)("course.ngram::tok.fit[tie]")
    except SelectionError as error:
        if error.code != "invalid-expression":
            raise
        assert expression == error.fields["expression"]
