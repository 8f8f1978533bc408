"""A program that accepts one golden after the other until it is killed, each with another learning rate.

Recording takes seconds and is left out, so that a signal meets the change and not the way to it.
"""

from __future__ import annotations

import itertools
import sys

from cai_conform.commands.golden import accept
from cai_conformance.run import record as recording
from support_traces import candidate_of, with_field


def main() -> None:
    """Accept candidates and say so, forever."""
    for count in itertools.count():
        candidate = candidate_of(with_field("CONFIG", "lr", f"0.{count:06d}"))
        recording.propose_checked = lambda suite, made=candidate: made  # type: ignore[misc]  # fewer parameters are enough
        accept(reason="again", suites=["ngram"])
        sys.stdout.flush()


if __name__ == "__main__":
    main()
