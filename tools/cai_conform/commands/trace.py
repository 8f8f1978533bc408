"""`cai-conform trace`: print what a backend answers."""

from __future__ import annotations

from cai_conform import options
from cai_conform.subject import find_backend
from cai_conform.terminal import progress, write_bytes


def trace(
    suite: options.SuiteName,
    backend: options.BackendSpec = "reference",
    arithmetic: options.ArithmeticName = None,
    corpus: options.CorpusFile = None,
    splits: options.SplitsFile = None,
    stories: options.StoriesFile = None,
    examples: options.Examples = 0,
    profile: options.ProfileName = None,
    view: options.ViewChoice = options.ViewChoice.TRACE,
) -> None:
    """Print the trace of a suite: all of it, its body only, or the learner's report."""
    from cai_conformance.backends.protocol import ask
    from cai_conformance.fixtures.goldens.store import GoldenStore, locate
    from cai_conformance.run.questions import Options, check_used, question_for
    from cai_conformance.run.record import body_of, report_of
    from cai_conformance.suites import find_suite

    found = find_suite(suite)
    subject = find_backend(backend)
    wanted = Options(arithmetic, corpus, splits, profile, stories, examples)
    check_used([found], wanted)
    question = question_for(found, GoldenStore(locate()), wanted)
    with progress(f"{subject.name}: {found.identifier}"):
        if view is options.ViewChoice.REPORT:
            data = report_of(found, subject, question.request)
        else:
            data = ask(subject, question.request)
            data = body_of(data) if view is options.ViewChoice.BODY else data
    write_bytes(data)
