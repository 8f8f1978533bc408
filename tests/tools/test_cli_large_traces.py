"""`cai-conform verify` and `diff` on long traces, of which no records are kept, and on what is no file."""

from __future__ import annotations

import os
from functools import partial
from pathlib import Path

import pytest

from cai_conformance.backends import trace_file
from cai_conformance.run import verify as verification
from cai_conformance.trace.parse import parse
from support_cli import invoke, program
from support_decode_traces import golden_of
from support_traces import changed, edges_bytes, golden_bytes, sealed


@pytest.fixture(params=["short", "long"])
def way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Read traces with their records kept, and without."""
    if request.param == "long":
        for module in (trace_file, verification):
            monkeypatch.setattr(module, "parse", partial(parse, short=-1))
    return str(request.param)


@pytest.mark.usefixtures("way")
class TestVerify:
    """Exit codes and sentences do not depend on how a trace is read."""

    def test_a_right_trace_passes(self, tmp_path: Path) -> None:
        """Exit code 0, from a file and from standard input."""
        path = tmp_path / "trace.txt"
        for data in (golden_bytes(), edges_bytes(), golden_of("cai.kv-cache")):
            path.write_bytes(data)
            result = invoke("verify", path)
            assert (0, "") == (result.code, result.err)
            assert "checks pass" in result.out
            piped = invoke("verify", "-", stdin=data)
            assert (0, result.out.replace(str(path), "-")) == (piped.code, piped.out)

    def test_a_wrong_value_and_a_broken_envelope_have_their_codes(self, tmp_path: Path) -> None:
        """1 and 2."""
        path = tmp_path / "trace.txt"
        path.write_bytes(changed("lr=0.010000", "lr=0.020000"))
        result = invoke("verify", path)
        assert (1, "") == (result.code, result.err)
        assert "CONFIG, field lr: value, expected 0.010000, found 0.020000" in result.out
        path.write_bytes(golden_bytes().replace(b"lr=0.010000", b"lr=0.020000"))
        result = invoke("verify", path)
        assert (2, "") == (result.code, result.out)
        assert "first difference from the golden: CONFIG, field lr" in result.err
        path.write_bytes(golden_bytes()[:-100])
        result = invoke("verify", path)
        assert (2, True) == (result.code, "the trace is cut off after this record" in result.err)

    def test_very_many_extra_records_are_counted(self, tmp_path: Path) -> None:
        """In the report, too."""
        data = golden_of("cai.kv-cache").decode()
        line = "DRAFT|arm=scripted|prompt=0|pass={}|proposed=0|accepted=0|committed=1|rolled_back=0\n"
        extra = "".join(line.format(number) for number in range(500, 1700))
        place = data.index("CACHE|")
        path = tmp_path / "trace.txt"
        path.write_bytes(sealed((data[:place] + extra + data[place:]).encode()))
        result = invoke("verify", path, "--format", "json")
        assert 1 == result.code
        assert r"\u2026 and 200 more" in result.out
        result = invoke("diff", path, path)
        assert (0, "") == (result.code, result.out)


class TestNoFile:
    """What has no end, or nothing in it, keeps nobody waiting."""

    @pytest.mark.parametrize("command", [("verify",), ("diff", os.devnull)])
    def test_a_device_that_does_not_end_is_refused(self, command: tuple[str, ...]) -> None:
        """Exit code 2 and a sentence."""
        if not Path("/dev/zero").is_char_device():
            pytest.skip("this system has no /dev/zero")
        result = invoke(*command, "/dev/zero")
        assert (2, "") == (result.code, result.out)
        assert result.sentences == ["cai-conform: '/dev/zero' cannot be read: it is a device, and does not end"]

    def test_a_pipe_to_which_nobody_writes_is_refused(self, tmp_path: Path) -> None:
        """Instead of waiting for a writer."""
        if not hasattr(os, "mkfifo"):
            pytest.skip("this system has no named pipes")
        path = tmp_path / "pipe"
        os.mkfifo(path)
        result = invoke("verify", path)
        assert (2, [f"cai-conform: {str(path)!r} cannot be read: nothing came through this pipe"]) == (
            result.code,
            result.sentences,
        )

    def test_a_line_without_end_is_refused(self) -> None:
        """Through a real pipe, of which 17 MiB are read."""
        done = program("verify", "-", stdin=b"0" * (17 << 20))
        assert (2, b"") == (done.returncode, done.stdout)
        assert b"one of its lines is longer than the limit of 16777216 bytes" in done.stderr
