"""Stands between this program and another one, and ends whatever that one started.

It is run as a script of its own (standard library alone, so that it starts in a few hundredths of a second):

    guard.py CONTROL STATUS GRACE PROGRAM ARGUMENT…

CONTROL is a pipe that nobody writes to: when it ends, because whoever holds it closed it or died in any way, the
program is ended. STATUS is told `started PID`, `failed REASON` or `ended CODE`. Standard input, output and error are
the program's. The program leads a session of its own. When it has ended, its group is ended, too; on Linux also every
descendant that left the group, since orphans of this process are given to it.
"""

from __future__ import annotations

import os
import select
import signal
import sys
from collections.abc import Callable, Sequence
from contextlib import suppress

STEPS = 20
"""In how many steps the time is waited that a program has to end politely."""

ROUNDS = 1000
"""How often descendants are looked for, in case they go on multiplying."""

_SET_DEATH_SIGNAL = 1
_SET_CHILD_SUBREAPER = 36


def main(arguments: Sequence[str]) -> None:
    """Start a program, wait until it ends or is to be ended, and clean up."""
    control, status, grace = int(arguments[0]), int(arguments[1]), float(arguments[2])
    for descriptor in (control, status):
        os.set_inheritable(descriptor, False)
    woken = _wake_on_children()
    control_process = _process_control()
    control_process(_SET_CHILD_SUBREAPER, 1)
    program = _start(arguments[3:], status, lambda: control_process(_SET_DEATH_SIGNAL, signal.SIGKILL))
    if program is None:
        return
    _tell(status, f"started {program}")
    _leave_streams()
    code = None
    while code is None:
        ready, _, _ = select.select([control, woken], [], [])
        code = _reap(woken, program)
        if control in ready:
            break
    if code is None:
        code = _end_group(program, woken, grace)
    if code is not None:
        _tell(status, f"ended {code}")
    _signal_group(program, signal.SIGKILL)
    _end_descendants()


def _start(command: Sequence[str], status: int, prepare: Callable[[], None]) -> int | None:
    """Start the program in a session of its own; return its process id, or None where the system refuses."""
    outcome, report = os.pipe()
    pid = os.fork()
    if pid == 0:
        try:
            os.setsid()
            prepare()
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


def _process_control() -> Callable[[int, int], None]:
    """Return `prctl` of Linux; elsewhere a function that does nothing."""
    if sys.platform != "linux":
        return lambda option, value: None
    import ctypes

    library = ctypes.CDLL(None)

    def control(option: int, value: int) -> None:
        library.prctl(option, value, 0, 0, 0)

    return control


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


def _end_group(program: int, woken: int, grace: float) -> int | None:
    """Ask the program's group to end, and after a while see to it; return the program's exit code."""
    _signal_group(program, signal.SIGTERM)
    for _ in range(STEPS):
        select.select([woken], [], [], grace / STEPS)
        code = _reap(woken, program)
        if code is not None:
            return code
    _signal_group(program, signal.SIGKILL)
    with suppress(ChildProcessError):
        return os.waitstatus_to_exitcode(os.waitpid(program, 0)[1])
    return None


def _signal_group(program: int, number: int) -> None:
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(program, number)


def _end_descendants() -> None:
    """End the processes that were given to this one, until there are none that it can see."""
    for _ in range(ROUNDS):
        children = _children()
        for child in children:
            with suppress(ProcessLookupError):
                os.kill(child, signal.SIGKILL)
        try:
            pid, _ = os.waitpid(-1, 0 if children else os.WNOHANG)
        except ChildProcessError:
            return
        if pid == 0:
            return


def _children() -> list[int]:
    """Return the processes whose parent is this one; none where the system does not show them."""
    own, found = str(os.getpid()), []
    with suppress(OSError):
        for entry in os.scandir("/proc"):
            if not entry.name.isdigit():
                continue
            with suppress(OSError), open(f"{entry.path}/stat", "rb") as file:  # noqa: PTH123 - pathlib is slow to import
                # The name of the program stands in brackets and may hold anything; state and parent follow it.
                if file.read().rpartition(b")")[2].split()[1].decode() == own:
                    found.append(int(entry.name))
    return found


if __name__ == "__main__":
    main(sys.argv[1:])
