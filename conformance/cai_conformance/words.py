"""What each verdict means, in a sentence or two."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from cai_conformance.verdicts import Outcome

VERDICTS: Final[Mapping[str, str]] = {
    Outcome.PASS.value: "the check was judged and holds.",
    Outcome.NEAR_TIE.value: "two tokens were so close that the measured disagreement explains the other choice.",
    Outcome.XFAIL.value: "it failed, and the expected-failure file says so, with a reason.",
    Outcome.SKIPPED.value: "nothing was judged: not offered by the backend, or not applicable, with the reason.",
    Outcome.FAIL.value: "it was judged and does not hold; the message names the first difference. Exit code 1.",
    Outcome.XPASS.value: "it passed although the expected-failure file says it fails; remove the entry. Exit code 1.",
    Outcome.BLOCKED.value: "a prerequisite failed, so there is nothing sound to judge; look there first. Exit code 1.",
    Outcome.ERRORED.value: "the backend crashed, hung or broke the protocol; no verdict on its numbers. Exit code 2.",
}
