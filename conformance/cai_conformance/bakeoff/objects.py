"""Reports as objects for JSON: one a phase, one a run. Nothing in them depends on where the run was made."""

from __future__ import annotations

from cai_conformance.bakeoff.counting import distinct
from cai_conformance.bakeoff.figures import BakeFigure
from cai_conformance.bakeoff.phases import ArmName
from cai_conformance.bakeoff.publication import CONDITIONS, MEASURED_SOURCE, SOURCE
from cai_conformance.bakeoff.report import PhaseReport, RunReport
from cai_conformance.bakeoff.showdown import PromptResult
from cai_conformance.nets.arms import ArmRun

Object = dict[str, object]


def phase_object(report: PhaseReport) -> Object:
    """Return a phase."""
    course = report.course
    return {
        "type": "phase",
        "phase": report.phase.number,
        "title": report.phase.title,
        "complete": report.complete,
        "token_identical": report.identical,
        "net": report.net,
        "training": {
            "limit": report.box,
            "ending": course.ending,
            "seconds": course.seconds,
            "steps": course.steps,
            "kept_step": course.kept,
            "thrown_away": course.thrown_away,
            "examples": course.examples,
            "first_loss": course.first_loss,
            "logged_loss": course.logged_loss,
            "loss": course.loss,
            "kept_loss": course.kept_loss,
            "validation_accuracy": course.accuracy,
        },
        "figures": [_figure(figure) for figure in report.figures],
        "prompts": [_prompt(result, text) for result, text in zip(report.prompts, report.texts, strict=True)],
        "differences": [
            {
                "prompt": result.prompt,
                "arm": name.value,
                "position": found.position,
                "full": found.expected,
                "found": found.found,
                "full_margin": found.expected_margin,
                "margin": found.found_margin,
            }
            for result, name, found in report.differences
        ],
        "verdicts": [
            {"claim": verdict.claim, "verdict": verdict.word.value, "reason": verdict.reason}
            for verdict in report.verdicts
        ],
    }


def summary_object(run: RunReport) -> Object:
    """Return a run in short: a few numbers a phase."""
    return {
        "type": "summary",
        "trainer": run.settings.trainer.value,
        "arithmetic": run.settings.arithmetic.identifier,
        "seed": run.settings.seed,
        "threads": run.settings.threads,
        "data": {
            "source": run.data.source,
            "rows": len(run.data.rows),
            "read": run.data.read,
            "empty": run.data.empty,
            "with_larger_ids": run.data.too_large,
            "beyond_the_limit": run.data.beyond,
        },
        "published": {"source": SOURCE, "conditions": CONDITIONS, "measured": MEASURED_SOURCE},
        "cautions": list(run.cautions),
        "phases": [_short(report) for report in run.phases],
        "asked": run.asked,
        "complete": run.complete,
        "exit_code": run.exit_code,
    }


def run_object(run: RunReport) -> Object:
    """Return a run with all that is known of its phases."""
    return {**summary_object(run), "phases": [phase_object(report) for report in run.phases]}


def _figure(figure: BakeFigure) -> Object:
    return {
        "group": figure.group,
        "figure": figure.name,
        "unit": figure.unit,
        "value": figure.value,
        "published": _number(figure.published),
        "measured": _number(figure.measured),
    }


def _number(text: str) -> float | None:
    return float(text.replace(",", "")) if text else None


def _prompt(result: PromptResult, text: str) -> Object:
    return {
        "prompt": result.prompt,
        "prompt_ids": list(result.full.prompt),
        "ids": list(result.full.new),
        "text": text,
        "distinct": distinct(result.full.new),
        "smallest_margin": result.margin,
        "arms": [_arm(name, run) for name, run in result.runs.items()],
    }


def _arm(name: ArmName, run: ArmRun) -> Object:
    return {
        "arm": name.value,
        "tokens": len(run.new),
        "milliseconds": 1000.0 * run.seconds,
        "forwards": run.forwards,
        "prefill_forwards": run.prefill_forwards,
    }


def _short(report: PhaseReport) -> Object:
    return {
        "phase": report.phase.number,
        "title": report.phase.title,
        "loss": report.course.loss,
        "steps": report.course.steps,
        "thrown_away": report.course.thrown_away,
        "stories_per_second": report.course.throughput,
        "milliseconds_per_token": {
            name.value: figure.value
            for name in report.phase.arms
            if (figure := report.figure(f"all: {name}, a token")) is not None
        },
        "distinct": report.distinct,
        "smallest_margin": report.margin,
        "result": report.word,
        "verdicts": [verdict.word.value for verdict in report.verdicts],
    }
