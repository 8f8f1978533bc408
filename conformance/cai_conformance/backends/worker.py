"""One trace in a fresh process: a request as JSON on standard input, the bytes of the trace on standard output.

This is how a replay gets another hash seed, another thread count and no state at all from the first run.
"""

from __future__ import annotations

import sys

from cai_conformance.backends.protocol import TraceRequest
from cai_conformance.backends.reference.backend import ReferenceBackend


def main() -> None:
    """Answer the one request on standard input."""
    request = TraceRequest.from_json(sys.stdin.buffer.read().decode("utf-8"))
    sys.stdout.buffer.write(ReferenceBackend().trace(request))
    sys.stdout.buffer.flush()


if __name__ == "__main__":
    main()
