"""The judge of several heads: heads that are copies of the first one say what it says, and their guesses are right.

The folder's later heads are overwritten with the first one's tensors, and one id is favoured in all of them, so that
the right continuation is known: this id, again and again.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from cai_conformance.backends.decoder.given import Tensors
from cai_conformance.engines.features import dropping
from cai_conformance.engines.path import EngineSession
from cai_conformance.judges.engines.comparing import RowComparison, reshaped
from cai_conformance.judges.engines.driving import fed_by
from cai_conformance.judges.engines.meeting import concluded
from cai_conformance.judges.finding import Finding
from cai_conformance.judges.witness import Witness, told
from cai_conformance.probing.probe import Probe
from cai_reference.decoding.drafts import LaterHeads
from cai_reference.decoding.generation import Limits, StreamingPath
from cai_reference.decoding.speculation import speculate

CASES: Final = ("rows", "passes")
HEADS: Final = Witness("later head", "later heads", cases=("rows",))
PASSES: Final = Witness("pass", "passes", cases=("passes",))
GUESSES: Final = Witness("guess", "guesses", cases=("passes",))
WITNESSES: Final = (HEADS, PASSES, GUESSES)
ROWS, CUT = 6, 4
"""How many tokens are fed, and where they are cut in two calls."""
PROMPT: Final = 4
TOKENS: Final = 6
FAVOURED: Final = 7
FAVOUR: Final = 64.0
"""By how much an id is favoured: more than any logit."""
ONE_HEAD: Final = "the model is not known to predict several tokens, or its heads cannot be exchanged"


def judge_equal_heads(probe: Probe) -> tuple[Finding, ...]:
    """Load a model whose later heads are copies of the first one; compare rows, and count accepted guesses."""
    if not probe.facts.later_heads:
        return (Finding.skipped(ONE_HEAD),)
    with probe.model.changed("equal heads", _equal(probe)):
        probe.model.load()
        findings = (_rows(probe), _passes(probe))
    probe.model.load()
    return findings


def _equal(probe: Probe) -> Tensors:
    values = {name: np.array(value) for name, value in probe.model.tensors.items()}
    for bias in probe.facts.output_biases:
        values[bias][FAVOURED] = FAVOUR
    for first, later in probe.facts.later_heads:
        values[later] = values[first]
    return values


def _rows(probe: Probe) -> Finding:
    comparison = RowComparison(reshaped(probe))
    heads = fed_by(EngineSession(probe.engine), probe.ids[:ROWS], (CUT,))
    for head in range(1, len(heads)):
        comparison.compare(heads[:1], heads[head : head + 1], f"head {head} as a copy of the first one")
    return concluded(comparison, [HEADS.met(len(heads) - 1)], "rows")


def _passes(probe: Probe) -> Finding:
    if dropping(probe.engine) is None or not probe.facts.output_biases:
        return Finding.skipped("guesses cannot be taken back, or no id can be favoured", "passes")
    later = len({name.split(".")[2] for _, name in probe.facts.later_heads})
    path, limits = StreamingPath(EngineSession(probe.engine), PROMPT), Limits(None, TOKENS, probe.length)
    found = speculate(path, LaterHeads(), probe.ids[:PROMPT], limits, later)
    proposed, accepted = (sum(getattr(each, name) for each in found.passes) for name in ("proposed", "accepted"))
    met = [PASSES.met(len(found.passes)), GUESSES.met(proposed)]
    if set(found.ids) != {FAVOURED}:
        return Finding.failed(
            f"the id {FAVOURED}, which is favoured, was not generated alone: {list(found.ids)}", case="passes"
        )
    if accepted < proposed or not proposed:
        return Finding.failed(
            f"{accepted} of {proposed} guesses were accepted, where all are right; {told(met)}", case="passes"
        )
    return Finding.passed(f"{told(met)}, all accepted", "passes", met)
