from __future__ import annotations

from dataclasses import replace

import pytest

from cai_conformance.report.markdown import render_markdown
from cai_conformance.verdicts import Difference, Level, Problem
from support_reports import ERRORED, FAIL, PASS, SKIPPED, XFAIL, report


def test_a_small_report_reads_as_expected() -> None:
    """Verdict, table of what is not a pass, differences, passes, versions: in this order."""
    short = replace(FAIL, differences=FAIL.differences[:1])
    assert """\
### Conformance of `reference`

3 checks: 1 pass, 1 xfail, 1 fail. **Exit 1: does not conform (1 failed).**

> a note

| check | level | verdict | message |
|---|---|---|---|
| `course.ngram::fwd.oracle[hidden]` | I1 | **fail** | 14 of 60 values differ |
| `course.ngram::bits.parameters` | T3 | xfail | expected to fail: sums in float32 <https://example.org/issues/7> |

<details><summary><code>course.ngram::fwd.oracle[hidden]</code>: 1 difference</summary>

14 of 60 values differ

```
STAGE index=0, field hidden[2]: value, expected 0.123456, found 0.123457, 4096 ULP apart
```

</details>

<details><summary>1 pass</summary>

| check | level | verdict | message |
|---|---|---|---|
| `course.ngram::tok.fit` | I0 | pass | 24 merges agree |

</details>

<details><summary>Versions</summary>

| what | version |
|---|---|
| grammar | 1 |
| protocol | 1 |
| arithmetic | strict/1 |
| suite `course.ngram` | 1.0.0 |
| suite `cai.kv-cache` | 0.3.0 |
| vectors `course.ngram` | 1.2.0 |

</details>
""" == render_markdown(report(PASS, short, replace(XFAIL, differences=()), notes=("a note",)))


def test_differences_are_capped_and_the_rest_counted() -> None:
    """Ten lines, then how many more."""
    text = render_markdown(report(FAIL))
    assert 10 == text.count("STAGE index=")
    assert "\nand 4 more differences\n" in text


def test_a_required_skip_stands_out() -> None:
    """What the level forbids is bold like a failure."""
    row = "| `cai.kv-cache::kv.split` | I2 | **skipped** | chunked calls are not offered (required by I3) |"
    assert row in render_markdown(report(SKIPPED, required=Level.I3)).splitlines()


@pytest.mark.parametrize(
    ("message", "expected"),
    [
        ("a|b", r"a\|b"),
        (r"a\|b", r"a\\\|b"),
        ("two\nlines", "two lines"),
        ("<b> & `code` *bold* [x](y)", r"&lt;b&gt; &amp; \`code\` \*bold\* \[x\](y)"),
        ("ask @someone", "ask @&#8203;someone"),
        ("see https://example.org/a_b?c=1&d=2.", "see <https://example.org/a_b?c=1&d=2>."),
        ("\x1b[0m", r"\\x1b\[0m"),
    ],
)
def test_a_message_stays_text_within_its_cell(message: str, expected: str) -> None:
    """Pipes, markup, mentions and control characters are disarmed; addresses stay links."""
    lines = render_markdown(report(replace(ERRORED, message=message))).splitlines()
    assert f"| `cai.kv-cache::kv.rollback` | I2 | **errored** | {expected} |" in lines


def test_no_value_can_close_its_fence() -> None:
    """The fence around differences is longer than any run of backticks inside."""
    odd = Difference(Problem.VALUE, "CONFIG", "name", None, "````", "x")
    text = render_markdown(report(replace(FAIL, differences=(odd,))))
    assert "\n`````\nCONFIG, field name: value, expected ````, found x\n`````\n" in text


def test_the_name_of_a_backend_stays_one_code_span() -> None:
    """Backticks in a name are fenced by a longer run."""
    odd = replace(report(PASS), backend="exec:./a`b")
    assert "### Conformance of `` exec:./a`b ``" == render_markdown(odd).splitlines()[0]
