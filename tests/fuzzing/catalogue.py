"""All readers of foreign input, by name.

A new reader gets a `Target` in the file of its room: valid files that this project itself has written, a function that
reads bytes and raises nothing but this project's errors, and, where the reader checks a checksum or a count first, a
function that puts it right. The ordinary tests read a few inputs of each target, `--exhaustive` some thousands, and
`python tests/fuzzing/run.py` as many as one likes. What is found is mended, and kept in `test_fuzzing_regressions.py`.
"""

from __future__ import annotations

from typing import Final

from fuzzing.target import Target
from fuzzing.targets import command_line, goldens, nets, serving, tensors, texts, traces

TARGETS: Final[dict[str, Target]] = {
    target.name: target
    for room in (texts, traces, nets, tensors, goldens, serving, command_line)
    for target in room.TARGETS
}
