"""The skeleton that all nine phases share: nets, training, checkpoint, showdown, figures, verdicts."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator, Sequence
from typing import Final

from threadpoolctl import threadpool_limits

from cai_conformance.verdicts import Clock
from cai_neural_api.bakeoff import figures as of
from cai_neural_api.bakeoff.data import BakeData
from cai_neural_api.bakeoff.figures import FigureList, Total, memory_figures
from cai_neural_api.bakeoff.files import OutputFolder, PhaseNets, make_nets, weights_of
from cai_neural_api.bakeoff.publication import WEIGHTS
from cai_neural_api.bakeoff.report import PhaseReport, RunReport, run_object
from cai_neural_api.bakeoff.settings import PHASES, ArmName, BakePhase, BakeSettings, Rule
from cai_neural_api.bakeoff.showdown import PromptResult, showdown
from cai_neural_api.bakeoff.training import Course, Log, train_as_library, train_cleanly
from cai_neural_api.bakeoff.verdicts import (
    ClaimVerdict,
    decode_cost,
    grouped_convergence,
    hybrid_convergence,
    incomparable,
    time_forward,
)
from cai_neural_api.choices import TrainerName
from cai_neural_api.conversion import build_net
from cai_neural_api.decode.decoding import check_prompts
from cai_neural_api.format import NetFile
from cai_neural_api.net.graph import Net
from cai_neural_api.texts import prompt_ids
from cai_neural_api.tokenizer import decode

SHOWN_FROM: Final = 2
"""The first id below this one ends what is shown of a text."""


class BakeOff:
    """A run of some phases.

    Attributes:
        reports: the phases that are done.

    Args:
        settings, data: of all phases.
        folder: where nets, logs and the summary go.
        clock: times everything, and ends training.
        stopped: whether somebody wants the run to end; the step or arm in progress is completed.
        tell: is told every line of every log.

    Raises:
        InputError (input-unreadable), NetInputError (empty-net-prompt, net-prompt-too-long, prompt-id-too-large): a
            prompt cannot be continued.
    """

    def __init__(
        self,
        settings: BakeSettings,
        data: BakeData,
        folder: OutputFolder,
        clock: Clock,
        stopped: Callable[[], bool] = lambda: False,
        tell: Callable[[BakePhase, str], None] = lambda _phase, _line: None,
    ) -> None:
        prompts = [prompt_ids(data.vocabulary, text, number) for number, text in enumerate(settings.prompts, 1)]
        check_prompts(prompts, settings.sizes.context, settings.vocabulary)
        self.reports: list[PhaseReport] = []
        self._settings = settings
        self._data = data
        self._folder = folder
        self._clock = clock
        self._stopped = stopped
        self._tell = tell
        self._prompts = tuple(zip(map(_spelt, settings.prompts), prompts, strict=True))

    def run(self, phases: Sequence[BakePhase]) -> Generator[PhaseReport, None, None]:
        """Run phases in order; the summary is written behind each.

        Raises:
            BakeOffError: phase 5 finds no net of phase 1.
            InterchangeError (output-not-written): the operating system refuses, or another run is writing there.
            CaiReferenceError: a training diverged.
        """
        try:
            for phase in phases:
                if self._stopped():
                    return
                with threadpool_limits(self._settings.threads):
                    self.reports.append(self._phase(phase))
                self._folder.write_summary(run_object(self.report(len(phases))))
                yield self.reports[-1]
        finally:
            self._folder.release()

    def report(self, asked: int) -> RunReport:
        """Return what is done of so many phases."""
        return RunReport(self._settings, self._data, tuple(self.reports), asked)

    def _phase(self, phase: BakePhase) -> PhaseReport:
        nets = make_nets(phase, self._settings, self._data.vocabulary, self._folder)
        figures = FigureList(phase)
        self._count_weights(figures, phase)
        with self._folder.log(phase.number) as write:

            def log(line: str) -> None:
                write(line)
                self._tell(phase, line)

            log(self._heading(phase))
            if nets.sequential is not None:
                files = (nets.sequential, nets.initial)
                times = [time_forward(Net.from_file(file), self._settings.arithmetic, self._clock) for file in files]
                of.forward_figures(figures, *times)
            net, course = self._train(phase, nets, log)
            self._folder.write_net(phase.number, net)
            log(course.sentence)
            trained = Net.from_file(net)
            target, draft = (trained, None) if nets.target is None else (Net.from_file(nets.target), trained)
            prompts = showdown(target, draft, phase, self._prompts, self._settings, self._clock, self._stopped)
            complete = len(prompts) == len(self._prompts)
            verdicts = self._add_figures(figures, phase, course, prompts, complete=complete)
            report = PhaseReport(
                phase,
                self._settings.box(phase),
                course,
                tuple(figures.figures),
                prompts,
                tuple(self._shown(result) for result in prompts),
                verdicts,
                complete,
                self._folder.net(phase.number).name,
            )
            for line in _decoded(report):
                log(line)
        return report

    def _train(self, phase: BakePhase, nets: PhaseNets, log: Log) -> tuple[NetFile, Course]:
        settings, rows = self._settings, self._data.rows
        limit = settings.limit(phase, self._clock, self._stopped)
        if settings.trainer is TrainerName.CLEAN:
            return train_cleanly(settings.trained(phase), rows, settings, limit, self._clock, log)
        return train_as_library(nets.initial, phase.rate, rows, settings, nets.generator, limit, self._clock, log)

    def _count_weights(self, figures: FigureList, phase: BakePhase) -> None:
        counted = {
            each: weights_of(build_net(self._settings.decoder(PHASES[each - 1]))) for each in (1, 6, phase.number)
        }
        own = counted[phase.number]
        figures.add(of.MODEL, WEIGHTS, "weights", own)
        if phase.trains_draft:
            draft = weights_of(build_net(self._settings.trained(phase)))
            figures.add(of.MODEL, "weights of the draft", "weights", draft)
        if phase.rule is Rule.GROUPED:
            figures.add(of.MODEL, "of the weights of phase 6", "%", 100.0 * own / counted[6], 1)
            figures.add(of.MODEL, "fewer weights than phase 6", "times", counted[6] / own, 2)
        if phase.times_forwards:
            figures.add(of.MODEL, "fewer weights than phase 1", "weights", counted[1] - own)

    def _add_figures(
        self, figures: FigureList, phase: BakePhase, course: Course, prompts: Sequence[PromptResult], *, complete: bool
    ) -> tuple[ClaimVerdict, ...]:
        """Add everything that is known behind the showdown; return the verdicts."""
        of.training_figures(figures, course)
        if phase.reference_loss:
            first = next((report.course.loss for report in self.reports if report.phase.number == 1), None)
            figures.add(of.TRAINING, "loss of phase 1", "nats", first, 2)
        if not complete:
            return ()
        of.decode_figures(figures, phase, prompts)
        steps = of.streamed_buckets(phase, prompts)
        of.step_figures(figures, steps)
        memory_figures(figures, phase.memory, self._settings.sizes)
        if phase.rule is Rule.NONE:
            return ()
        streamed = Total([result.runs[ArmName.CACHED] for result in prompts])
        return (self._convergence(phase, course.loss), decode_cost(streamed.milliseconds_per_token, steps))

    def _convergence(self, phase: BakePhase, loss: float) -> ClaimVerdict:
        if self._settings.trainer is not TrainerName.LEGACY:
            return incomparable("the loss is the mean over real targets")
        if not self._data.comparable:
            return incomparable("the stories are others")
        return hybrid_convergence(loss) if phase.rule is Rule.HYBRID else grouped_convergence(loss)

    def _shown(self, result: PromptResult) -> str:
        """Return a continuation as text, up to the first control id."""
        new = result.full.new
        end = next((place for place, token in enumerate(new) if token < SHOWN_FROM), len(new))
        return decode(self._data.vocabulary, new[:end]).decode("utf-8", "backslashreplace")

    def _heading(self, phase: BakePhase) -> str:
        settings, data = self._settings, self._data
        return (
            f"phase {phase.number}, {phase.title}: {settings.trainer.value} training, {settings.box(phase)}, "
            f"seed {settings.seed}, {settings.arithmetic.identifier}, {len(data.rows)} rows of {data.source}"
        )


def _spelt(prompt: str) -> str:
    """Return a prompt as it is told: bytes of the command line that are no text are spelled as escapes."""
    return prompt.encode("utf-8", "surrogateescape").decode("utf-8", "backslashreplace")


def _decoded(report: PhaseReport) -> Iterator[str]:
    for result, text in zip(report.prompts, report.texts, strict=True):
        for name, run in result.runs.items():
            yield (
                f"{result.prompt!r}, {name}: {len(run.new)} tokens, {run.milliseconds_per_token:.2f} ms a token, "
                f"{run.forwards} forwards"
            )
        yield f"{result.prompt!r}: {text!r}"
    for verdict in report.verdicts:
        yield f"{verdict.claim}: {verdict.word.value} ({verdict.reason})"
    yield report.word
