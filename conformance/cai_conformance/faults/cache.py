"""Faults of sessions: positions, rows and memory that are wrong only because something was remembered.

The batch path is right in all of them, so that a comparison of full passes with an oracle shows nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Final, TypeVar

import numpy as np

from cai_conformance.faults.fault import SESSION, Family
from cai_conformance.faults.patch import Patch
from cai_conformance.faults.workload import DENSE, WINDOWED, given, run
from cai_reference.arithmetic import Array
from cai_reference.autograd import Tape
from cai_reference.decoding import layer_states
from cai_reference.decoding.attend import attend_one
from cai_reference.decoding.layer_states import (
    Accounting,
    AttentionState,
    GroupedQueryState,
    KeyValueState,
    LayerState,
    RowStore,
    SsmState,
    by_head,
    turn_heads,
)
from cai_reference.decoding.session import Session
from cai_reference.layers.rope import Rope
from cai_reference.models.stack import DecoderStack

State = TypeVar("State", bound=KeyValueState)


def _positions(patch: Patch, position_of: Callable[[Session, int], int]) -> None:
    patch.arguments((Session, "_through"), position=lambda call: position_of(call.self, call.position))


def _restarted(session: Session, position: int) -> int:
    return session.options.start


def _start_forgotten(session: Session, position: int) -> int:
    return position if session.length == 0 else position - session.options.start


def _with_keys_turned(state: State, tape: Tape, heads: int, rope: Rope, position: int) -> State:
    store = state.keys
    if store.held == 0:
        return state
    places = np.arange(store.base, store.length) % store.storage.shape[0]
    storage = store.storage.copy()
    turned = turn_heads(tape, storage[places], heads, position - store.held, rope)
    storage[places] = turned.reshape(store.held, -1)
    return replace(state, keys=replace(store, storage=storage))


def _cut_too_little(patch: Patch, kept: Callable[[int, int], int]) -> None:
    """Keep rows and states that a cut should forget; `kept` tells up to which length."""
    truncated, states_truncated = RowStore.truncated, SsmState.truncated

    def wrong(store: RowStore, length: int) -> RowStore:
        return truncated(store, kept(store.length, length))

    def wrong_states(state: SsmState, length: int) -> LayerState:
        stale = states_truncated(state, kept(state.length, length))
        assert isinstance(stale, SsmState)
        return replace(stale, length=length)

    patch.replace((RowStore, "truncated"), wrong)
    patch.replace((SsmState, "truncated"), wrong_states)


def _one_row_more(before: int, length: int) -> int:
    return min(before, length + 1)


def _everything(before: int, length: int) -> int:
    return before


def kept_between_sequences(patch: Patch, kind: type[KeyValueState] | type[SsmState]) -> None:
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

    patch.replace((Session, "reset"), wrong_reset)
    patch.replace((Session, "feed"), wrong_feed)


def _moved_on(old: LayerState) -> LayerState:
    """Return an old state for a new session: rows at negative positions, or the newest state alone."""
    if isinstance(old, SsmState):
        return replace(old, states=(old.states[-1].copy(),), length=0)
    assert isinstance(old, AttentionState | GroupedQueryState)
    return replace(old, keys=_before_zero(old.keys), values=_before_zero(old.values))


def _before_zero(store: RowStore) -> RowStore:
    return replace(store, storage=np.roll(store.storage, -store.length, axis=0), length=0, base=-store.held)


def _chunk_mask(patch: Patch, seen: Callable[[int, int, int], int]) -> None:
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

    patch.replace((KeyValueState, "attended"), wrong)


def _whole_chunk(token: int, before: int, tokens: int) -> int:
    return before + tokens


def _from_the_top_left(token: int, before: int, tokens: int) -> int:
    return token + 1


def _counted(patch: Patch, changed: str) -> None:
    right = layer_states.account

    def wrong(stores: tuple[RowStore, ...], formula: str) -> Accounting:
        found = right(stores, formula)
        return replace(found, floats=found.allocated if changed == "allocated" else found.floats + found.slack)

    patch.replace(right, wrong)


_cache = Family(SESSION, given(DENSE))


@_cache(
    "rope.restart",
    "positions start again in every call",
    "kv.split kv.inc kv.cuts kv.steps",
    seen_in="rasbt/LLMs-from-scratch#697; huggingface/candle#1517",
    kinds="A02",
    workloads=(*given(DENSE), *run(DENSE)),
)
def _restart(patch: Patch) -> None:
    """The first token of each call stands where the session began. One call for everything hides it."""
    _positions(patch, position_of=_restarted)


@_cache(
    "rope.start-forgotten",
    "later calls forget where the session starts",
    "kv.split rope.shift",
    seen_in="meta-pytorch/torchtune#959",
    kinds="A02",
)
def _start_forgotten_rope(patch: Patch) -> None:
    """A session that starts late counts its later calls from 0; one that starts at 0 hides it."""
    _positions(patch, position_of=_start_forgotten)


@_cache(
    "cache.keys-rotated-again",
    "cached keys turned again in every call",
    "kv.split kv.steps kv.cuts",
    seen_in="NeuraLegion/shainet#110",
    kinds="A03",
)
def _turned_again(patch: Patch) -> None:
    """Keys are turned before they are cached, and once more each time they are read."""
    # Turn the keys that lie in the cache once more in every call.
    feed, grouped_feed = AttentionState.feed, GroupedQueryState.feed

    def wrong(state: AttentionState, tape: Tape, x: Array, position: int) -> tuple[Array, LayerState]:
        mixer = state.mixer
        return feed(_with_keys_turned(state, tape, mixer.heads, Rope(mixer.rope_base), position), tape, x, position)

    def wrong_grouped(state: GroupedQueryState, tape: Tape, x: Array, position: int) -> tuple[Array, LayerState]:
        mixer = state.mixer
        turned = _with_keys_turned(state, tape, mixer.key_value_heads, mixer.rope, position)
        return grouped_feed(turned, tape, x, position)

    patch.replace((AttentionState, "feed"), wrong)
    patch.replace((GroupedQueryState, "feed"), wrong_grouped)


@_cache(
    "cache.stale-row-after-rollback",
    "one rejected row stays after a rollback",
    "gen.given spec.eq kv.rollback spec.rows",
    seen_in="huggingface/transformers#30042",
    kinds="P01",
    workloads=(*given(DENSE), *run(DENSE)),
)
def _stale_row_after_rollback(patch: Patch) -> None:
    """A cut keeps one row too many, so that the next token attends to a token which was taken back."""
    _cut_too_little(patch, kept=_one_row_more)


@_cache(
    "cache.rollback-ignored",
    "a rollback leaves the cache as it is",
    "gen.given kv.rollback spec.rows",
    seen_in="huggingface/transformers#30068",
    kinds="P01",
    workloads=given(DENSE, "cai.diagonal-ssm"),
)
def _rollback_ignored(patch: Patch) -> None:
    """Positions go back, rows and states do not."""
    _cut_too_little(patch, kept=_everything)


@_cache(
    "cache.position-plus-one-after-rollback",
    "positions one too high after a rollback",
    "gen.given kv.rollback spec.rows",
    seen_in="huggingface/transformers#30413",
    kinds="A11",
)
def _ahead_after_cut(patch: Patch) -> None:
    """The counter is set to what was kept and one more; rows are right."""
    # Count positions from one more than what was kept.
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

    patch.replace((Session, "truncate"), wrong_truncate)
    patch.replace((Session, "reset"), wrong_reset)
    _positions(patch, lambda session, position: position + (id(session) in ahead))


@_cache(
    "cache.trim-after-wrap",
    "a ring is cut behind rows that it has overwritten",
    "kv.rollback",
    seen_in="ml-explore/mlx-lm#1512; ollama/ollama#14912",
    kinds="W04",
    workloads=given(WINDOWED),
)
def _wrapped_rows_taken(patch: Patch) -> None:
    """The cut should be refused; newer rows are taken for the older ones that are gone.

    Sequences that do not wrap hide it.
    """

    # Cut a ring behind rows that it has overwritten, as if they were still there.
    def everything(store: RowStore) -> int:
        return 0

    def wrong(store: RowStore, length: int) -> RowStore:
        seen = length if store.window is None else store.window
        return replace(store, length=length, base=min(store.base, max(0, length - seen)))

    patch.replace((RowStore, "earliest"), everything)
    patch.replace((RowStore, "truncated"), wrong)


@_cache(
    "cache.kept-between-sequences",
    "the cache is not cleared between sequences",
    "kv.split kv.reuse",
    seen_in="langchain-ai/langchain#2565; vllm-project/vllm#37152",
    kinds="A12",
)
def _kept_between_sequences(patch: Patch) -> None:
    """A new sequence attends to rows of the last one."""
    kept_between_sequences(patch, kind=KeyValueState)


@_cache(
    "cache.chunk-unmasked",
    "tokens of one call see each other",
    "kv.split kv.cuts",
    seen_in="huggingface/transformers#48748; karpathy/nanochat#844",
    kinds="A09",
)
def _chunk_unmasked(patch: Patch) -> None:
    """Within a call every token sees the whole chunk; feeding one token at a time hides it."""
    _chunk_mask(patch, seen=_whole_chunk)


@_cache(
    "cache.mask-top-left",
    "the mask of a later call is aligned at the top left",
    "kv.split kv.cuts",
    seen_in="openvinotoolkit/openvino#36680; tenstorrent/tt-metal#48899",
    kinds="A08",
)
def _mask_top_left(patch: Patch) -> None:
    """Token i of a call sees the i + 1 oldest rows, whatever was there before. A first call hides it."""
    _chunk_mask(patch, seen=_from_the_top_left)


@_cache("cache.values-one-behind", "cached values one row behind their keys", "kv.split kv.steps")
def _values_shifted(patch: Patch) -> None:
    """In later calls each key brings the value of the token before it."""
    # Read the values one row off: each key brings the value of the token before it.
    attended = KeyValueState.attended

    def wrong(state: State, tape: Tape, query: Array, key: Array, value: Array) -> tuple[Array, State]:
        if state.values.length == 0:
            return attended(state, tape, query, key, value)
        newest = state.values.rows()[-1:].reshape(1, *value.shape[1:])
        return attended(state, tape, query, key, np.concatenate([newest, value[:-1]]))

    patch.replace((KeyValueState, "attended"), wrong)


_memory = Family(SESSION, given(DENSE, "cai.kv-cache"))


@_memory(
    "cache.memory-shared",
    "sessions share their memory",
    "kv.batch",
    seen_in="tanishqkumar/ssd#23; lmstudio-ai/mlx-engine#177",
)
def _shared(patch: Patch) -> None:
    """A pool hands out rows that somebody else still reads. One sequence at a time hides it."""
    # Give every store of one kind the memory of the first one that was made beside it, layer by layer.
    right = RowStore.empty
    opened, made = Session.reset, dict[tuple[int, ...], Array]()
    place = 0

    def wrong_reset(session: Session) -> None:
        nonlocal place
        place = 0
        opened(session)

    def wrong(_: type[RowStore], width: int, capacity: int, window: int | None, slack: int) -> RowStore:
        nonlocal place
        place += 1
        store = right(width, capacity, window, slack)
        return replace(store, storage=made.setdefault((place, *store.storage.shape), store.storage))

    def wrong_writable(store: RowStore) -> RowStore:
        return store

    patch.replace((Session, "reset"), wrong_reset)
    patch.replace((RowStore, "empty"), wrong)
    patch.replace((RowStore, "writable"), wrong_writable)


@_memory("cache.allocation-counted", "what is allocated is counted as held", "cache.formula", workloads=run(DENSE))
def _allocation_counted(patch: Patch) -> None:
    """Every cache looks full from the first token on."""
    _counted(patch, changed="allocated")


@_memory(
    "cache.slack-counted", "rows kept for rolling back are counted as live", "cache.formula", workloads=run(WINDOWED)
)
def _slack_counted(patch: Patch) -> None:
    """Only a layer with a window has any."""
    _counted(patch, changed="slack")


@_memory(
    "cache.later-heads-exchanged",
    "the cached path gives later heads in another order",
    "spec.cache run.decode",
    kinds="P10",
    workloads=run("cai.multi-token"),
)
def _heads_exchanged(patch: Patch) -> None:
    """The first head is right, so that only guesses show it."""
    # Give the logits of later heads in the opposite order; the first head stays.
    right = Session.feed

    def wrong(session: Session, ids: Sequence[int]) -> list[Array]:
        heads = right(session, ids)
        return [heads[0], *heads[:0:-1]]

    patch.replace((Session, "feed"), wrong)


@_memory(
    "cache.later-heads-behind",
    "the cached path gives later heads the row before",
    "mtp.self",
    seen_in="vllm-project/vllm#14649",
    kinds="P10",
    workloads=given("cai.multi-token"),
)
def _heads_behind(patch: Patch) -> None:
    """They guess from the token before the newest one. One token a call hides it, and the first head is right."""
    # Give later heads the row of the token before; the first head stays.
    right = Session._computed

    def wrong(session: Session, ids: Sequence[int]) -> tuple[list[Array], tuple[LayerState, ...]]:
        heads, states = right(session, ids)
        return [heads[0], *(np.roll(rows, 1, axis=0) for rows in heads[1:])], states

    patch.replace((Session, "_computed"), wrong)


@_memory(
    "cache.newest-row-only",
    "every token of a call is answered by the newest row",
    "gen.given kv.cuts spec.rows",
    workloads=given(DENSE, "cai.speculative"),
)
def _last_rows_only(patch: Patch) -> None:
    """A call gives one row, and whoever verifies guesses reads it for all of them. One token a call hides it."""
    # Answer with the newest row for every token of a call.
    right = Session.feed

    def wrong(session: Session, ids: Sequence[int]) -> list[Array]:
        return [np.broadcast_to(rows[-1], rows.shape) for rows in right(session, ids)]

    patch.replace((Session, "feed"), wrong)


CACHE: Final = tuple(_cache)
"""What is wrong with a session."""

MEMORY: Final = tuple(_memory)
"""What is wrong with memory, counts and answers of a session whose computation is right."""
