"""Backends: whatever answers a request with the bytes of a trace."""

from cai_conformance.backends.protocol import Backend, TraceRequest

__all__ = ["Backend", "TraceRequest"]
