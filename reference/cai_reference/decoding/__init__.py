"""Decoding: from logits to tokens."""

from cai_reference.decoding.greedy import Continuation, Stop, continue_greedily, greedy_token, margin

__all__ = ["Continuation", "Stop", "continue_greedily", "greedy_token", "margin"]
