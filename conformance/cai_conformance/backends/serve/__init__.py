"""The ways in for programs: one that is driven line by line, one that prints traces, and a Python engine as a program.

`conformance/docs/serve-protocol.md` is the contract. From the outside in:

| module | what it does |
|---|---|
| `client` | an engine that asks a program |
| `exec_backend`, `request_folder` | a backend that calls a program once for each trace |
| `server`, `answering` | a Python engine that is asked by a program |
| `channel` | one request and its answer, within a deadline |
| `child`, `guard`, `streams` | a process that never outlives the run, and its three streams |
| `pieces`, `descriptions`, `generation`, `training_messages`, `tensors` | what travels, written and read |
| `lines`, `fields`, `scratch` | how strictly it is read |
| `validation` | the same once more, by JSON Schema |

The modules are imported by name: a program that is asked needs nothing of what writes the folder of a request.
"""

from __future__ import annotations
