"""Probing: what self-consistency judges need to know of a model, whoever it belongs to.

A suite's given model and a user's own folder are asked the same questions. None of them needs a golden: an engine is
compared with itself, on the same tokens in other calls.
"""

from __future__ import annotations
