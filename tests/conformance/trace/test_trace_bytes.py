"""The bytes of a trace: from files, pipes, devices and streams."""

from __future__ import annotations

import io
import os
import threading
from pathlib import Path

import pytest

from cai_conformance.backends import trace_file
from cai_conformance.backends.trace_file import read_file, read_stream
from cai_conformance.errors import InputError
from support_refusals import refuses

PIPES = pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="this system has no named pipes")


class TestFiles:
    """What has a name."""

    @pytest.mark.parametrize(("name", "words"), [("none", "No such file or directory"), (".", "Is a directory")])
    def test_what_is_no_file_is_told_in_the_systems_words(self, tmp_path: Path, name: str, words: str) -> None:
        """A sentence with the path."""
        with refuses(InputError, "input-unreadable", match=f"cannot be read: {words}$"):
            read_file(str(tmp_path / name))

    def test_a_path_that_no_system_has(self) -> None:
        """Python refuses it in another way."""
        with refuses(InputError, "input-unreadable", match="null"):
            read_file("a\0b")

    def test_a_file_beyond_the_limit_is_not_read(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        """Its size is enough; a file of just the limit is read."""
        monkeypatch.setattr(trace_file, "FILE_LIMIT", 10)
        path = tmp_path / "file"
        path.write_bytes(b"0123456789")
        assert b"0123456789" == read_file(str(path))
        path.write_bytes(b"0123456789a")
        with refuses(InputError, "input-too-large", match=r"holds 11 bytes; the limit is 10$"):
            read_file(str(path))

    @pytest.mark.parametrize("device", ["/dev/zero", "/dev/urandom"])
    def test_a_device_that_does_not_end_is_refused(self, device: str) -> None:
        """After a bounded number of bytes; one that ends is a file like others."""
        if not Path(device).is_char_device():
            pytest.skip(f"this system has no {device}")
        with refuses(InputError, "input-unreadable", match="it is a device, and does not end"):
            read_file(device)
        assert b"" == read_file(os.devnull)


@PIPES
class TestPipes:
    """What has no size, and perhaps no end."""

    def test_a_pipe_to_which_nobody_writes_is_no_reason_to_wait(self, tmp_path: Path) -> None:
        """A sentence at once."""
        path = tmp_path / "pipe"
        os.mkfifo(path)
        with refuses(InputError, "input-unreadable", match="nothing came through this pipe"):
            read_file(str(path))

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
        found = read_file(str(path))
        writer.join()
        os.close(reader)
        assert data == first + found

    def test_a_pipe_of_this_process_has_a_path_too(self) -> None:
        """As a shell gives it for `<(…)`."""
        if not Path("/dev/fd").exists():
            pytest.skip("this system has no /dev/fd")
        reader, writer = os.pipe()
        os.write(writer, b"a line\n")
        os.close(writer)
        assert b"a line\n" == read_file(f"/dev/fd/{reader}")
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
        """However many reads that takes."""
        data = (b"0123456\n" * (size // 8 + 1))[:size]
        assert data == read_stream(io.BytesIO(data), "-")

    def test_a_line_without_end_is_refused(self) -> None:
        """So that /dev/zero fills no disk."""

        class Endless(io.BytesIO):
            def read(self, size: int | None = -1) -> bytes:
                return b"\0" * (size or 0)

        with refuses(InputError, "input-unreadable", path="-"):
            read_stream(Endless(), "-")

    def test_a_stream_without_end_is_read_to_the_limit_of_a_file(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """And one byte further, so that it shows as too large."""
        monkeypatch.setattr(trace_file, "FILE_LIMIT", 1000)
        assert 1001 == len(read_stream(io.BytesIO(b"line\n" * 1000), "-"))

    def test_a_refusal_of_the_system_is_a_sentence(self) -> None:
        """With the name of the stream."""

        class Refusing(io.BytesIO):
            def read(self, size: int | None = -1) -> bytes:
                raise OSError(5, "Input/output error")

        with refuses(InputError, "input-unreadable", match="'-' cannot be read: Input/output error"):
            read_stream(Refusing(), "-")
