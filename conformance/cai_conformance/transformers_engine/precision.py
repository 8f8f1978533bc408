"""What a format means where transformers computes.

Its norms, the angles and tables of its rotary embedding, and the softmax of its eager attention are in float32 whatever
the model's format is. So a model in float64 has float64 weights, caches and logits, around activations that passed
through float32: it is no better than float32, and not reproducible beyond that. In bfloat16 the rotary tables are
rounded to bfloat16, too. Its generation loop chooses from logits in float32.
"""

from __future__ import annotations

from typing import Final

from cai_conformance.engines.description import Precision

PRECISIONS: Final = {
    "float64": Precision("float64", "float32", "float64", "float32", "float64"),
    "float32": Precision.uniform("float32"),
    "bfloat16": Precision("bfloat16", "bfloat16", "bfloat16", "float32", "bfloat16"),
}
"""The formats that a model is loaded in, finest first."""
