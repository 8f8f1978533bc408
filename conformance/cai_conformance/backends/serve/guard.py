"""Stands between this program and another one, and ends whatever that one started.

It is run as a script of its own (until the program runs with the standard library alone, so that it starts in a few
hundredths of a second):

    guard.py PACKAGES CONTROL STATUS GRACE PROGRAM ARGUMENT…

PACKAGES is the folder that psutil is in. CONTROL is a pipe that nobody writes to: when it ends, because whoever holds
it closed it or died in any way, the program is ended. STATUS is told `started PID`, `failed REASON` or `ended CODE`.
Standard input, output and error are the program's. The program leads a session of its own. When it has ended, its group
is ended, too; on Linux also every descendant that left the group, since orphans of this process are given to it.
"""

from __future__ import annotations

import os
import select
import signal
import sys
from collections.abc import Sequence
from contextlib import suppress
from itertools import repeat

ROUNDS = 50
"""How often descendants are looked for, in case they go on multiplying."""

_SET_CHILD_SUBREAPER = 36


def main(arguments: Sequence[str]) -> None:
    """Start a program, wait until it ends or is to be ended, and clean up."""
    sys.path.append(arguments[0])
    control, status, grace = int(arguments[1]), int(arguments[2]), float(arguments[3])
    for descriptor in (control, status):
        os.set_inheritable(descriptor, False)
    woken = _wake_on_children()
    _adopt_orphans()
    program = _start(arguments[4:], status)
    if program is None:
        return
    _tell(status, f"started {program}")
    _leave_streams()
    # While the program starts, so that its end is not waited for longer.

    code = None
    while code is None:
        ready, _, _ = select.select([control, woken], [], [])
        code = _reap(woken, program)
        if control in ready:
            break
    if code is None:
        code = end_process_tree(os.getpid(), grace).get(program)
    if code is not None:
        _tell(status, f"ended {int(code)}")
    # Where orphans are not given to this process, those of the program's group are found by it alone.
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(program, signal.SIGKILL)
    end_process_tree(os.getpid())


def end_process_tree(top: int, grace: float = 0.0) -> dict[int, int | None]:
    """End a process with all its descendants; of the calling process, the descendants alone.

    They are asked to end, and killed after `grace` seconds, until there are none that can be seen. Returns the exit
    code of each that has ended, where it can be known, by process id.
    """
    import psutil

    codes: dict[int, int | None] = {}
    for seconds in (grace, *repeat(0.0, ROUNDS)):
        with suppress(psutil.NoSuchProcess):
            process = psutil.Process(top)
            found = [*process.children(recursive=True), *([process] if top != os.getpid() else [])]
            for each in found:
                with suppress(psutil.Error):
                    each.terminate() if seconds else each.kill()
            ended, _ = psutil.wait_procs(found, seconds or 0.1)
            codes |= {each.pid: each.returncode for each in ended}
            if found:
                continue
        break
    return codes


def _start(command: Sequence[str], status: int) -> int | None:
    """Start the program in a session of its own; return its process id, or None where the system refuses."""
    outcome, report = os.pipe()
    pid = os.fork()
    if pid == 0:
        try:
            os.setsid()
            signal.set_wakeup_fd(-1)
            # Python ignores the second and the third, which a program would inherit.
            for number in (signal.SIGCHLD, signal.SIGPIPE, signal.SIGXFSZ):
                signal.signal(number, signal.SIG_DFL)
            os.execvp(command[0], list(command))
        except OSError as error:
            os.write(report, (error.strerror or str(error)).encode("utf-8", "replace"))
        finally:
            os._exit(127)
    os.close(report)
    refused = os.read(outcome, 4096)
    os.close(outcome)
    if not refused:
        return pid
    os.waitpid(pid, 0)
    _tell(status, f"failed {refused.decode('utf-8', 'replace')}")
    return None


def _wake_on_children() -> int:
    """Return a descriptor that can be read whenever a child has ended."""
    reading, writing = os.pipe()
    os.set_blocking(reading, False)
    os.set_blocking(writing, False)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    signal.set_wakeup_fd(writing, warn_on_full_buffer=False)
    return reading


def _adopt_orphans() -> None:
    """Have descendants that lose their parent given to this process, where the system can: on Linux."""
    if sys.platform == "linux":
        import ctypes

        ctypes.CDLL(None).prctl(_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def _leave_streams() -> None:
    """Let go of the program's streams, so that they end with it; errors of this process still have somewhere to go."""
    nowhere = os.open(os.devnull, os.O_RDWR)
    os.dup2(nowhere, 0)
    os.dup2(nowhere, 1)


def _tell(status: int, text: str) -> None:
    with suppress(OSError):
        os.write(status, f"{text}\n".encode())


def _reap(woken: int, program: int) -> int | None:
    """Take note of every child that has ended; return the program's exit code if it is one of them."""
    with suppress(BlockingIOError):
        os.read(woken, 4096)
    code = None
    with suppress(ChildProcessError):
        while True:
            pid, status = os.waitpid(-1, os.WNOHANG)
            if pid == 0:
                break
            if pid == program:
                code = os.waitstatus_to_exitcode(status)
    return code


if __name__ == "__main__":
    main(sys.argv[1:])
