"""What an exported folder holds, by layout.

| layout | files |
|---|---|
| `native` | `weights.safetensors` with the reference's own names, `vectors.json`, `trace.txt` |
| `hf` | `model.safetensors`, `config.json`, `generation_config.json`, `vectors.json`, `trace.txt` |

Nothing is computed anew: values are those of the golden, which are exact in bfloat16, float16 and float32.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from cai_conformance.backends.decoder.given import native_file, native_values
from cai_conformance.backends.decoder.plan import DECODE_PHASES
from cai_conformance.backends.decoder.weights_layout import WeightsLayout
from cai_conformance.exporting.errors import LayoutImpossible
from cai_conformance.goldens import Golden
from cai_conformance.suites.suite import Suite

Layout = WeightsLayout

NO_DECODER: Final = "its model is no decoder"
"""Why a suite without a phase has no folder that engines load."""


def obstacle(suite: Suite) -> str:
    """Return why engines cannot load the model of a suite; nothing where they can."""
    return next((phase.obstacle for phase in DECODE_PHASES if phase.suite == suite.identifier), NO_DECODER)


def can_export(suite: Suite, layout: Layout) -> bool:
    """Tell whether a suite has a layout."""
    return layout is Layout.NATIVE or not obstacle(suite)


def contents_of(suite: Suite, golden: Golden, layout: Layout) -> Mapping[str, bytes]:
    """Return the files of a folder, by name.

    Raises:
        LayoutImpossible: engines cannot compute what the suite's model computes.
    """
    if not can_export(suite, layout):
        raise LayoutImpossible(suite.identifier, layout.value, obstacle(suite))
    files = dict(golden.files)
    if layout is Layout.HUGGING_FACE or suite.weights_file == Layout.NATIVE.file:
        return files
    phase = next(phase for phase in DECODE_PHASES if phase.suite == suite.identifier)
    return {
        Layout.NATIVE.file: native_file(native_values(phase, files[suite.weights_file])),
        **{name: files[name] for name in ("trace.txt", "vectors.json")},
    }
