"""`cai-conform bakeoff`: the nine-phase decode-features bake-off of the CAI NEURAL API, run here."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from cai_conform import options
from cai_conform.terminal import messages, output, say
from cai_neural_api.choices import TrainerName
from cai_neural_api.commands.printing import INTERRUPTED, ArithmeticName, Format, as_table, print_lines, print_objects

if TYPE_CHECKING:
    from cai_neural_api.bakeoff.report import PhaseReport
    from cai_neural_api.bakeoff.settings import BakePhase


PhaseName = Annotated[
    str, typer.Option("--phase", "-p", metavar="N", help="1 to 9, or all. Phase 5 needs the net of phase 1.")
]
VocabularyFile = Annotated[
    Path | None, typer.Option("--vocabulary", metavar="FILE", help="The vocabulary of --rows, one token a line.")
]
RowsFile = Annotated[
    Path | None,
    typer.Option("--rows", metavar="CSV", help="Tokenised stories, a row of ids a line. Generated ones if left out."),
]
Seconds = Annotated[
    float | None,
    typer.Option(
        "--budget", min=0.0, metavar="SECONDS", help="Training a phase. The published 160 to 195 if left out."
    ),
]
Steps = Annotated[
    int | None, typer.Option("--steps", min=1, metavar="N", help="Steps a phase instead of a time: replayable.")
]
Trainer = Annotated[
    TrainerName, typer.Option("--trainer", help="As the library trains, or by AdamW on the mean over real targets.")
]
Seed = Annotated[int, typer.Option("--seed", min=0, max=2**32 - 1, metavar="S", help="Seed of all that is drawn.")]
OutputPath = Annotated[
    Path,
    typer.Option("--output", "-o", metavar="DIR", help="Where nets, logs and the summary go; older ones are replaced."),
]
Threads = Annotated[
    int,
    typer.Option(
        "--threads", min=1, metavar="N", help="Threads of BLAS, one a processor at most; more than 1 are slower."
    ),
]
Prompts = Annotated[
    list[str] | None,
    typer.Option("--prompt", metavar="TEXT", help="What is continued; may be repeated. The published two if left out."),
]
MaxNew = Annotated[int, typer.Option("--max-new", min=1, metavar="N", help="New tokens a prompt.")]


def bakeoff(
    phase: PhaseName = "all",
    vocabulary: VocabularyFile = None,
    rows: RowsFile = None,
    budget: Seconds = None,
    steps: Steps = None,
    trainer: Trainer = TrainerName.LEGACY,
    seed: Seed = 424_242,
    folder: OutputPath = Path("bake-off"),
    arithmetic: ArithmeticName = "fast",
    threads: Threads = 1,
    prompts: Prompts = None,
    new_tokens: MaxNew = 40,
    output_format: Format = None,
    color: options.Color = options.ColorChoice.AUTO,
) -> None:
    """Train the nets of the published decode bake-off, decode each in several ways, and compare all with all.

    All ways must generate the same tokens: exit code 1 if they do not, 2 if something cannot be used.
    The first Ctrl-C completes the step in progress and writes what there is: exit code 130.
    """
    from cai_conformance.verdicts import WALL
    from cai_neural_api.bakeoff import BakeOff, BakeSettings, OutputFolder, chosen_phases, find_data
    from cai_neural_api.bakeoff import report as screen
    from cai_neural_api.bakeoff import settings as defaults
    from cai_reference.arithmetic.instances import named

    chosen = chosen_phases(phase)
    wanted = BakeSettings(
        budget,
        steps,
        trainer,
        seed,
        tuple(dict.fromkeys(prompts)) if prompts else defaults.PROMPTS,
        new_tokens,
        named(arithmetic),
        # Threads that wait for each other's processor make a run several times as long.
        min(threads, os.cpu_count() or 1),
        defaults.SIZES,
        defaults.SCHEDULE,
    )
    data = find_data(vocabulary, rows, wanted.sizes, wanted.vocabulary, seed)
    console = output(color)
    table = as_table(output_format, console)
    if table:
        print_lines(console, screen.data_lines(data, console.width))
    teller = _Teller()
    with _interruptible(teller) as stopped:
        run = BakeOff(wanted, data, OutputFolder(folder), WALL, stopped, teller.tell)
        for report in _resting(teller, run.run(chosen)):
            if table:
                console.print()
                print_lines(console, screen.phase_lines(report, console.width))
            else:
                print_objects([screen.phase_object(report)])
    whole = run.report(len(chosen))
    if table:
        console.print()
        print_lines(console, screen.summary_lines(whole, console.width))
    else:
        print_objects([screen.summary_object(whole)])
    raise typer.Exit(whole.exit_code)


@contextmanager
def _interruptible(teller: _Teller) -> Iterator[Callable[[], bool]]:
    """Take the first Ctrl-C as a wish to end soon; the second one ends at once, with the same exit code."""
    wished: list[int] = []

    def wish(number: int, _frame: object) -> None:
        wished.append(number)
        signal.signal(signal.SIGINT, before)
        # It may have come in the middle of another message, which then goes first.
        with suppress(RuntimeError):
            teller.rest()
            say("cai-conform: interrupted; completing the step in progress, again to end at once")

    before = signal.getsignal(signal.SIGINT)
    # Who starts a program in the background may have it ignore Ctrl-C.
    if before is not signal.SIG_IGN:
        signal.signal(signal.SIGINT, wish)
    try:
        yield lambda: bool(wished)
    except KeyboardInterrupt:
        raise typer.Exit(INTERRUPTED) from None
    finally:
        signal.signal(signal.SIGINT, before)


def _resting(teller: _Teller, reports: Iterator[PhaseReport]) -> Iterator[PhaseReport]:
    """Yield reports while the display is away, whether they end or break off."""
    try:
        for report in reports:
            teller.rest()
            yield report
    finally:
        teller.rest()


class _Teller:
    """Shows on a terminal how far things are, in one line; elsewhere, says a line when a phase begins.

    The line does not move by itself: what moves would take time from what is timed.
    """

    def __init__(self) -> None:
        self._console = messages()
        self._shows = self._console.is_terminal and not self._console.is_dumb_terminal
        self._begun: set[int] = set()

    def tell(self, phase: BakePhase, line: str) -> None:
        """Show a line of a log."""
        from rich.text import Text

        from cai_conformance.report.terminal import clip, printable

        if self._shows:
            self.rest()
            # A full last column would start a new line.
            self._console.print(
                Text(clip(printable(f"phase {phase.number}: {line}"), self._console.width - 1)), end="", soft_wrap=True
            )
        elif phase.number not in self._begun:
            self._begun.add(phase.number)
            say(line)

    def rest(self) -> None:
        """Take the line away."""
        from rich.control import Control
        from rich.segment import ControlType

        if self._shows:
            self._console.control(Control(ControlType.CARRIAGE_RETURN, (ControlType.ERASE_IN_LINE, 2)))
