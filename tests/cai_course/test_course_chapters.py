"""The later chapters of the course: the published traces, byte for byte, and evidence that can come out otherwise."""

from __future__ import annotations

import hashlib
from dataclasses import replace

import numpy as np
import pytest

from cai_conformance.errors import ConformanceError, FixtureError, InputError
from cai_course import chapter_32, chapter_37, chapter_38
from cai_course import chapter_39 as capstone
from cai_course import small_decoder as small
from cai_course.caches import (
    CacheWork,
    CourseLayerCache,
    DecoderCache,
    PositionedAttention,
    complete_prefix,
    complete_scores,
)
from cai_course.chapter_33 import selection_rejects_test
from cai_course.chapter_39 import CourseCorpus
from cai_course.chapters import CHAPTERS, ChapterComparison, chapter_bytes, compared, find_chapter
from cai_course.checkpoint import course_checksum
from cai_course.errors import CourseError, Refusal
from cai_course.records import Separator, fixed, fixed_list, quoted, record, trace_bytes, unsigned_list
from cai_course.watching import counted_evaluation, recorded_nodes, same_bits, watched_run
from cai_reference.arithmetic import Arithmetic, Array
from cai_reference.arithmetic.instances import FAST, LIBM, STRICT, named
from cai_reference.autograd import Parameter, Tape
from cai_reference.autograd.backward import backward
from cai_reference.autograd.operations import add, multiply
from cai_reference.decoding.errors import SessionError
from cai_reference.layers.attention import GroupedQueryAttention
from cai_reference.models.llama import Llama
from cai_reference.splitmix import SplitMix64
from cai_reference.training.schedules import SteppedRate
from cai_reference.training.selection import SelectionPlan
from support_course import CORPUS, SPLITS, needs_corpus
from support_course_fixtures import needs_published_functions
from support_inputs import input_of
from support_refusals import raises, refuses

PUBLISHED = {
    # chapter: bytes and SHA-256 of the course's own diagram-trace.txt
    32: (2053, "2f8690228211e6ff6a5151ce9e88bc99834c6104e467539472bc5b5322f7082a"),
    33: (3000, "97b90e3e25963366ecd2edd7290436ba05bc8023d414191ef685f2fc9f7f4b12"),
    34: (1152, "6b1feff3d91df4c2c1ee0440c018afb68af7eb07e1571c5358f91db35c2af023"),
    36: (3629, "5e1590fcb8acde67429ddb59e11ca8c8e1c1a43f78267c772da80fb7a7065f08"),
    37: (3091, "8f4d8921018a048c0058c236443436380e0d05dc5c8487244c4ea523c9507fab"),
    38: (2020, "ce89d29fd448132514d171b7bd2201e6a385612224c75bb9c7eebcd6b0183e64"),
}
CAPSTONE = (2898, "5d48db48afaec8b1ff54083a640f5858fd6e59b7cac002dc8d0292922bc45d64")
CHECKPOINT = (6330, 0x2B8B6097EAED6A91)
ARITHMETICS = [pytest.param("libm/1", marks=needs_published_functions), "strict/1"]


def size_and_digest(data: bytes) -> tuple[int, str]:
    """Return what is pinned of a published trace."""
    return len(data), hashlib.sha256(data).hexdigest()


def course_corpus() -> CourseCorpus:
    """Return the corpus of the course."""
    return CourseCorpus.of(CORPUS.read_bytes(), SPLITS.read_bytes())


class TestPublishedBytes:
    """What the course publishes."""

    @pytest.mark.parametrize("arithmetic", ARITHMETICS)
    @pytest.mark.parametrize("number", PUBLISHED)
    def test_a_trace_is_as_published(self, number: int, arithmetic: str) -> None:
        """Byte for byte, with the C library and in defined bits."""
        data = chapter_bytes(find_chapter(number), named(arithmetic))
        assert PUBLISHED[number] == size_and_digest(data)

    @needs_published_functions
    def test_the_checkpoint_is_as_published(self) -> None:
        """Its 6,330 bytes, by their own checksum."""
        data = chapter_bytes(find_chapter(35), LIBM)
        assert CHECKPOINT == (len(data), course_checksum(data))
        assert CHECKPOINT[1] == int.from_bytes(data[30:38], "little")

    def test_the_checkpoint_has_other_last_bits_in_defined_arithmetic(self) -> None:
        """The same size, but doubles print all their digits."""
        data = chapter_bytes(find_chapter(35), STRICT)
        assert (6330, False) == (len(data), course_checksum(data) == CHECKPOINT[1])

    @pytest.mark.exhaustive
    @needs_corpus
    @needs_published_functions
    def test_the_capstone_is_as_published(self) -> None:
        """From the course's corpus, with the C library; two trainings."""
        data = chapter_bytes(find_chapter(39), LIBM, course_corpus())
        assert CAPSTONE == size_and_digest(data)

    @pytest.mark.exhaustive
    @needs_corpus
    @needs_published_functions
    def test_the_capstone_differs_in_two_fields_in_defined_arithmetic(self) -> None:
        """In the last decimals of the perplexity, and in the checksum of all bits."""
        ours, libm = (
            chapter_bytes(find_chapter(39), arithmetic, course_corpus()).decode().replace("\n", "|").split("|")
            for arithmetic in (STRICT, LIBM)
        )
        differing = [one.partition("=")[0] for one, other in zip(ours, libm, strict=True) if one != other]
        assert ["decoder_window_slot_perplexity", "checksum"] == differing

    def test_the_capstone_needs_a_corpus(self) -> None:
        """It has none of its own."""
        with refuses(InputError, "corpus-needed"):
            chapter_bytes(find_chapter(39), STRICT)

    def test_chapters_are_found_by_number(self) -> None:
        """And what there is not is named with what there is."""
        assert list(range(32, 40)) == list(CHAPTERS)
        with refuses(CourseError, "unknown-chapter") as caught:
            find_chapter(31)
        assert (31, "32, 33, 34, 35, 36, 37, 38, 39") == (caught.value.fields["number"], caught.value.fields["known"])


class TestWatching:
    """Chapter 33 says what happens on the way; it is looked up, and can come out otherwise."""

    def test_a_graph_is_counted_where_one_is_recorded(self) -> None:
        """Of operations only, each once; none after the sweep, and none in an evaluation."""
        model, _ = small.fresh()
        batch = small.sequential(small.epoch("train"), 2).batches[0]
        loss = model.loss(Tape(STRICT), batch)
        assert recorded_nodes(loss) > 30
        backward(loss)
        assert 0 == recorded_nodes(loss)
        assert 0 == recorded_nodes(model.loss(Tape(STRICT, recording=False), batch))
        assert 0 == counted_evaluation(model, small.sequential(small.epoch("train"), 5), STRICT)[1]

    def test_shared_results_count_once(self) -> None:
        """A sum that is used twice: two operations."""
        tape, x = Tape(STRICT), Parameter("x", np.array([1.0]))
        twice = add(tape, x, x)
        assert 2 == recorded_nodes(multiply(tape, twice, twice))

    def test_states_are_compared_in_every_bit(self) -> None:
        """One unit in the last place of one gain, and one step more."""
        run = small.selected_run(STRICT)
        assert same_bits(run.selected, run.final)
        *values, gain = run.final.values
        assert not same_bits(run.final, replace(run.final, values=(*values, np.nextafter(gain, 9.0))))
        assert not same_bits(run.final, replace(run.final, step=7))
        moved = replace(run.final.optimizer, beta1_power=run.final.optimizer.beta1_power * 0.9)
        assert not same_bits(run.final, replace(run.final, optimizer=moved))

    def test_the_watched_loop_makes_the_same_run(self) -> None:
        """And leaves what it was given alone."""
        model, optimizer = small.fresh()
        before = [parameter.value.tobytes() for parameter in model.parameters]
        watched = watched_run(small.selection_plan(), model, optimizer, STRICT)
        assert same_bits(small.selected_run(STRICT).final, watched.states[-1])
        assert (before, 0) == ([one.value.tobytes() for one in model.parameters], optimizer.state.step)

    def test_a_selection_that_takes_test_windows_is_seen(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """With the check taken out."""
        assert selection_rejects_test(FAST)
        monkeypatch.setattr(SelectionPlan, "_check_epochs", lambda *_: None)
        assert not selection_rejects_test(FAST)

    def test_other_inputs_give_another_trace(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """A seed of 34 for the order of the batches and the initial values, and two steps."""
        monkeypatch.setattr(small, "SEED", 34)
        monkeypatch.setattr(small, "RATES", SteppedRate(((0.04, 1), (0.5, 1))))
        monkeypatch.setattr(small, "CHECKPOINT_STEPS", (0, 1, 2))
        monkeypatch.setattr(small, "selected_run", small.selected_run.__wrapped__)
        lines = chapter_bytes(find_chapter(33), STRICT).decode().splitlines()
        assert lines[1].startswith("CONFIG|seed=34|updates=2|batch_size=2|context=2|validation_every=1|")
        assert "SCHEDULE|start=2|end=2|learning_rate=0.500000" == lines[4]
        assert not any("train_loss=2.453998" in line for line in lines[5:7])
        assert "replay_bitwise=true" in lines[-2]


def two_layers() -> Llama:
    """Return the decoder of chapter 32."""
    return Llama.initialize(chapter_32.configuration(), SplitMix64(chapter_32.SEED))


class TestDecoder:
    """Chapter 32: flags that can come out otherwise."""

    def test_a_wrong_gradient_is_seen(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """All of them a thousandth too large."""
        right = chapter_32._gradients_of

        def wrong(model: Llama, arithmetic: Arithmetic) -> dict[str, Array]:
            return {name: gradient * 1.001 for name, gradient in right(model, arithmetic).items()}

        monkeypatch.setattr(chapter_32, "_gradients_of", wrong)
        fields = dict(chapter_32._gradients(two_layers(), FAST).fields)
        assert ("24", "false", "20/20") == (fields["total"], fields["passed"], fields["stack_gradients"])

    def test_a_role_left_out_is_seen(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """The gradient of the head without that of the lookup."""
        right = chapter_32._roles

        def wrong(model: Llama, arithmetic: Arithmetic) -> tuple[Array, Array, Array]:
            tied, lookup, head = right(model, arithmetic)
            return tied, lookup * 0.0, head

        monkeypatch.setattr(chapter_32, "_roles", wrong)
        tying = dict(next(chapter_32._parameters(two_layers(), STRICT)).fields)
        assert "output" == tying["gradient_roles"]
        assert float(tying["decomposition_error"]) > 1e-3

    @pytest.mark.parametrize(
        ("row", "expected"), [((1.0, 3.0, 3.0, 2.0), 2), ((-0.0, 0.0, -0.0), 1), ((0.0, 0.0, -1.0), 1)]
    )
    def test_the_last_maximum_is_predicted(self, row: tuple[float, ...], expected: int) -> None:
        """With -0.0 below 0.0."""
        assert expected == chapter_32._last_maximum(row)


class TestLayerCache:
    """One token a call, for one layer."""

    def test_it_is_the_layer_over_the_whole_prefix_in_every_bit(self) -> None:
        """Also for weights that were drawn."""
        mixer = GroupedQueryAttention.initialize("a", 8, 2, 2, 4, chapter_37.ROPE, None, SplitMix64(5))
        layer, rows = PositionedAttention(mixer, 6), np.linspace(-1.0, 1.0, 48).reshape(6, 8)
        cache, weights = CourseLayerCache(layer, 6, STRICT), []
        for position in range(6):
            step = cache.step(layer, rows[position : position + 1])
            tape = Tape(STRICT, recording=False)
            whole = mixer(
                tape,
                tape.constant(rows[None, : position + 1]),
                observe=lambda name, value: weights.append(value.value) if name == "weights" else None,
            )
            assert whole.value[0, -1].tobytes() == step.output.tobytes()
            assert weights[-1][0, :, -1].tobytes() == step.weights.tobytes()

    def test_positions_end_before_the_capacity(self) -> None:
        """Whichever is smaller."""
        layer = replace(chapter_37.course_layer(), positions=2)
        cache = CourseLayerCache(layer, 4, STRICT)
        for _ in range(2):
            cache.step(layer, chapter_37.INPUT[:1])
        with refuses(ConformanceError, "cache-refused") as caught:
            cache.step(layer, chapter_37.INPUT[:1])
        assert (Refusal.FULL, 2) == (caught.value.fields["refusal"], cache.length)

    def test_a_cache_that_takes_anything_is_seen(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """With its checks taken out; a score that is not finite is refused by attention itself."""
        monkeypatch.setattr(CourseLayerCache, "_check", lambda *_: None)
        (line,) = (one for one in chapter_37.trace(STRICT).decode().splitlines() if one.startswith("ERRORS"))
        flags = dict(field.split("=") for field in line.split("|")[1:])
        assert {"nonfinite_projection": "true"} == {name: flag for name, flag in flags.items() if flag == "true"}


class TestDecoderCache:
    """A prompt, then a token a call, for one model."""

    @pytest.fixture
    def model(self) -> Llama:
        """Two layers, four positions."""
        return Llama.initialize(chapter_38.MODEL, SplitMix64(38))

    def test_it_is_the_whole_prefix_in_every_bit(self, model: Llama) -> None:
        """After every token."""
        cache = DecoderCache(model, STRICT)
        rows = [cache.prefill(model, (3, 1)), cache.decode(model, 4), cache.decode(model, 0)]
        for length, row in enumerate(rows, 2):
            assert complete_prefix(model, (3, 1, 4, 0)[:length], STRICT).logits.tobytes() == row.tobytes()

    def test_work_is_counted(self, model: Llama) -> None:
        """Three tokens, two layers, two heads; whole prefixes compute masked scores, too."""
        cache = DecoderCache(model, STRICT)
        cache.prefill(model, (0, 1))
        cache.decode(model, 2)
        assert CacheWork(2, 1, 3 * 2, 3 * 2 * 3, 2 * 2 * (1 + 2 + 3)) == cache.work
        assert 2 * 2 * 9 == complete_prefix(model, (0, 1, 2), STRICT).scores == complete_scores(chapter_38.MODEL, [3])

    def test_weights_that_have_changed_are_refused(self, model: Llama) -> None:
        """Cached keys would belong to other weights."""
        cache = DecoderCache(model, STRICT)
        cache.prefill(model, (0, 1))
        model.table.assign(model.table.value * 2.0)
        with refuses(ConformanceError, "cache-refused") as caught:
            cache.decode(model, 2)
        assert Refusal.CHANGED == caught.value.fields["refusal"]

    def test_a_prompt_that_fails_leaves_it_empty(self, model: Llama) -> None:
        """The second id is none; nor does a prompt fit that is too long."""
        cache = DecoderCache(model, STRICT)
        with raises(SessionError("token-out-of-range", index=0, token=9, vocabulary=5)):
            cache.prefill(model, (0, 9))
        assert (0, CacheWork()) == (cache.length, cache.work)
        with refuses(ConformanceError, "cache-refused") as caught:
            cache.prefill(model, (0,) * 5)
        assert (Refusal.FULL, 0) == (caught.value.fields["refusal"], cache.length)

    def test_a_cache_that_takes_any_model_is_seen(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """With the check taken out."""
        monkeypatch.setattr(DecoderCache, "_check_model", lambda *_: None)
        text = chapter_38.trace(STRICT).decode()
        assert "rebuilt_model=false|changed_config=false|unchanged=false" in text

    def test_a_cache_that_forgets_is_seen(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """A reset that allocates anew."""
        monkeypatch.setattr(DecoderCache, "reset", lambda self: self.session.reset())
        text = chapter_38.trace(STRICT).decode()
        assert "RESET|before=3|after=0|allocation_reused=false|storage_unchanged=false|work_zeroed=false" in text


class TestCapstone:
    """Chapter 39 on another corpus, so that nothing in it is the course's."""

    @pytest.fixture(scope="class")
    @staticmethod
    def records(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
        """The lines by kind, of three short documents; of the two SELECT lines the last."""
        files = input_of(tmp_path_factory.mktemp("corpus"), ("the fox and the dog and the cat", "the dog", "a fox"))
        corpus = CourseCorpus.of(files.corpus.read_bytes(), files.splits.read_bytes())
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(capstone, "UPDATES", 6)
            lines = chapter_bytes(find_chapter(39), STRICT, corpus).decode().splitlines()
        return {line.partition("|")[0]: line for line in lines}

    def test_the_corpus_is_read(self, records: dict[str, str]) -> None:
        """Names and numbers of documents; merges of the training text only."""
        assert "|train=1|validation=1|test=1|train_ids=a|validation_ids=b|test_ids=c" in records["DATA"]
        assert "|learned=8|vocabulary=266|training_only=true|training_ids=a|" in records["TOKENIZER"]

    def test_windows_follow_from_what_is_encoded(self, records: dict[str, str]) -> None:
        """Four fewer than ids; sixteen are one update."""
        encoded, windows = (
            [int(one) for one in records[kind].partition(f"|{name}=")[2].split("|")[0].split(",")]
            for kind, name in (("TOKENIZER", "encoded"), ("BATCHES", "windows"))
        )
        assert [one - 4 for one in encoded] == windows
        assert 4 * windows[2] == int(records["TEST"].partition("|window_target_slots=")[2].split("|")[0])
        assert f"|document_transition_occurrences={encoded[2] - 1}|" in records["TEST"]

    def test_everything_repeats(self, records: dict[str, str]) -> None:
        """Training, checkpoint, generation with the cache and without."""
        assert "TRAINING|updates=6|seed=39|replay_bitwise=true" == records["TRAINING"]
        assert 5 == records["CHECKPOINT"].count("=true")
        assert records["GENERATE"].endswith("tokens_exact=true|decisions_bitwise=true|rng_exact=true")


class TestRecords:
    """Lines and numbers."""

    def test_the_dialects(self) -> None:
        """A space or a bar; booleans in words; a line without fields."""
        records = (record("HEAD"), record("kind", one=1, two=True, three="x"))
        assert b"HEAD\nkind one=1 two=true three=x\n" == trace_bytes(Separator.SPACE, records)
        assert b"HEAD\nkind|one=1|two=true|three=x\n" == trace_bytes(Separator.BAR, records)

    def test_decimals_are_rounded_half_to_even(self) -> None:
        """Of the exact binary value."""
        assert "[0.12,0.38,-0.00,1000.00]" == fixed_list((0.125, 0.375, -0.001, 1e3), 2)

    def test_the_sign_of_zero(self) -> None:
        """It stays, unless a chapter takes it off; what is merely small keeps it."""
        assert ("-0.0", "[0.0,-0.0]") == (fixed(-0.0, 1), unsigned_list((-0.0, -1e-9), 1))

    @pytest.mark.parametrize(
        ("text", "expected"),
        [
            ("т  ", '"т  "'),
            ('a"\\', '"a\\"\\\\"'),
            ("\n\r\t\0", '"\\n\\r\\t\\0"'),
            ("\x1b\u200b", '"\\u{1b}\\u{200b}"'),
        ],
    )
    def test_quoted_text(self, text: str, expected: str) -> None:
        """As Rust prints it for debugging."""
        assert expected == quoted(text)


class TestComparing:
    """The first difference."""

    def test_equal_bytes(self) -> None:
        """No place."""
        assert compared(b"a\n", b"a\n", is_text=True).equal
        assert compared(b"\x00", b"\x00", is_text=False).equal

    @pytest.mark.parametrize(
        ("found", "place", "shown"),
        [
            (b"A|x=1|y=2\nB\n", "line 1, field y", "A|x=1|y=2"),
            (b"A|x=1|z=3\nB\n", "line 1", "A|x=1|z=3"),
            (b"A|x=1\nB\n", "line 1", "A|x=1"),
            (b"C|x=1|y=3\nB\n", "line 1", "C|x=1|y=3"),
            (b"A|x=1|y=3\n", "line 2", "nothing: the text ends before"),
            (b"A|x=1|y=3\nB\nC\n", "line 3", "C"),
            (b"A|x=1|y=3\nB", "line 2", "B without a line feed"),
            (b"A|x=1|y=3\r\nB\r\n", "line 1, field y", "A|x=1|y=3\\r\\n"),
            (b"A|x=1|y=\xff\nB\n", "line 1, field y", "A|x=1|y=\\xff"),
        ],
    )
    def test_texts(self, found: bytes, place: str, shown: str) -> None:
        """Line and field, and both lines."""
        comparison = compared(b"A|x=1|y=3\nB\n", found, is_text=True)
        assert (place, shown) == (comparison.place, comparison.found)

    def test_fields_between_spaces(self) -> None:
        """Chapter 32's dialect."""
        found = compared(b"a x=1 y=[1,2]\n", b"a x=1 y=[1,3]\n", is_text=True)
        assert ChapterComparison("line 1, field y", "a x=1 y=[1,2]", "a x=1 y=[1,3]") == found

    def test_bytes(self) -> None:
        """The offset, and both values."""
        assert ChapterComparison("byte 1", "0x62", "0x63") == compared(b"ab", b"ac", is_text=False)
        assert ChapterComparison("byte 1", "0x62", "nothing: the file ends before") == compared(
            b"ab", b"a", is_text=False
        )


class TestCorpus:
    """What chapter 39 is given."""

    @pytest.mark.parametrize(("corpus", "stage"), [(b"[]", "Corpus"), (b"x", "Corpus")])
    def test_what_is_no_corpus(self, corpus: bytes, stage: str) -> None:
        """The stage that found it is named."""
        with pytest.raises(FixtureError) as caught:
            CourseCorpus.of(corpus, b"{}")
        assert stage == caught.value.stage
