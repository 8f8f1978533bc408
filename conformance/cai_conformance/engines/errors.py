"""What can go wrong with an engine, by its first name: `cai_conformance.engine` has it."""

from cai_conformance.engine import EngineBroken, EngineError, Refused

__all__ = ["EngineBroken", "EngineError", "Refused"]
