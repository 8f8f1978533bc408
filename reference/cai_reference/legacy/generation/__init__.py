"""How the CAI NEURAL API continues a text: by encoding everything again, or by a session that is fed token by token.

| | `whole_context`, `generate_text` | `streamed` |
|---|---|---|
| a forward pass reads | the whole context | one token |
| behind the tokens stands | what the net read last | nothing |
| ends with | an id below 2, a full context | those, a list of ids, stop sequences, a budget |
| of a full prompt it makes | one token more | nothing |

On a net that does not look ahead both choose the same tokens, whatever stands behind them.
"""

from cai_reference.legacy.generation.steps import FIRST_WORD, GenerationEnd, LegacyGeneration, Step
from cai_reference.legacy.generation.streamed import StreamLimits, StreamStops, generate_streamed, streamed
from cai_reference.legacy.generation.whole_context import generate_text, generate_whole_context, whole_context

__all__ = [
    "FIRST_WORD",
    "GenerationEnd",
    "LegacyGeneration",
    "Step",
    "StreamLimits",
    "StreamStops",
    "generate_streamed",
    "generate_text",
    "generate_whole_context",
    "streamed",
    "whole_context",
]
