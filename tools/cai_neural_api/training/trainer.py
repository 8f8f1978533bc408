"""One net in training: pairs, gradients with the library's rules, report, optimiser.

**Threads**: the library splits each batch into contiguous shares, one a thread, and every thread has its own copy of
the net, whose embedding remembers ids on its own. The gradients of four neighbouring threads are added as
(0 + 1) + (2 + 3), and what results of each four in the order in which they finish, here in ascending order. All of it
was measured with one thread; what several do was read in the source. The numbers that the library published come from
as many threads as the machine had cores.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, TypeAlias

from cai_neural_api.errors import LegacyError
from cai_neural_api.net.graph import Net
from cai_neural_api.net.layers.layer import GradientRules, Learned
from cai_neural_api.training.adam import AdamSettings, LegacyAdam
from cai_neural_api.training.pairs import (
    BatchReport,
    TokenMemory,
    combine,
    difference,
    language_model,
    make_pairs,
    report,
    require_probabilities,
)
from cai_reference.arithmetic import Arithmetic

Stories: TypeAlias = Sequence[Sequence[int]]
Gradients: TypeAlias = tuple[Learned | None, ...]

GRADIENT_LIMIT: Final = 100.0
"""The library's limit of gradients that enter a convolution or a sum."""


class LegacyTrainer:
    """One net in training.

    Attributes:
        net: changed in place.
        threads: how many threads of the library share a batch.
        vocabulary: how many ids it knows.
        heads: how many future tokens it predicts.

    Raises:
        LegacyError: the net does not end in rows of probabilities over its embedding's ids.
        LegacyError (schedule-too-small): there is no thread.
    """

    def __init__(self, net: Net, settings: AdamSettings, arithmetic: Arithmetic, threads: int = 1) -> None:
        if threads < 1:
            raise LegacyError("schedule-too-small", name="threads", value=threads, least=1)
        self.net = net
        self.threads = threads
        self.vocabulary, self.heads = language_model(net)
        require_probabilities(net)
        self._arithmetic = arithmetic
        self._optimizer = LegacyAdam(net, settings, arithmetic)
        self._memories = [TokenMemory(net.context) for _ in range(threads)]

    def gradients(self, stories: Stories) -> tuple[BatchReport, Gradients]:
        """Return the report and the gradients of a batch, summed over its examples; nothing is learned.

        Raises:
            LegacyError: a story cannot be paired, or there is none.
        """
        if not len(stories):
            raise LegacyError("no-stories")
        shares = _shares(stories, self.threads)
        parts = [self._share(share, memory) for share, memory in zip(shares, self._memories, strict=False)]
        reports = [reported for reported, _ in parts]
        return combine(reports, [len(share) for share in shares]), add_as_tree([gradients for _, gradients in parts])

    def step(self, stories: Stories) -> BatchReport:
        """Learn from one batch, and return the report from before the step.

        Raises:
            LegacyError: a story cannot be paired, or there is none.
        """
        reported, gradients = self.gradients(stories)
        self._optimizer.step(gradients)
        return reported

    def evaluate(self, stories: Stories, thread: int = 0) -> BatchReport:
        """Report without learning; the ids that the thread's embedding remembers are overwritten all the same.

        Raises:
            LegacyError: a story cannot be paired, or there is none.
        """
        if not len(stories):
            raise LegacyError("no-stories")
        pairs = make_pairs(stories, self.net.context, self.vocabulary, self.heads)
        self._memories[thread].see(pairs.inputs)
        output = self.net.run(self._arithmetic, pairs.inputs).output
        return report(self._arithmetic, output, pairs.targets, difference(output, pairs.targets))

    def change_rate(self, rate: float) -> None:
        """Set the learning rate; the optimiser forgets its moments if that is another one."""
        self._optimizer.change_rate(rate)

    def _share(self, stories: Stories, memory: TokenMemory) -> tuple[BatchReport, Gradients]:
        pairs = make_pairs(stories, self.net.context, self.vocabulary, self.heads)
        rules = GradientRules(GRADIENT_LIMIT, memory.see(pairs.inputs), suppressed=True)
        run = self.net.run(self._arithmetic, pairs.inputs)
        gradient = difference(run.output, pairs.targets)
        reported = report(self._arithmetic, run.output, pairs.targets, gradient)
        return reported, self.net.gradients(self._arithmetic, run, gradient, rules)


def add_as_tree(parts: Sequence[Gradients]) -> Gradients:
    """Add the gradients of threads: neighbours, pairs of neighbours, then every four; the parts are overwritten."""
    for first, second in _additions(len(parts)):
        for learned, added in zip(parts[first], parts[second], strict=True):
            if learned is None or added is None:
                continue
            for array, other in zip(learned.arrays, added.arrays, strict=True):
                array += other
    return parts[0]


def _additions(threads: int) -> list[tuple[int, int]]:
    """Return which thread's gradients take which other's, in order."""
    neighbours = [(index, index + 1) for index in range(0, threads - 1, 2)]
    pairs = [(index, index + 2) for index in range(0, threads - 2, 4)]
    return [*neighbours, *pairs, *((0, index) for index in range(4, threads, 4))]


def _shares(stories: Stories, threads: int) -> list[Stories]:
    """Cut a batch into contiguous shares; the first ones are longer by one where it does not divide."""
    size, longer = divmod(len(stories), threads)
    ends = [size * (index + 1) + min(index + 1, longer) for index in range(threads)]
    return [stories[first:end] for first, end in zip([0, *ends], ends, strict=False) if end > first]
