"""Recordings in a fresh process: a question as JSON on standard input, its facts and traces on standard output."""

from __future__ import annotations

import json
import sys

from cai_conformance.backends.protocol import TraceRequest
from cai_conformance.goldens import strict_json
from cai_conformance.portability.facts import gather
from cai_conformance.portability.recording import record_exactly


def main() -> None:
    """Answer the one question on standard input: `threads`, and `requests` as `TraceRequest.to_json` writes them."""
    question = strict_json.obj(strict_json.parse(sys.stdin.buffer.read()), ("threads", "requests"), "the question")
    threads = strict_json.count(question["threads"], "threads")
    requests = [strict_json.text(line, "a request") for line in strict_json.array(question["requests"], "requests")]
    facts = gather(threads)
    traces = [record_exactly(TraceRequest.from_json(line), threads).decode("utf-8") for line in requests]
    print(json.dumps({"facts": facts.texts, "traces": traces}))


if __name__ == "__main__":
    main()
