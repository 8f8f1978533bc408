"""Texts continued by trained nets: what a prompt becomes, how tokens are drawn, when to stop, what is shown."""

from cai_conformance.chatting.continuation import Continuation
from cai_conformance.chatting.drawing import Drawing, SamplerKind, SamplerSettings, Semantics
from cai_conformance.chatting.showing import Characters
from cai_conformance.chatting.writer import Prompt, Writer

__all__ = ["Characters", "Continuation", "Drawing", "Prompt", "SamplerKind", "SamplerSettings", "Semantics", "Writer"]
