"""Texts continued by nets: samplers by name, texts to stop at, whole characters, which nets are streamed."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cai_neural_api.chat import Characters, ChatContinuation, Drawing, SamplerSettings, StopWatch, Writer
from cai_neural_api.choices import SamplerKind, Semantics
from cai_neural_api.errors import ChatInputError, LegacyError
from cai_neural_api.format import parse_net
from cai_neural_api.initialization import initialize
from cai_neural_api.mersenne import MersenneTwister
from cai_neural_api.net.graph import Net
from cai_neural_api.sampling import LibraryGreedy
from cai_neural_api.tokenizer import Vocabulary
from cai_reference.arithmetic.instances import FAST, STRICT
from support_cai_block import CaiConfiguration, build_cai_example
from support_nn_file import KINDS, SAMPLES, needs_samples
from support_refusals import refuses
from support_text_net import ENTRIES, KNOWN, text_net, write_text_net

ROW = np.array([0.1, 0.4, 0.2, 0.25, 0.05])
GREEDY = SamplerSettings()


def writer(net: Net | None = None) -> Writer:
    """Return a writer of the forced net, or another one, with the vocabulary of the forced one."""
    return Writer(net or text_net(), Vocabulary(ENTRIES), STRICT)


def continued(
    text: bytes, new_tokens: int | None = None, stops: tuple[bytes, ...] = ()
) -> tuple[ChatContinuation, list[bytes]]:
    """Continue a text greedily, and return the pieces that came."""
    who = writer()
    made = ChatContinuation(who, who.prompt(text), Drawing.of(GREEDY, KNOWN, STRICT), new_tokens, stops)
    return made, list(made.pieces())


class TestDrawing:
    """Samplers by name."""

    @pytest.mark.parametrize("kind", list(SamplerKind))
    @pytest.mark.parametrize("semantics", list(Semantics))
    def test_the_same_seed_gives_the_same_tokens(self, kind: SamplerKind, semantics: Semantics) -> None:
        """Whichever sampler it is."""
        k = 3 if kind is SamplerKind.TOP_K else None
        drawings = [Drawing.of(SamplerSettings(kind, semantics, k=k, seed=4), 5, STRICT) for _ in range(2)]
        first, second = ([drawing.sampler.choose(ROW) for _ in range(30)] for drawing in drawings)
        assert first == second
        assert drawings[0].draws == drawings[1].draws
        expected = 0 if kind is SamplerKind.GREEDY else 30
        assert expected == len(drawings[0].draws)

    def test_the_library_draws_words_of_the_mersenne_twister(self) -> None:
        """With the classic seeding; top-k spreads a word evenly over the k likeliest."""
        drawing = Drawing.of(SamplerSettings(SamplerKind.TOP_K, k=3, seed=9), 5, STRICT)
        chosen = [drawing.sampler.choose(ROW) for _ in range(6)]
        words = np.frombuffer(np.random.RandomState(9).bytes(24), "<u4").tolist()
        assert words == drawing.draws
        assert [(1, 3, 2)[word * 3 >> 32] for word in words] == chosen

    def test_the_standard_samplers_draw_doubles_of_splitmix(self) -> None:
        """The first output of seed 0 is published; a draw falls into the sums of probabilities, in the order of ids."""
        drawing = Drawing.of(SamplerSettings(SamplerKind.TOP_P, Semantics.STANDARD, p=1.0), 5, STRICT)
        chosen = drawing.sampler.choose(ROW)
        assert [(0xE220A8397B1DCDAF >> 11) * 2.0**-53] == drawing.draws
        assert 3 == chosen  # 0.8833 lies between 0.7 and 0.95

    def test_a_temperature_sharpens(self) -> None:
        """Near zero, only the likeliest token is left."""
        cold = SamplerSettings(SamplerKind.TOP_P, Semantics.STANDARD, p=1.0, temperature=0.01)
        drawing = Drawing.of(cold, 5, STRICT)
        assert {1} == {drawing.sampler.choose(ROW) for _ in range(50)}

    def test_singles_and_doubles_have_different_largest_values(self) -> None:
        """Probabilities that are equal as singles are a tie for the library alone."""
        row = np.array([0.5, 0.5 + 1e-12])
        library, standard = (
            Drawing.of(SamplerSettings(semantics=semantics), 2, STRICT).sampler.choose(row) for semantics in Semantics
        )
        assert (0, 1) == (library, standard)

    @pytest.mark.parametrize(
        ("given_settings", "sentence"),
        [
            ({"k": 3}, "--k has no effect on --sampler greedy"),
            ({"p": 0.5, "kind": SamplerKind.TOP_K}, "--p has no effect on --sampler top-k"),
            ({"q": 0.5, "kind": SamplerKind.TOP_P}, "--q has no effect on --sampler top-p"),
            ({"temperature": 2.0}, "--temperature has no effect on --sampler greedy"),
            (
                {"temperature": 2.0, "kind": SamplerKind.MIN_P},
                "--temperature has no effect on the library's samplers; --semantics standard has one",
            ),
        ],
    )
    def test_numbers_without_an_effect_are_refused(self, given_settings: dict[str, object], sentence: str) -> None:
        """They would be a misunderstanding."""
        with refuses(ChatInputError, "setting-unused") as caught:
            SamplerSettings(**given_settings)  # type: ignore[arg-type]  # from a table
        assert sentence == str(caught.value)

    def test_seeds_are_not_cut(self) -> None:
        """The library's generator has 32 bits, the other one 64."""
        assert 2**32 == SamplerSettings(semantics=Semantics.STANDARD, seed=2**32).seed
        with refuses(ChatInputError, "seed-beyond-generator"):
            SamplerSettings(seed=2**32)

    def test_a_top_k_beyond_the_net_is_refused_at_once(self) -> None:
        """By the library's sampler; the standard one keeps all."""
        with refuses(LegacyError, "top-k-beyond-row"):
            Drawing.of(SamplerSettings(SamplerKind.TOP_K, k=6), 5, STRICT)
        assert (
            Drawing.of(SamplerSettings(SamplerKind.TOP_K, Semantics.STANDARD, k=6), 5, STRICT).sampler.choose(ROW) < 5
        )


class TestStopWatch:
    """Texts to stop at."""

    @pytest.mark.parametrize(
        ("stops", "pieces", "shown", "stopped"),
        [
            ((), ["ab", "c"], ["ab", "c", ""], False),
            (("cd",), ["abc", "de"], ["ab", "", ""], True),
            (("cd",), ["abc", "ef"], ["ab", "cef", ""], False),
            (("cd",), ["abc"], ["ab", "c"], False),
            (("b", "ab"), ["xaby"], ["x", ""], True),
            (("aab",), ["a", "a", "a", "b"], ["", "", "a", "", ""], True),
            (("abc", "b"), ["a", "b"], ["", "a", ""], True),
            (("a",), ["xa", "y"], ["x", "", ""], True),
        ],
    )
    def test_bytes_pass_up_to_the_first_of_them(
        self, stops: tuple[str, ...], pieces: list[str], shown: list[str], stopped: bool
    ) -> None:
        """What may be its start is held back; the last entry is what the end sets free."""
        watch = StopWatch([stop.encode() for stop in stops])
        assert [text.encode() for text in shown] == [*(watch.push(piece.encode()) for piece in pieces), watch.finish()]
        assert stopped is watch.stopped

    @given(
        text=st.binary(max_size=30).map(lambda data: bytes(byte % 3 + 97 for byte in data)),
        stop=st.text("abc", min_size=1, max_size=4).map(str.encode),
        cuts=st.lists(st.integers(1, 5), max_size=30),
    )
    @settings(max_examples=40, deadline=None)
    def test_a_single_text_ends_it_however_bytes_are_cut(self, text: bytes, stop: bytes, cuts: list[int]) -> None:
        """All that stands before it passes, and nothing else."""
        watch, shown, place = StopWatch([stop]), b"", 0
        for size in (*cuts, len(text)):
            shown += watch.push(text[place : place + size])
            place += size
        shown += watch.finish()
        assert (text.split(stop)[0], stop in text) == (shown, watch.stopped)

    def test_an_empty_one_is_refused(self) -> None:
        """It stands everywhere."""
        with refuses(ChatInputError, "empty-stop-text"):
            StopWatch([b"a", b""])


class TestCharacters:
    """What may be shown."""

    def test_no_character_is_split(self) -> None:
        """Its bytes are held back until it is complete."""
        characters = Characters()
        pieces = [characters.push(bytes([byte])) for byte in "é€😀a".encode()]
        assert ["", "é", "", "", "€", "", "", "", "😀", "a"] == pieces
        assert "" == characters.finish()

    def test_what_is_no_character_is_marked(self) -> None:
        """In the middle, and at the end."""
        characters = Characters()
        assert ["\ufffda", "b", "\ufffd"] == [
            characters.push(b"\xffa"),
            characters.push(b"b\xe2\x82"),
            characters.finish(),
        ]

    def test_nothing_disturbs_a_terminal(self) -> None:
        """But for what is kept, everything that is not printed is spelt."""
        assert r"\x1b[2J\n\t\u202e" == Characters().push("\x1b[2J\n\t\u202e".encode())
        assert "\\x1b\n\t" == Characters("\n\t").push(b"\x1b\n\t")


class TestContinuation:
    """A text in the making."""

    def test_pieces_come_a_token_at_a_time(self) -> None:
        """An id that ends the text is among the ids, and not in the text."""
        made, pieces = continued(b"the")
        assert [b" ", b"cat", b" sat", b".", b"", b""] == pieces
        assert ([32, 129, 128, 46, 1], [None] * 5, b" cat sat.", "end-token") == (
            made.ids,
            made.draws,
            made.text,
            made.end,
        )

    @pytest.mark.parametrize(
        ("prompt", "new_tokens", "stops", "text", "end"),
        [
            (b"the", 2, (), b" cat", "limit"),
            (b"the", 99, (b"at s",), b" c", "stop-text"),
            (b"the", 4, (b".",), b" cat sat", "stop-text"),
            (b"the", 3, (b"satyr",), b" cat sat", "limit"),
            (b"xxxxxxxxxx", None, (), b"xx", "context"),
            (b"xxxxxxxxxx", 2, (), b"xx", "limit"),
            (b"the", 5, (), b" cat sat.", "end-token"),
            (b"a", None, (), "é!\n\x1b".encode(), "end-token"),
        ],
    )
    def test_it_ends_for_one_reason(
        self, prompt: bytes, new_tokens: int | None, stops: tuple[bytes, ...], text: bytes, end: str
    ) -> None:
        """An end token goes before the budget, that before the context; ids beyond the vocabulary add no text."""
        made, _ = continued(prompt, new_tokens, stops)
        assert (text, end) == (made.text, made.end)

    def test_a_prompt_is_not_searched_for_texts_to_stop_at(self) -> None:
        """Not even in part."""
        made, _ = continued(b"the", stops=(b"the", b"e cat"))
        assert b" cat sat." == made.text

    def test_what_nobody_asks_for_is_not_made(self) -> None:
        """After two pieces there are two ids, and no end yet."""
        who = writer()
        made = ChatContinuation(who, who.prompt(b"the"), Drawing.of(GREEDY, KNOWN, STRICT))
        pieces = made.pieces()
        assert [b" ", b"cat"] == [next(pieces), next(pieces)]
        assert ([32, 129], "") == (made.ids, made.end)


class TestPrompts:
    """What the tokenizer makes of a prompt."""

    @pytest.mark.parametrize(
        ("text", "loss"),
        [
            (b"the cat", ""),
            (b"The cat", "the net reads 'the cat': the tokenizer ignores the case of whole words"),
            (b"The cAT", "the net reads 'the cat': the tokenizer ignores the case of whole words"),
            (b"T h", ""),
            ("né".encode(), "the net reads 'n': the tokenizer knows no characters beyond ASCII"),
        ],
    )
    def test_what_is_lost_is_told(self, text: bytes, loss: str) -> None:
        """And nothing where nothing is lost; the text itself stays."""
        prompt = Writer(text_net(256), Vocabulary(ENTRIES), STRICT).prompt(text)
        assert (text, loss) == (prompt.text, prompt.loss)


class TestStreaming:
    """Which nets are streamed, and that it makes no difference."""

    @needs_samples
    @pytest.mark.parametrize("kind", [kind for kind in KINDS if kind != "mtp"])
    def test_samples_are_continued_as_by_encoding_again(self, kind: str) -> None:
        """The draft, too, whose token shift the library's session forgets."""
        who = Writer(Net.from_file(parse_net((SAMPLES / f"{kind}.nn").read_bytes())), Vocabulary(ENTRIES), FAST)
        assert who.streams
        for each in json.loads((SAMPLES / f"{kind}.json").read_text("ascii"))["decode"]:
            new = [step.token for step in who.steps(each["prompt"], None, LibraryGreedy())]
            assert each["greedy_full"] == [*each["prompt"], *new]

    @pytest.mark.parametrize("new_tokens", [1, 3, None])
    def test_a_net_that_needs_the_whole_context_gets_it(self, new_tokens: int | None) -> None:
        """The library's own blocks multiply whole sequences; the budget holds all the same."""
        specs = build_cai_example(CaiConfiguration(vocabulary=16, context=6, width=8, heads=2, intermediate=8))
        who = writer(Net.from_file(initialize(specs, MersenneTwister(2))))
        assert not who.streams
        steps = list(who.steps((3, 5), new_tokens, LibraryGreedy()))
        net, ids = who.net, [3, 5]
        while len(ids) < 6 and ids[-1] > 1 and (new_tokens is None or len(ids) < 2 + new_tokens):
            ids.append(int(np.argmax(net.output(STRICT, [[*ids, *[0] * (6 - len(ids))]])[0, len(ids) - 1])))
        assert ids[2:] == [step.token for step in steps]
        assert [None] * (len(steps) - 1) == [step.end for step in steps[:-1]]
        assert steps[-1].end is not None

    def test_files_are_read(self, tmp_path: Path) -> None:
        """A net and its vocabulary."""
        files = write_text_net(tmp_path)
        who = Writer.load(files.net, files.vocabulary, STRICT)
        assert (KNOWN, ENTRIES, True) == (who.known, who.vocabulary.entries, who.streams)
