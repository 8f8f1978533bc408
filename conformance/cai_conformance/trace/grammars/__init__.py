"""The grammars of all suites, by name."""

from __future__ import annotations

from cai_conformance.trace.grammar import Grammar
from cai_conformance.trace.grammars.course_ngram import COURSE_NGRAM
from cai_conformance.trace.grammars.decoder import DECODER_GRAMMARS

_GRAMMARS = {grammar.suite: grammar for grammar in (COURSE_NGRAM, *DECODER_GRAMMARS)}


def grammar_of(suite: str) -> Grammar | None:
    """The grammar of a suite, or None where no suite has the name."""
    return _GRAMMARS.get(suite)
