"""Shrinking: from a check that fails on a suite's model to the smallest model and sequence on which it still fails.

The search knows nothing of engines: it is handed a case, ways to make it smaller, and somebody who tells whether a case
fails. Everything else here makes cases and tries them.
"""

from __future__ import annotations
