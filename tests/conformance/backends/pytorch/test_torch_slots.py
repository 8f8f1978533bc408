"""Slots of PyTorch's engine: caches, batches, cuts, copies, poison, failures."""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pytest

from cai_conformance.engine import Piece, Refused
from cai_reference.arithmetic import Array
from support_foreign_engines import DECODERS, distance, drawn, fed_afresh, feed

if TYPE_CHECKING:
    from cai_conformance.backends.torch.engine import TorchEngine

Folder = Callable[[str], Path]

CLOSE = 1e-12
"""What another shape of a product changes in logits of order 10; measured are 1e-14."""
MIXERS = [
    "llama.gqa-window",
    "cai.grouped-hybrid",
    pytest.param("llama.dense", marks=pytest.mark.exhaustive),
    pytest.param("cai.local-global", marks=pytest.mark.exhaustive),
]
"""Windows; a latent and states; keys and values of everything; a window beside everything."""


class TestCaches:
    """What is remembered stands for what was fed."""

    @pytest.mark.parametrize("suite", DECODERS)
    def test_token_by_token_is_all_at_once(self, engine: TorchEngine, folder: Folder, suite: str) -> None:
        """Beyond every window."""
        engine.load(folder(suite))
        ids = drawn(24, 6)
        whole = fed_afresh(engine, ids)
        engine.clear(0)
        single = [feed(engine, [token], place) for place, token in enumerate(ids)]
        assert distance(np.concatenate(single, axis=1), whole) <= CLOSE

    @pytest.mark.parametrize("suite", MIXERS)
    def test_a_ragged_batch_is_each_piece_alone(self, engine: TorchEngine, folder: Folder, suite: str) -> None:
        """Of other lengths, on other pasts, from other positions, at once; and what follows is what would follow."""
        engine.load(folder(suite))
        pasts = {0: (drawn(21, 1), 0), 1: ((), 7), 2: (drawn(3, 2), 3000), 5: (drawn(11, 3), 0)}
        news = {0: (17,), 1: drawn(13, 4), 2: (8, 9), 5: drawn(6, 5)}
        alone: dict[int, Array] = {}
        later: dict[int, Array] = {}
        for slot, (ids, start) in pasts.items():
            if ids:
                fed_afresh(engine, ids, start, slot=9)
            else:
                engine.clear(9)
            alone[slot] = feed(engine, news[slot], start + len(ids), slot=9)
            later[slot] = feed(engine, (44,), start + len(ids) + len(news[slot]), slot=9)
        for slot, (ids, start) in pasts.items():
            if ids:
                feed(engine, ids, start, slot)
        pieces = [
            Piece(slot, start + len(ids), news[slot], tuple(range(len(news[slot]))))
            for slot, (ids, start) in pasts.items()
        ]
        for piece, found in zip(pieces, engine.evaluate(pieces), strict=True):
            assert distance(found.logits, alone[piece.slot]) <= CLOSE, piece.slot
        for piece in pieces:
            end = piece.position + len(piece.tokens)
            assert distance(feed(engine, (44,), end, piece.slot), later[piece.slot]) <= CLOSE, piece.slot

    def test_a_cleared_slot_is_new(self, engine: TorchEngine, folder: Folder) -> None:
        """Whatever it held, and wherever the next sequence starts."""
        engine.load(folder("cai.local-global"))
        first = fed_afresh(engine, drawn(10, 1), 3000, slot=3)
        feed(engine, drawn(30, 2)[1:], 3010, slot=3)
        assert first.tobytes() == fed_afresh(engine, drawn(10, 1), 3000, slot=3).tobytes()

    def test_what_a_cache_takes_is_claimed(self, engine: TorchEngine, folder: Folder) -> None:
        """A window of 7 keeps 6 rows and 8 for cuts, of keys and values, 24 wide, beside 48 rows of the other layer."""
        loaded = engine.load(folder("cai.local-global"), "float32")
        assert 2 * 24 * (14 + 48) * 4 == loaded.claimed["cache_bytes"]


class TestCuts:
    """A cut is as if the rest had never been fed, or it is refused."""

    @pytest.mark.parametrize("suite", MIXERS)
    def test_what_follows_a_cut_is_what_followed(self, engine: TorchEngine, folder: Folder, suite: str) -> None:
        """As far back as every layer goes; the rows of what was dropped are overwritten or never looked at."""
        engine.load(folder(suite))
        ids, other = drawn(20, 7), drawn(9, 8)[1:]
        fed_afresh(engine, ids)
        expected = feed(engine, other, 20)
        engine.drop(0, 20)
        assert expected.tobytes() == feed(engine, other, 20).tobytes()
        engine.drop(0, 20, 28)
        engine.drop(0, 20)
        assert expected.tobytes() == feed(engine, other, 20).tobytes()

    def test_a_full_cache_is_cut_anywhere(self, engine: TorchEngine, folder: Folder) -> None:
        """To nothing, too; then a sequence may start elsewhere."""
        engine.load(folder("llama.dense"))
        ids = drawn(20, 7)
        fed_afresh(engine, ids, 50)
        engine.drop(0, 53)
        assert distance(feed(engine, ids[3:], 53), fed_afresh(engine, ids, 50, slot=1)[:, 3:]) <= CLOSE
        engine.drop(0, 50)
        feed(engine, ids, 9)

    @pytest.mark.parametrize("suite", ["llama.gqa-window", "cai.hybrid"])
    def test_what_is_gone_cannot_be_returned_to(self, engine: TorchEngine, folder: Folder, suite: str) -> None:
        """Eight tokens can always be dropped, the ninth no longer; the slot goes on as it was."""
        engine.load(folder(suite))
        ids = drawn(30, 9)
        fed_afresh(engine, ids, 100)
        feed(engine, ids, 100, slot=1)
        with pytest.raises(Refused, match="layer 0 no longer holds what position 121 looks back at"):
            engine.drop(0, 121)
        assert feed(engine, [5], 130).tobytes() == feed(engine, [5], 130, slot=1).tobytes()
        engine.drop(0, 123)
        with pytest.raises(Refused, match="no longer holds"):
            engine.drop(0, 122)

    def test_other_ranges_are_refused(self, engine: TorchEngine, folder: Folder) -> None:
        """In the middle, outside, of an empty slot."""
        engine.load(folder("llama.dense"))
        with pytest.raises(Refused, match="slot 0 is empty"):
            engine.drop(0, 0)
        fed_afresh(engine, drawn(5, 1), 10)
        with pytest.raises(
            Refused, match="PyTorch on cpu refuses a cut: slot 0 can be cut at its end, position 14, only"
        ):
            engine.drop(0, 10, 12)
        for first in (9, 16):
            with pytest.raises(Refused, match=f"holds the positions 10 … 14, not {first}"):
                engine.drop(0, first)


class TestCopies:
    """Two slots with one past."""

    @pytest.mark.parametrize("suite", MIXERS)
    def test_a_copy_goes_its_own_way(self, engine: TorchEngine, folder: Folder, suite: str) -> None:
        """Neither sees what the other is fed."""
        engine.load(folder(suite))
        ids = drawn(12, 3)
        fed_afresh(engine, ids, 40)
        expected = []
        for token in (7, 8):
            expected.append(feed(engine, [token], 52).tobytes())
            engine.drop(0, 52)
        feed(engine, drawn(30, 4), 0, slot=2)
        engine.copy(0, 2)
        assert [feed(engine, [7], 52).tobytes(), feed(engine, [8], 52, slot=2).tobytes()] == expected

    def test_a_copy_of_nothing_is_nothing(self, engine: TorchEngine, folder: Folder) -> None:
        """The target may start anywhere then."""
        engine.load(folder("llama.dense"))
        fed_afresh(engine, (0, 4), 0, slot=1)
        engine.copy(0, 1)
        feed(engine, (0, 4), 77, slot=1)


class TestPoison:
    """Memory that no position owns may hold anything."""

    @pytest.mark.parametrize("suite", MIXERS)
    @pytest.mark.parametrize("value", [math.nan, 1e30])
    def test_what_no_position_owns_is_never_seen(
        self, engine: TorchEngine, folder: Folder, suite: str, value: float
    ) -> None:
        """In a batch of short and long sequences, after cuts and copies, in fresh slots; not in one bit."""
        runs: list[bytes] = []
        for poisoned in (False, True):
            engine.load(folder(suite))
            if poisoned:
                engine.poison(value)
            fed_afresh(engine, drawn(30, 1))
            feed(engine, drawn(4, 2), 0, slot=1)
            engine.drop(0, 25)
            engine.copy(1, 2)
            if poisoned:
                engine.poison(value)
            pieces = [Piece(slot, position, (5, 6), (0, 1)) for slot, position in ((0, 25), (1, 4), (2, 4), (3, 0))]
            runs.append(b"".join(found.logits.tobytes() for found in engine.evaluate(pieces)))
        assert runs[0] == runs[1]

    def test_what_a_position_owns_is_left_alone(self) -> None:
        """And everything else is filled."""
        torch = pytest.importorskip("torch", reason="torch is not installed")
        from cai_conformance.backends.torch.cache import LayerCache, Remembered

        cache = LayerCache(Remembered(None, {"row": (2,)}), 2, 4, torch.float64, torch.device("cpu"))
        cache.store(1, 0, {"row": torch.ones(3, 2, dtype=torch.float64)})
        cache.cut(1, 2)
        cache.poison(9.0)
        (buffer,) = (getattr(cache, name)["row"] for name in ("_buffers",))
        assert [[9.0] * 4, [1.0, 1.0, 9.0, 9.0]] == buffer[..., 0].tolist()
        assert [[0.0, 0.0], [1.0, 1.0]] == cache.past(torch.tensor([0, 1]), 2).rows["row"][..., 1].tolist()


class TestFailures:
    """A call that raises leaves everything as it was."""

    @pytest.mark.parametrize("suite", MIXERS)
    @pytest.mark.parametrize("blocks", [1, 2])
    def test_a_failure_in_the_middle_loses_nothing(
        self, engine: TorchEngine, folder: Folder, suite: str, blocks: int
    ) -> None:
        """The same call succeeds afterwards, with the bits of an engine that never failed."""
        engine.load(folder(suite))
        ids = drawn(20, 3)
        fed_afresh(engine, ids)
        expected = feed(engine, ids[1:9], 20).tobytes()
        fed_afresh(engine, ids)
        engine.fail_after(blocks)
        with pytest.raises(Refused, match=f"it was told to fail behind {blocks} blocks"):
            feed(engine, ids[5:15], 20)
        assert expected == feed(engine, ids[1:9], 20).tobytes()

    def test_what_does_not_fit_is_refused(self, engine: TorchEngine, folder: Folder) -> None:
        """Before anything is computed, in words."""
        engine.load(folder("cai.multi-token"))
        feed(engine, (0, 5))
        pieces = {
            "slot 0 goes on at position 2, not 3": [Piece(0, 3, (4,), (0,))],
            "320 is none of the ids 0 … 319": [Piece(1, 0, (4,), (0,)), Piece(0, 2, (320,), (0,))],
            "two pieces are for one slot": [Piece(1, 0, (4,), ()), Piece(1, 0, (5,), ())],
            "there are no tokens for slot 1": [Piece(1, 0, (), ())],
            r"\[1, 0\] are not ascending places of 2 tokens": [Piece(1, 0, (4, 5), (1, 0))],
            "there are the slots 0 … 15, not 16": [Piece(16, 0, (4,), ())],
            "49 tokens are more than the context of 48": [Piece(0, 2, (4,) * 47, ())],
            "there is no position -1": [Piece(1, -1, (4,), ())],
        }
        for text, wrong in pieces.items():
            with pytest.raises(Refused, match=f"PyTorch on cpu refuses a call: {text}"):
                engine.evaluate(wrong)
        feed(engine, (4,) * 46, 2)
        assert () == engine.evaluate([])

    def test_without_a_model_everything_is_refused(self, engine: TorchEngine) -> None:
        """There is nothing to ask."""
        with pytest.raises(Refused, match="PyTorch on cpu refuses to empty a slot: no model is loaded"):
            engine.clear(0)
        with pytest.raises(Refused, match="refuses a copy: no model is loaded"):
            engine.copy(0, 1)
        with pytest.raises(Refused, match="refuses to poison: no model is loaded"):
            engine.poison(0.0)

    def test_more_blocks_than_there_are_are_refused(self, engine: TorchEngine, folder: Folder) -> None:
        """It would never fail."""
        engine.load(folder("llama.dense"))
        with pytest.raises(Refused, match="the model has 2 blocks, not 3"):
            engine.fail_after(3)
