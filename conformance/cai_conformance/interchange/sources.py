"""What a net can be made of, as a text on the command line names it.

In this order: an existing weights file; `phase1` to `phase9` and `draft`, at their published size with initial weights
from a seed; a decode suite by its id or a unique ending of it, with its golden weights.
"""

from __future__ import annotations

from pathlib import Path

from cai_conformance.backends.decoder.plan import PHASES, sizes_for
from cai_conformance.errors import SelectionError
from cai_conformance.goldens import GoldenStore, locate
from cai_conformance.interchange.errors import NotADecodeSuite, UnknownSource
from cai_conformance.interchange.nets import export_model
from cai_conformance.interchange.published_nets import published_configuration, published_net
from cai_conformance.interchange.weights import parse_bare_weights, read_weights
from cai_conformance.suites import find_suite
from cai_reference.nets.conversion import Model
from cai_reference.nets.format import NetFile

WEIGHTS = "weights.safetensors"


def load_source(text: str, seed: int) -> NetFile:
    """Return the net that a text names.

    Args:
        text: a weights file, `phase1` to `phase9`, `draft`, or a suite.
        seed: of the initial weights of a published net; nothing else draws.

    Raises:
        UnknownSource: the text names nothing.
        NotADecodeSuite: it names a suite without a decoder.
        InputUnreadable, InterchangeError: the file cannot be read, or its model does not fit into a net.
        GoldenError: the golden of the suite cannot be read.
    """
    if Path(text).is_file():
        return export_model(read_weights(text), text)
    configuration = published_configuration(text)
    if configuration is not None:
        return published_net(configuration, seed)
    try:
        suite = find_suite(text).identifier
    except SelectionError as error:
        raise UnknownSource(text, str(error)) from error
    return export_model(golden_model(suite), suite)


def golden_model(suite: str) -> Model:
    """Return the decoder of a suite, with its golden weights.

    Raises:
        NotADecodeSuite: the suite has none.
        GoldenError, InterchangeError: the golden or its weights cannot be read.
    """
    phase = next((phase for phase in PHASES if phase.suite == suite), None)
    if phase is None:
        raise NotADecodeSuite(suite)
    sizes = sizes_for(phase, "golden", 0)
    data = GoldenStore(locate()).read(suite).files[WEIGHTS]
    return parse_bare_weights(data, lambda vocabulary: phase.decoder(sizes, vocabulary), f"{suite}/{WEIGHTS}")
