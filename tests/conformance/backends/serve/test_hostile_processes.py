"""Programs that hang, crash, fall silent or talk without end: each ends in time, with a sentence and its last words."""

from __future__ import annotations

import pytest

from cai_conformance.backends.serve.channel import Deadlines
from cai_conformance.backends.serve.client import ServeEngine
from cai_conformance.engine import EngineBroken, Piece
from support_serving import PIECE, WORDS, Workshop

HASTY = Deadlines(20.0, 0.3)
"""Time to start, and little for anything else."""


class TestSilence:
    """What does not answer is ended at its deadline."""

    def test_hangs_before_start(self, shop: Workshop) -> None:
        """Nothing is ever said."""
        found = shop.broken("sleep(60)", Deadlines(0.4, 20.0))
        assert "does not answer start within 0.4 s" in found

    def test_hangs_in_a_call(self, shop: Workshop) -> None:
        """The last words are shown."""
        found = shop.broken("begin(); hear(); sleep(60)", HASTY)
        assert f"the program does not answer evaluate within 0.3 s; its last words on standard error: {WORDS}" == found

    @pytest.mark.exhaustive
    def test_half_a_line_then_silence(self, shop: Workshop) -> None:
        """Half an answer is none."""
        assert "does not answer evaluate" in shop.broken("""begin(); hear(); raw(b'{"id": 2'); sleep(60)""", HASTY)

    def test_ignores_the_polite_signal(self, shop: Workshop) -> None:
        """A signal that cannot be ignored follows."""
        body = "signal(SIGTERM, SIG_IGN); begin(); hear(); sleep(60)"
        assert "does not answer evaluate" in shop.broken(body, HASTY)

    def test_reads_nothing_while_much_is_written(self, shop: Workshop) -> None:
        """A message larger than any pipe does not hold up the one who writes it."""
        engine = shop.engine("begin(); sleep(60)", HASTY)
        with pytest.raises(EngineBroken, match="does not answer evaluate within"):
            engine.evaluate([Piece(0, 0, tuple(range(500_000)), ())])
        engine.close()

    def test_reads_slowly(self, shop: Workshop) -> None:
        """What comes in small pieces is answered in the end."""
        body = """
begin()
line = b""
while not line.endswith(b"\\n"):
    line += os.read(0, 20000)
    sleep(0.001)
message = json.loads(line)
say(message, ok={"answers": [{"logits": tensor([1.5], 1, 1, 1), "stages": []}]})
rest()
"""
        with shop.engine(body) as engine:
            tokens = tuple(range(100_000))
            assert 1.5 == engine.evaluate([Piece(0, 0, tokens, (7,))])[0].logits[0, 0, 0]
        assert "" == engine.farewell


class TestEnds:
    """What ends is said with its exit code or its signal."""

    def test_exit_code(self, shop: Workshop) -> None:
        """A traceback is among the last words."""
        found = shop.broken("begin(); hear(); raise ValueError('no such head')")
        assert "the program ended with exit code 1 before it answered evaluate; its last words" in found
        assert "ValueError: no such head" in found

    def test_signal(self, shop: Workshop) -> None:
        """By its name."""
        found = shop.broken("begin(); hear(); os.kill(os.getpid(), SIGSEGV); sleep(60)")
        assert "was ended by the signal SIGSEGV before it answered evaluate" in found

    def test_early_success(self, shop: Workshop) -> None:
        """Exit code 0 is no answer, either."""
        assert "ended with exit code 0 before it answered start" in shop.broken("sys.exit(0)")

    def test_between_two_calls(self, shop: Workshop) -> None:
        """The next call says so, and every later one."""
        engine = shop.engine("begin()")
        for _ in range(2):
            with pytest.raises(EngineBroken, match="ended with exit code 0 before it answered clear"):
                engine.clear(0)
        engine.close()

    def test_half_a_line_then_the_end(self, shop: Workshop) -> None:
        """The end of what was said is shown."""
        found = shop.broken("""begin(); hear(); raw(b'{"id": 2, "ok')""")
        assert """its output ends within a line, behind b'{"id": 2, "ok'""" in found

    def test_closes_its_output_and_lives(self, shop: Workshop) -> None:
        """It cannot answer any more."""
        found = shop.broken("begin(); hear(); os.close(1); sleep(60)", HASTY)
        assert "closed its output before it answered evaluate, and did not end" in found

    def test_a_program_that_is_not_there(self) -> None:
        """The system's reason is the reason."""
        with pytest.raises(EngineBroken, match=r"^serve:/no/such/program -x cannot be started: No such file"):
            ServeEngine("/no/such/program -x")

    def test_no_program_at_all(self) -> None:
        """An empty command names nothing."""
        with pytest.raises(EngineBroken, match="no program is named"):
            ServeEngine(" ")


class TestFloods:
    """What talks without end is stopped, or does no harm."""

    def test_output_without_lines(self, shop: Workshop) -> None:
        """A line has a limit."""
        body = "begin(); hear()\nwhile True: os.write(1, b'x' * 1000000)"
        assert "its output has a line of more than 16777216 bytes" in shop.broken(body)

    def test_lines_without_end(self, shop: Workshop) -> None:
        """Only the first of them is looked at."""
        body = "begin(); hear()\nwhile True: os.write(1, b'{}\\n' * 10000)"
        assert "'id' of an answer is None, not an integer" in shop.broken(body)

    def test_errors(self, shop: Workshop) -> None:
        """Standard error is drained, and its end is kept, printable and on one line."""
        body = """
begin()
message = hear()
for _ in range(50):
    os.write(2, b"x" * 100000)
os.write(2, "\\n\\x1b[31mred\\x07\\tend é\\n\\n".encode() + b"\\xff\\n")
say(message, errored="out of memory")
rest()
"""
        found = shop.broken(body)
        assert found.startswith("the program failed at evaluate: out of memory; its last words on standard error: xxx")
        assert found.endswith("x / �[31mred� end é / �")
        assert len(found) < 2300


class TestLeaving:
    """Ending well is part of the protocol."""

    @pytest.mark.parametrize(
        ("body", "farewell"),
        [("rest()", ""), ("say(hear(), ok={}); sys.exit(3)", "ended with exit code 3 after it has answered stop")],
    )
    def test_how_it_ended(self, shop: Workshop, body: str, farewell: str) -> None:
        """It is no error of a check, and it can be asked for."""
        engine = shop.engine("begin(); " + body)
        engine.close()
        engine.close()
        assert farewell == engine.farewell.partition(";")[0]

    @pytest.mark.exhaustive
    @pytest.mark.parametrize(
        ("body", "farewell"),
        [
            ("say(hear(), skipped='never')", "refuses to stop: never"),
            ("message = hear(); say(message, ok={}); say(message, ok={})", "says more after it has answered stop"),
            ("say(hear(), ok={'more': 1})", "the answer to stop has the key 'more', which the protocol does not know"),
            ("hear()", "ended with exit code 0 before it answered stop"),
            ("hear(); sleep(60)", "does not answer stop within 2 s"),
            ("say(hear(), ok={}); sleep(60)", "does not close its output after it has answered stop"),
            ("say(hear(), ok={}); os.close(1); sleep(60)", "does not end after it has answered stop"),
        ],
    )
    def test_stays(self, shop: Workshop, body: str, farewell: str) -> None:
        """It is ended all the same."""
        engine = shop.engine("begin(); " + body)
        engine.close()
        assert farewell in engine.farewell

    def test_nothing_is_asked_afterwards(self, shop: Workshop) -> None:
        """A call after `close` is refused as broken."""
        engine = shop.engine("begin(); rest()")
        engine.close()
        with pytest.raises(EngineBroken, match="has been closed"):
            engine.evaluate([PIECE])
