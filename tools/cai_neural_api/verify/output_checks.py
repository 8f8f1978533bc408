"""What a net puts out, beside what the library measured: counts, rows, decoded tokens, rows of a session."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final, TypeAlias

from cai_neural_api.conversion import net_to_decoder
from cai_neural_api.decode.arms import Budget, run_path
from cai_neural_api.decode.paths import ForgetfulPath, NetPath, PaddedPath, SessionPath, TwoTokenPath
from cai_neural_api.net.graph import Net
from cai_neural_api.net.layers.attention import WHOLE_SEQUENCE
from cai_neural_api.structure import ATTENTION, EMBEDDING, SWIGLU, embedding_vocabulary, session_counts
from cai_neural_api.verify.samples import DecodeCase, Ids, NetSample
from cai_neural_api.verify.session_checks import Measure, SampleComparison
from cai_reference.arithmetic import Arithmetic
from cai_reference.errors import CaiReferenceError
from cai_reference.models.decoder import Decoder, LatentSpec

STREAM_END: Final = 2
"""The library's streamed generator stops behind the first id below this one."""


def no_clock() -> float:
    """Return a time that stands still: verification measures nothing."""
    return 0.0


def count_check(net: Net, sample: NetSample, source: str) -> Iterator[SampleComparison]:
    """Compare what the sample counts with the layers."""
    tally = SampleComparison("counts and sizes", source)
    vocabulary, depth = embedding_vocabulary(net.specs), net.shapes[-1].depth
    known: list[tuple[str, int | None, int]] = [
        ("weights", sample.weights, net.weight_count),
        ("layers", sample.layers, len(net.specs)),
        ("the context", sample.sizes.get("ctx"), net.context),
    ]
    if sample.session is not None:
        names = ("attention layers", "recurrences", "rotary layers")
        known.extend(zip(names, sample.session, session_counts(net.specs), strict=True))
    if vocabulary is not None:
        known.append(("the vocabulary", sample.sizes.get("vocab"), vocabulary))
        if depth % vocabulary == 0:
            known.append(("future tokens", sample.sizes.get("num_future") or None, depth // vocabulary))
    known.extend((name, sample.sizes.get(key), found) for key, name, found in _stated_sizes(net))
    for name, expected, found in known:
        if expected is not None:
            tally.equal(expected, found, name)
    if tally.values:
        yield tally


def _stated_sizes(net: Net) -> Iterator[tuple[str, str, int]]:
    """Yield the sizes that the layers of a net decide on: the name in a sample, the name in words, and the size."""
    windows = [spec.integers[2] for spec in net.specs if spec.kind == ATTENTION]
    inner = {shape.depth for spec, shape in zip(net.specs, net.shapes, strict=True) if spec.kind == SWIGLU}
    for spec in net.specs:
        if spec.kind == EMBEDDING:
            yield "d_model", "the width", spec.integers[1]
            break
    if len(inner) == 1:
        yield "ffn", "the width of the feed-forward layers", inner.pop()
    if windows:
        yield "window", "the window", max(windows)
    try:
        model = net_to_decoder(net.to_file())
    except CaiReferenceError:
        # Of another net, nobody knows what its heads are.
        return
    if not isinstance(model, Decoder):
        return
    if windows:
        yield "heads", "attention heads", model.configuration.heads
    for mixer in model.configuration.mixers:
        if isinstance(mixer, LatentSpec):
            yield "latent", "the width of the latent", mixer.latent
            yield "rope", "the width of the rotary key", mixer.rope


def forward_check(
    net: Net, sample: NetSample, source: str, arithmetic: Arithmetic, tolerance: float
) -> Iterator[SampleComparison]:
    """Compare the output rows of whole inputs."""
    if not sample.forward:
        return
    tally = SampleComparison("forward rows", source, tolerance, Measure.ABSOLUTE)
    for number, case in enumerate(sample.forward):
        try:
            found = net.run(arithmetic, [case.input]).output[0]
        except CaiReferenceError as error:
            tally.missing(f"example {number}: {error}")
            continue
        # Rows are compared one by one, so that ragged ones are named.
        if len(case.output) != found.shape[0]:
            tally.missing(f"example {number}: expected {len(case.output)} rows, found {found.shape[0]}")
            continue
        for row, expected in enumerate(case.output):
            tally.numbers(expected, found[row], f"example {number}, row {row}", "channel")
    yield tally


def _session(net: Net, arithmetic: Arithmetic) -> SessionPath | ForgetfulPath:
    """Open what the library streams by: nothing is collected of layers that turn tokens into channels."""
    if not any(session_counts(net.specs)) and any(isinstance(layer, WHOLE_SEQUENCE) for layer in net.layers):
        return ForgetfulPath(net, arithmetic)
    return SessionPath.open(net, arithmetic)


def _incremental(net: Net, arithmetic: Arithmetic) -> SessionPath:
    return SessionPath.open(net, arithmetic, carries_shift=True)


Way: TypeAlias = tuple[str, Callable[[DecodeCase], Ids | None], Callable[[Net, Arithmetic], NetPath], int]

WAYS: Final[tuple[Way, ...]] = (
    ("full re-encode", lambda case: case.greedy_full, PaddedPath, 0),
    ("session", lambda case: case.greedy_session, _session, 0),
    ("streamed generator", lambda case: case.streamed, _session, STREAM_END),
    ("net-level incremental", lambda case: case.incremental, _incremental, 0),
    ("width 2", lambda case: case.width2, TwoTokenPath, 0),
)
"""The ways to decode: what a sample has of each, how it is done here, and below which id it stops."""


def decode_checks(
    net: Net, sample: NetSample, source: str, arithmetic: Arithmetic, tolerance: float
) -> Iterator[SampleComparison]:
    """Compare decoded tokens, way by way, and the rows that came out of the session on the way."""
    for way, measured, path, stop_below in WAYS:
        tally, any_measured = SampleComparison(f"tokens, {way}", source), False
        for number, case in enumerate(sample.decode):
            expected = measured(case)
            if expected is None:
                continue
            any_measured = True
            # How many tokens were asked for is not stated, but no list of the prompt is longer than that.
            longest = max(len(each[1](case) or ()) for each in WAYS)
            budget = Budget(longest - len(case.prompt), net.context, stop_below)
            try:
                found = run_path(path(net, arithmetic), case.prompt, budget, no_clock).ids
            except CaiReferenceError as error:
                tally.missing(f"prompt {number}: {error}")
                continue
            tally.tokens(expected, found, len(case.prompt), f"prompt {number}")
        if any_measured:
            yield tally
    yield from _session_rows(net, sample, source, arithmetic, tolerance)


def _session_rows(
    net: Net, sample: NetSample, source: str, arithmetic: Arithmetic, tolerance: float
) -> Iterator[SampleComparison]:
    """Feed the measured tokens, not those found here, so that a row is wrong only if it is itself wrong."""
    if not any(case.session_rows for case in sample.decode):
        return
    tally = SampleComparison("session rows", source, tolerance, Measure.ABSOLUTE)
    for number, case in enumerate(sample.decode):
        tokens = case.greedy_session or ()
        if len(tokens) < len(case.session_rows):
            tally.missing(f"prompt {number}: {len(case.session_rows)} rows for {len(tokens)} tokens of the session")
            continue
        try:
            path = _session(net, arithmetic)
            for row, (token, expected) in enumerate(zip(tokens, case.session_rows, strict=False)):
                found = path.feed([token])[-1][0]
                tally.numbers(expected, found, f"prompt {number}, row {row}", "channel")
        except CaiReferenceError as error:
            tally.missing(f"prompt {number}: {error}")
    yield tally
