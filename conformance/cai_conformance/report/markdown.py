"""The report for a pull-request comment: the verdict first, a table of what is not a pass, the rest folded away.

GitHub-flavoured Markdown. Text from outside is escaped: it cannot end a table cell, open markup or mention a person.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from cai_conformance.report import words
from cai_conformance.report.terminal import printable
from cai_conformance.verdicts import Outcome, Report, Verdict

MAX_DIFFERENCES = 10
"""How many differences of one check are printed; the rest are counted."""

# Up to a character that may end an address, so that a full stop after it stays text.
_ADDRESS = re.compile(r"(https?://[^\s<>\\|`]*[A-Za-z0-9/=_-])")


def render_markdown(report: Report) -> str:
    """The comment, ending in a line end."""
    return "\n".join(_lines(report)) + "\n"


def _lines(report: Report) -> Iterator[str]:
    code = report.exit_code()
    yield f"### Conformance of {_code(report.backend)}"
    yield ""
    yield f"{words.counts_sentence(report)}. **Exit {code}: {words.exit_meaning(report)}.**"
    for note in report.notes:
        yield ""
        yield f"> {_text(note)}"
    notable = [verdict for verdict in report.verdicts if verdict.outcome is not Outcome.PASS]
    passes = [verdict for verdict in report.verdicts if verdict.outcome is Outcome.PASS]
    if notable:
        yield ""
        yield from _table(report, notable)
    for verdict in notable:
        if verdict.differences or verdict.explanation:
            yield ""
            yield from _details(verdict)
    if passes:
        yield ""
        yield from _folded_away(words.counted(len(passes), "pass", "passes"), [*_table(report, passes)])
    yield ""
    yield from _folded_away("Versions", [*_versions(report)])


def _table(report: Report, verdicts: Sequence[Verdict]) -> Iterator[str]:
    yield "| check | level | verdict | message |"
    yield "|---|---|---|---|"
    for verdict in verdicts:
        bad = verdict.outcome in words.BAD or words.is_required_skip(report, verdict)
        outcome = f"**{verdict.outcome}**" if bad else verdict.outcome.value
        yield _row(_code(verdict.check), verdict.level.value, outcome, _text(words.sentence(report, verdict)))


def _details(verdict: Verdict) -> Iterator[str]:
    shown = [printable(str(difference)) for difference in verdict.differences[:MAX_DIFFERENCES]]
    left = len(verdict.differences) - len(shown)
    fence = _fence(shown)
    body = [_text(verdict.message), ""] if verdict.message else []
    told = [f"* {_text(line)}" for line in verdict.explanation.lines] if verdict.explanation else []
    body += told
    if shown:
        body += [*([""] if told else []), fence, *shown, fence]
    if left:
        body += ["", f"and {words.counted(left, 'more difference')}"]
    title = f"<code>{_html(printable(verdict.check))}</code>: {words.counted(len(verdict.differences), 'difference')}"
    yield from _folded_away(title if shown else title.partition(": ")[0], body)


def _versions(report: Report) -> Iterator[str]:
    versions = report.versions
    yield "| what | version |"
    yield "|---|---|"
    yield _row("grammar", _text(versions.grammar))
    yield _row("protocol", _text(versions.protocol))
    yield _row("arithmetic", _text(versions.arithmetic))
    for kind, by_name in (("suite", versions.suites), ("vectors", versions.vectors)):
        for name, version in by_name.items():
            yield _row(f"{kind} {_code(name)}", _text(version))


def _folded_away(title: str, body: list[str]) -> Iterator[str]:
    # The empty line after the summary is what makes GitHub read the body as Markdown.
    yield from (f"<details><summary>{title}</summary>", "", *body, "", "</details>")


def _row(*cells: str) -> str:
    # A pipe ends a cell even inside a code span, so it is escaped last, over the finished cell.
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"


def _text(text: str) -> str:
    """Running text in which no character is markup and addresses are links; pipes are left to the table row."""
    parts = _ADDRESS.split(printable(text))
    return "".join(f"<{part}>" if position % 2 else _plain(part) for position, part in enumerate(parts))


def _plain(text: str) -> str:
    escaped = re.sub(r"([\\`*_~\[\]#$])", r"\\\1", _html(text))
    # An invisible character keeps GitHub from mentioning whoever has that name.
    return escaped.replace("@", "@&#8203;")


def _html(text: str) -> str:
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


def _code(text: str) -> str:
    """A code span whose fence is longer than any run of backticks inside."""
    clean = printable(text)
    fence = "`" * (_longest_run(clean) + 1)
    space = " " if "`" in clean else ""
    return f"{fence}{space}{clean}{space}{fence}"


def _fence(lines: list[str]) -> str:
    return "`" * max(3, _longest_run("\n".join(lines)) + 1)


def _longest_run(text: str) -> int:
    return max((len(run) for run in re.findall("`+", text)), default=0)
