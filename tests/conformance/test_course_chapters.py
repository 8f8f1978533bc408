"""The later chapters of the course: the published traces, byte for byte, and evidence that can come out otherwise."""

from __future__ import annotations

import hashlib
from dataclasses import replace

import numpy as np
import pytest

from cai_conformance.course import CHAPTERS, Comparison, CourseCorpus, chapter_bytes, compared, find_chapter
from cai_conformance.course import small_decoder as small
from cai_conformance.course.chapter_33 import selection_rejects_test
from cai_conformance.course.errors import UnknownChapter
from cai_conformance.course.records import Separator, fixed, fixed_list, record, trace_bytes, unsigned_list
from cai_conformance.course.watching import counted_evaluation, recorded_nodes, same_bits, watched_run
from cai_conformance.errors import FixtureError
from cai_reference.arithmetic import LIBM, STRICT, named
from cai_reference.autograd import Parameter, Tape, add, backward, multiply
from cai_reference.checkpoints.course import course_checksum
from cai_reference.training.selection import SelectionPlan
from support_course_fixtures import needs_published_functions

PUBLISHED = {
    # chapter: bytes and SHA-256 of the course's own diagram-trace.txt
    33: (3000, "97b90e3e25963366ecd2edd7290436ba05bc8023d414191ef685f2fc9f7f4b12"),
    34: (1152, "6b1feff3d91df4c2c1ee0440c018afb68af7eb07e1571c5358f91db35c2af023"),
    36: (3629, "5e1590fcb8acde67429ddb59e11ca8c8e1c1a43f78267c772da80fb7a7065f08"),
}
CHECKPOINT = (6330, 0x2B8B6097EAED6A91)
ARITHMETICS = [pytest.param("libm/1", marks=needs_published_functions), "strict/1"]


def size_and_digest(data: bytes) -> tuple[int, str]:
    """Return what is pinned of a published trace."""
    return len(data), hashlib.sha256(data).hexdigest()


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

    def test_chapters_are_found_by_number(self) -> None:
        """And what there is not is named with what there is."""
        assert [33, 34, 35, 36] == list(CHAPTERS)
        with pytest.raises(UnknownChapter) as caught:
            find_chapter(31)
        assert (31, "33, 34, 35, 36") == (caught.value.number, caught.value.known)


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
        assert selection_rejects_test(STRICT)
        monkeypatch.setattr(SelectionPlan, "_check_epochs", lambda *_: None)
        assert not selection_rejects_test(STRICT)

    def test_other_inputs_give_another_trace(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """A seed of 34 for the order of the batches and the initial values."""
        monkeypatch.setattr(small, "SEED", 34)
        monkeypatch.setattr(small, "selected_run", small.selected_run.__wrapped__)
        lines = chapter_bytes(find_chapter(33), STRICT).decode().splitlines()
        assert "CONFIG|seed=34" == lines[1][:14]
        assert "train_loss=2.453998" not in lines[7]
        assert "replay_bitwise=true" in lines[-2]


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
        assert Comparison("line 1, field y", "a x=1 y=[1,2]", "a x=1 y=[1,3]") == found

    def test_bytes(self) -> None:
        """The offset, and both values."""
        assert Comparison("byte 1", "0x62", "0x63") == compared(b"ab", b"ac", is_text=False)
        assert Comparison("byte 1", "0x62", "nothing: the file ends before") == compared(b"ab", b"a", is_text=False)


class TestCorpus:
    """What chapter 39 is given."""

    @pytest.mark.parametrize(("corpus", "stage"), [(b"[]", "Corpus"), (b"x", "Corpus")])
    def test_what_is_no_corpus(self, corpus: bytes, stage: str) -> None:
        """The stage that found it is named."""
        with pytest.raises(FixtureError) as caught:
            CourseCorpus.of(corpus, b"{}")
        assert stage == caught.value.stage
