"""Faults of sessions: positions, rows and states that are wrong only because something was remembered.

The batch path is right in all of them, so that a comparison of full passes with an oracle shows nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import Final, TypeVar

import numpy as np

from cai_conformance.faults.fault import Fault, Place
from cai_conformance.faults.planting import Planting
from cai_conformance.faults.vehicle import DENSE, WINDOWED, given, run
from cai_reference.arithmetic import Array
from cai_reference.autograd import Tape
from cai_reference.decoding.attend import attend_one
from cai_reference.decoding.layer_states import (
    AttentionState,
    GroupedQueryState,
    KeyValueState,
    LayerState,
    SsmState,
    by_head,
    turn_heads,
)
from cai_reference.decoding.row_store import RowStore
from cai_reference.decoding.session import Session
from cai_reference.layers.rope import Rope
from cai_reference.models.block import Block, Norm, TokenLayer
from cai_reference.models.stack import DecoderStack

State = TypeVar("State", bound=KeyValueState)
SESSION: Final = frozenset({Place.SESSION})


def _positions(planting: Planting, position_of: Callable[[Session, int], int]) -> None:
    through = Session._through

    def wrong(
        session: Session, block: Block[Norm, TokenLayer], state: LayerState, x: Array, position: int
    ) -> tuple[Array, LayerState]:
        return through(session, block, state, x, position_of(session, position))

    planting.method(Session, "_through", wrong)


def _restarted(session: Session, position: int) -> int:
    return session.options.start


def _start_forgotten(session: Session, position: int) -> int:
    return position if session.length == 0 else position - session.options.start


def _ahead_after_cut(planting: Planting) -> None:
    """Count positions from one more than what was kept."""
    truncate, reset = Session.truncate, Session.reset
    ahead: set[int] = set()

    def wrong_truncate(session: Session, length: int) -> None:
        before = session.length
        truncate(session, length)
        if session.length < before:
            ahead.add(id(session))

    def wrong_reset(session: Session) -> None:
        ahead.discard(id(session))
        reset(session)

    planting.method(Session, "truncate", wrong_truncate)
    planting.method(Session, "reset", wrong_reset)
    _positions(planting, lambda session, position: position + (id(session) in ahead))


def _turned_again(planting: Planting) -> None:
    """Turn the keys that lie in the cache once more in every call."""
    feed, grouped_feed = AttentionState.feed, GroupedQueryState.feed

    def wrong(state: AttentionState, tape: Tape, x: Array, position: int) -> tuple[Array, LayerState]:
        mixer = state.mixer
        return feed(_with_keys_turned(state, tape, mixer.heads, Rope(mixer.rope_base), position), tape, x, position)

    def wrong_grouped(state: GroupedQueryState, tape: Tape, x: Array, position: int) -> tuple[Array, LayerState]:
        mixer = state.mixer
        turned = _with_keys_turned(state, tape, mixer.key_value_heads, mixer.rope, position)
        return grouped_feed(turned, tape, x, position)

    planting.method(AttentionState, "feed", wrong)
    planting.method(GroupedQueryState, "feed", wrong_grouped)


def _with_keys_turned(state: State, tape: Tape, heads: int, rope: Rope, position: int) -> State:
    store = state.keys
    if store.held == 0:
        return state
    places = np.arange(store.base, store.length) % store.storage.shape[0]
    storage = store.storage.copy()
    turned = turn_heads(tape, storage[places], heads, position - store.held, rope)
    storage[places] = turned.reshape(store.held, -1)
    return replace(state, keys=replace(store, storage=storage))


def _cut_too_little(planting: Planting, kept: Callable[[int, int], int]) -> None:
    """Keep rows and states that a cut should forget; `kept` tells up to which length."""
    truncated, states_truncated = RowStore.truncated, SsmState.truncated

    def wrong(store: RowStore, length: int) -> RowStore:
        return truncated(store, kept(store.length, length))

    def wrong_states(state: SsmState, length: int) -> LayerState:
        stale = states_truncated(state, kept(state.length, length))
        assert isinstance(stale, SsmState)
        return replace(stale, length=length)

    planting.method(RowStore, "truncated", wrong)
    planting.method(SsmState, "truncated", wrong_states)


def _one_row_more(before: int, length: int) -> int:
    return min(before, length + 1)


def _everything(before: int, length: int) -> int:
    return before


def _wrapped_rows_taken(planting: Planting) -> None:
    """Cut a ring behind rows that it has overwritten, as if they were still there."""

    def everything(store: RowStore) -> int:
        return 0

    def wrong(store: RowStore, length: int) -> RowStore:
        seen = length if store.window is None else store.window
        return replace(store, length=length, base=min(store.base, max(0, length - seen)))

    planting.method(RowStore, "earliest", everything)
    planting.method(RowStore, "truncated", wrong)


def _kept_between_sequences(planting: Planting, kind: type[KeyValueState] | type[SsmState]) -> None:
    """Begin a sequence with what the last one of the same model left in layers of a kind."""
    reset, feed = Session.reset, Session.feed
    # Models are kept beside their states, so that their identities are not used again.
    left: dict[int, tuple[DecoderStack, tuple[LayerState, ...]]] = {}

    def wrong_reset(session: Session) -> None:
        reset(session)
        _, before = left.get(id(session.model), (session.model, session._states))
        session._states = tuple(
            _moved_on(old) if isinstance(new, kind) and type(old) is type(new) else new
            for old, new in zip(before, session._states, strict=True)
        )

    def wrong_feed(session: Session, ids: Sequence[int]) -> list[Array]:
        logits = feed(session, ids)
        left[id(session.model)] = (session.model, tuple(state.copy() for state in session._states))
        return logits

    planting.method(Session, "reset", wrong_reset)
    planting.method(Session, "feed", wrong_feed)


def _moved_on(old: LayerState) -> LayerState:
    """Return an old state for a new session: rows at negative positions, or the newest state alone."""
    if isinstance(old, SsmState):
        return replace(old, states=(old.states[-1].copy(),), length=0)
    assert isinstance(old, AttentionState | GroupedQueryState)
    return replace(old, keys=_before_zero(old.keys), values=_before_zero(old.values))


def _before_zero(store: RowStore) -> RowStore:
    return replace(store, storage=np.roll(store.storage, -store.length, axis=0), length=0, base=-store.held)


def _from_zero(planting: Planting) -> None:
    feed = SsmState.feed

    def wrong(state: SsmState, tape: Tape, x: Array, position: int) -> tuple[Array, LayerState]:
        fresh = replace(state, states=(*state.states[:-1], np.zeros(state.states[-1].shape)))
        return feed(fresh, tape, x, position)

    planting.method(SsmState, "feed", wrong)


def _one_step_a_call(planting: Planting) -> None:
    """Step the recurrence once for a whole chunk: the state after it is that of its last token alone."""
    feed = SsmState.feed

    def wrong(state: SsmState, tape: Tape, x: Array, position: int) -> tuple[Array, LayerState]:
        if x.shape[0] == 1:
            return feed(state, tape, x, position)
        mixed, _ = feed(state, tape, x, position)
        last, after = feed(state, tape, x[-1:], position)
        assert isinstance(after, SsmState)
        padding = (after.states[-1],) * (x.shape[0] - 1)
        states = (*after.states, *padding)[-(state.slack + 1) :]
        mixed = np.concatenate([mixed[:-1], last])
        return mixed, replace(after, states=states, length=state.length + x.shape[0])

    planting.method(SsmState, "feed", wrong)


def _chunk_mask(planting: Planting, seen: Callable[[int, int, int], int]) -> None:
    """Attend after the whole chunk is in the cache; `seen` tells how many of the oldest visible rows a token sees."""

    def wrong(state: State, tape: Tape, query: Array, key: Array, value: Array) -> tuple[Array, State]:
        tokens, groups = key.shape[:2]
        factor = 1.0 / float(np.sqrt(query.shape[2]))
        keys, values = state.keys.writable(), state.values.writable()
        before = keys.visible
        for token in range(tokens):
            keys, values = keys.append(key[token].ravel()), values.append(value[token].ravel())
        all_keys, all_values = by_head(keys.rows(), groups), by_head(values.rows(), groups)
        mixed = np.empty((tokens, query.shape[1] * value.shape[2]))
        for token in range(tokens):
            count = min(seen(token, before, tokens), all_keys.shape[1])
            visible, held = all_keys[:, :count], all_values[:, :count]
            mixed[token] = attend_one(tape.arithmetic, query[token], visible, held, factor).ravel()
        return mixed, replace(state, keys=keys, values=values)

    planting.method(KeyValueState, "attended", wrong)


def _whole_chunk(token: int, before: int, tokens: int) -> int:
    return before + tokens


def _from_the_top_left(token: int, before: int, tokens: int) -> int:
    return token + 1


def _values_shifted(planting: Planting) -> None:
    """Read the values one row off: each key brings the value of the token before it."""
    attended = KeyValueState.attended

    def wrong(state: State, tape: Tape, query: Array, key: Array, value: Array) -> tuple[Array, State]:
        if state.values.length == 0:
            return attended(state, tape, query, key, value)
        newest = state.values.rows()[-1:].reshape(1, *value.shape[1:])
        return attended(state, tape, query, key, np.concatenate([newest, value[:-1]]))

    planting.method(KeyValueState, "attended", wrong)


CACHES: Final = (
    Fault(
        "rope.restart",
        "positions start again in every call",
        "The first token of each call stands where the session began. One call for everything hides it.",
        "rasbt/LLMs-from-scratch#697; huggingface/candle#1517",
        SESSION,
        partial(_positions, position_of=_restarted),
        kinds=("A02",),
        vehicles=(*given(DENSE), *run(DENSE)),
        expected=("kv.split", "kv.inc", "kv.cuts", "kv.steps"),
    ),
    Fault(
        "rope.start-forgotten",
        "later calls forget where the session starts",
        "A session that starts late counts its later calls from 0; one that starts at 0 hides it.",
        "meta-pytorch/torchtune#959",
        SESSION,
        partial(_positions, position_of=_start_forgotten),
        kinds=("A02",),
        vehicles=given(DENSE),
        expected=("kv.split", "rope.shift"),
    ),
    Fault(
        "cache.keys-rotated-again",
        "cached keys turned again in every call",
        "Keys are turned before they are cached, and once more each time they are read.",
        "NeuraLegion/shainet#110",
        SESSION,
        _turned_again,
        kinds=("A03",),
        vehicles=given(DENSE),
        expected=("kv.split", "kv.steps", "kv.cuts"),
    ),
    Fault(
        "cache.stale-row-after-rollback",
        "one rejected row stays after a rollback",
        "A cut keeps one row too many, so that the next token attends to a token which was taken back.",
        "huggingface/transformers#30042",
        SESSION,
        partial(_cut_too_little, kept=_one_row_more),
        kinds=("P01",),
        vehicles=(*given(DENSE), *run(DENSE)),
        expected=("gen.given", "spec.eq", "kv.rollback", "spec.rows"),
    ),
    Fault(
        "cache.rollback-ignored",
        "a rollback leaves the cache as it is",
        "Positions go back, rows and states do not.",
        "huggingface/transformers#30068",
        SESSION,
        partial(_cut_too_little, kept=_everything),
        kinds=("P01",),
        vehicles=given(DENSE, "cai.diagonal-ssm"),
        expected=("gen.given", "kv.rollback", "spec.rows"),
    ),
    Fault(
        "cache.position-plus-one-after-rollback",
        "positions one too high after a rollback",
        "The counter is set to what was kept and one more; rows are right.",
        "huggingface/transformers#30413",
        SESSION,
        _ahead_after_cut,
        kinds=("A11",),
        vehicles=given(DENSE),
        expected=("gen.given", "kv.rollback", "spec.rows"),
    ),
    Fault(
        "cache.trim-after-wrap",
        "a ring is cut behind rows that it has overwritten",
        "The cut should be refused; newer rows are taken for the older ones that are gone. Sequences that do not wrap"
        " hide it.",
        "ml-explore/mlx-lm#1512; ollama/ollama#14912",
        SESSION,
        _wrapped_rows_taken,
        kinds=("W04",),
        vehicles=given(WINDOWED),
        expected=("kv.rollback",),
    ),
    Fault(
        "cache.kept-between-sequences",
        "the cache is not cleared between sequences",
        "A new sequence attends to rows of the last one.",
        "langchain-ai/langchain#2565; vllm-project/vllm#37152",
        SESSION,
        partial(_kept_between_sequences, kind=KeyValueState),
        kinds=("A12",),
        vehicles=given(DENSE),
        expected=("kv.split", "kv.reuse"),
    ),
    Fault(
        "cache.chunk-unmasked",
        "tokens of one call see each other",
        "Within a call every token sees the whole chunk; feeding one token at a time hides it.",
        "huggingface/transformers#48748; karpathy/nanochat#844",
        SESSION,
        partial(_chunk_mask, seen=_whole_chunk),
        kinds=("A09",),
        vehicles=given(DENSE),
        expected=("kv.split", "kv.cuts"),
    ),
    Fault(
        "cache.mask-top-left",
        "the mask of a later call is aligned at the top left",
        "Token i of a call sees the i + 1 oldest rows, whatever was there before. A first call hides it.",
        "openvinotoolkit/openvino#36680; tenstorrent/tt-metal#48899",
        SESSION,
        partial(_chunk_mask, seen=_from_the_top_left),
        kinds=("A08",),
        vehicles=given(DENSE),
        expected=("kv.split", "kv.cuts"),
    ),
    Fault(
        "cache.values-one-behind",
        "cached values one row behind their keys",
        "In later calls each key brings the value of the token before it.",
        "",
        SESSION,
        _values_shifted,
        vehicles=given(DENSE),
        expected=("kv.split", "kv.steps"),
    ),
    Fault(
        "ssm.state-kept",
        "the recurrent state is kept between sequences",
        "A new sequence goes on from the last state of the one before; the first sequence hides it.",
        "NovaSky-AI/SkyRL#2056",
        SESSION,
        partial(_kept_between_sequences, kind=SsmState),
        kinds=("S01",),
        vehicles=given("cai.diagonal-ssm"),
        expected=("kv.split", "kv.reuse"),
    ),
    Fault(
        "ssm.chunk-from-zero",
        "every call starts the recurrence from zero",
        "What earlier calls have left is not read.",
        "huggingface/transformers#46741",
        SESSION,
        _from_zero,
        kinds=("S04",),
        vehicles=given("cai.diagonal-ssm", "cai.hybrid"),
        expected=("kv.split", "ssm.split"),
    ),
    Fault(
        "ssm.one-step-a-call",
        "the recurrence takes one step a call",
        "After a call of several tokens the state holds the last of them only; feeding one at a time hides it.",
        "huggingface/transformers#46084",
        SESSION,
        _one_step_a_call,
        kinds=("S05",),
        vehicles=given("cai.diagonal-ssm"),
        expected=("kv.split", "ssm.split"),
    ),
)
"""What is wrong with a session."""
