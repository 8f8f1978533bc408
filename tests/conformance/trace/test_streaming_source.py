"""Where the bytes of a trace come from: files, pipes, devices."""

from __future__ import annotations

import io
import os
import threading
from pathlib import Path

import pytest

from cai_conformance.errors import InputUnreadable
from cai_conformance.trace import source
from cai_conformance.trace.source import Source, open_source, spooled

PIPES = pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="this system has no named pipes")


class TestFiles:
    """What has a name."""

    def test_a_file_is_read_from_any_place(self, tmp_path: Path) -> None:
        """Without being held."""
        path = tmp_path / "file"
        path.write_bytes(b"0123456789")
        found = open_source(str(path))
        assert (10, b"345", b"0123456789") == (found.size, found.read(3, 6), found.whole())

    @pytest.mark.parametrize(("name", "words"), [("none", "No such file or directory"), (".", "Is a directory")])
    def test_what_is_no_file_is_told_in_the_systems_words(self, tmp_path: Path, name: str, words: str) -> None:
        """A sentence with the path."""
        with pytest.raises(InputUnreadable, match=f"cannot be read: {words}$"):
            open_source(str(tmp_path / name))

    def test_a_path_that_no_system_has(self) -> None:
        """Python refuses it in another way."""
        with pytest.raises(InputUnreadable, match="null"):
            open_source("a\0b")

    def test_a_file_that_became_shorter_is_told(self, tmp_path: Path) -> None:
        """Not read as a shorter one."""
        path = tmp_path / "file"
        path.write_bytes(b"0123456789")
        found = open_source(str(path))
        path.write_bytes(b"0")
        with pytest.raises(InputUnreadable, match="it changed while it was read"):
            found.whole()

    @pytest.mark.parametrize("device", ["/dev/zero", "/dev/urandom"])
    def test_a_device_that_does_not_end_is_refused(self, device: str) -> None:
        """After a bounded number of bytes; one that ends is a file like others."""
        if not Path(device).is_char_device():
            pytest.skip(f"this system has no {device}")
        with pytest.raises(InputUnreadable, match="it is a device, and does not end"):
            open_source(device)
        assert b"" == open_source(os.devnull).whole()


@PIPES
class TestPipes:
    """What has no size, and perhaps no end."""

    def test_a_pipe_to_which_nobody_writes_is_no_reason_to_wait(self, tmp_path: Path) -> None:
        """A sentence at once."""
        path = tmp_path / "pipe"
        os.mkfifo(path)
        with pytest.raises(InputUnreadable, match="nothing came through this pipe"):
            open_source(str(path))

    def test_a_pipe_is_read_to_its_end(self, tmp_path: Path) -> None:
        """However slowly it is written to."""
        path, data = tmp_path / "pipe", b"line\n" * 30_000
        os.mkfifo(path)
        reader = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
        writer = threading.Thread(target=path.write_bytes, args=(data,))
        writer.start()
        # The writer waits for room in the pipe, so that it is there when the pipe is opened again.
        while not (first := _available(reader)):
            pass
        found = open_source(str(path))
        writer.join()
        os.close(reader)
        assert data == first + found.whole()

    def test_a_pipe_of_this_process_has_a_path_too(self) -> None:
        """As a shell gives it for `<(…)`."""
        if not Path("/dev/fd").exists():
            pytest.skip("this system has no /dev/fd")
        reader, writer = os.pipe()
        os.write(writer, b"a line\n")
        os.close(writer)
        assert b"a line\n" == open_source(f"/dev/fd/{reader}").whole()
        os.close(reader)


def _available(descriptor: int) -> bytes:
    try:
        return os.read(descriptor, 1)
    except BlockingIOError:
        return b""


class TestStreams:
    """Standard input."""

    @pytest.mark.parametrize("size", [0, 5, 3 << 20])
    def test_a_stream_is_kept_whole(self, size: int) -> None:
        """In memory or in a file, that shows nowhere."""
        data = (b"0123456\n" * (size // 8 + 1))[:size]
        found = spooled(io.BytesIO(data), "-")
        assert (size, data) == (found.size, found.whole())

    def test_a_line_without_end_is_refused(self) -> None:
        """So that /dev/zero fills no disk."""

        class Endless(io.BytesIO):
            def read(self, size: int | None = -1) -> bytes:
                return b"\0" * (size or 0)

        with pytest.raises(InputUnreadable, match="'-' cannot be read: one of its lines is longer than the limit"):
            spooled(Endless(), "-")

    def test_a_stream_without_end_is_read_to_the_limit_of_a_file(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """And one byte further, so that it shows as too large."""
        monkeypatch.setattr(source, "FILE_LIMIT", 1000)
        assert 1001 == spooled(io.BytesIO(b"line\n" * 1000), "-").size

    def test_a_refusal_of_the_system_is_a_sentence(self) -> None:
        """While reading and while looking again."""

        class Refusing(io.BytesIO):
            def read(self, size: int | None = -1) -> bytes:
                raise OSError(5, "Input/output error")

        with pytest.raises(InputUnreadable, match="'-' cannot be read: Input/output error"):
            spooled(Refusing(), "-")
        with pytest.raises(InputUnreadable, match="'-' cannot be read: Input/output error"):
            Source("-", Refusing(), 5).whole()
