"""A batch shared by several threads of the library, as far as its source tells; and what makes a net trainable."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from cai_neural_api.net.graph import Net
from cai_neural_api.net.layers.layer import Learned
from cai_neural_api.training import AdamSettings, LegacyTrainer
from cai_neural_api.training.pairs import language_model
from cai_neural_api.training.trainer import add_as_tree
from cai_reference.arithmetic import Array
from cai_reference.arithmetic.instances import STRICT
from cai_reference.errors import CaiReferenceError
from support_errors_legacy_training import MORE
from support_legacy_training import STORIES, tiny_net, tiny_trainer
from support_refusals import raises

TREES: dict[int, Callable[[list[float]], float]] = {
    1: lambda g: g[0],
    2: lambda g: g[0] + g[1],
    3: lambda g: (g[0] + g[1]) + g[2],
    4: lambda g: (g[0] + g[1]) + (g[2] + g[3]),
    5: lambda g: ((g[0] + g[1]) + (g[2] + g[3])) + g[4],
    7: lambda g: ((g[0] + g[1]) + (g[2] + g[3])) + ((g[4] + g[5]) + g[6]),
    10: lambda g: ((g[0] + g[1]) + (g[2] + g[3])) + ((g[4] + g[5]) + (g[6] + g[7])) + (g[8] + g[9]),
}


def table(learned: tuple[Learned | None, ...]) -> Array:
    """Return the gradient of the embedding's table."""
    assert learned[1] is not None
    return learned[1].weights[0]


class TestThreads:
    """What several threads change."""

    @pytest.mark.parametrize("threads", TREES)
    def test_gradients_are_added_as_a_tree(self, threads: int) -> None:
        """Bit by bit, in the order written out."""
        terms = np.random.default_rng(threads).normal(size=(threads, 50)) * 10.0
        parts = [(None, Learned((row.copy(),), row[:3].copy())) for row in terms]
        total = add_as_tree(parts)[1]
        assert total is not None
        assert [TREES[threads](column) for column in terms.T.tolist()] == total.weights[0].tolist()
        assert total.biases.tolist() == total.weights[0][:3].tolist()

    def test_each_thread_takes_its_part_and_remembers_its_own_ids(self) -> None:
        """Three threads are three trainers with a part of each batch."""
        shared = tiny_trainer(threads=3)
        alone = [tiny_trainer() for _ in range(3)]
        for batch in (STORIES[:6], STORIES[1:]):
            reported, gradients = shared.gradients(batch)
            parts = [trainer.gradients(batch[2 * place : 2 * place + 2]) for place, trainer in enumerate(alone)]
            expected = (table(parts[0][1]) + table(parts[1][1])) + table(parts[2][1])
            assert expected.tobytes() == table(gradients).tobytes()
            assert np.isclose(reported.loss, sum(part.loss for part, _ in parts) / 3.0, rtol=1e-14)

    def test_what_padding_trains_depends_on_the_threads(self) -> None:
        """The ids that a position remembers are other ones."""
        one, three = (table(tiny_trainer(threads=threads).gradients(STORIES[:6])[1]) for threads in (1, 3))
        assert 0.01 < np.max(np.abs(one - three))

    def test_the_first_threads_take_what_does_not_divide(self) -> None:
        """Five stories for three threads: two, two, one."""
        _, gradients = tiny_trainer(threads=3).gradients(STORIES[:5])
        parts = [tiny_trainer().gradients(part)[1] for part in (STORIES[0:2], STORIES[2:4], STORIES[4:5])]
        expected = (table(parts[0]) + table(parts[1])) + table(parts[2])
        assert expected.tobytes() == table(gradients).tobytes()

    def test_more_threads_than_stories_leave_some_idle(self) -> None:
        """One story goes to the first."""
        _, alone = tiny_trainer().gradients(STORIES[:1])
        _, shared = tiny_trainer(threads=4).gradients(STORIES[:1])
        assert table(alone).tobytes() == table(shared).tobytes()


class TestLimit:
    """The largest gradient that enters a convolution."""

    def test_an_example_with_a_gradient_beyond_100_is_scaled_down(self) -> None:
        """The hidden projection's biases take the sum over rows of a gradient whose largest entry is 100."""
        net = tiny_net()
        for layer in net.layers[3:]:
            if layer.learned is not None:
                layer.learned.weights[0][...] *= 1e4
        _, gradients = LegacyTrainer(net, AdamSettings(0.01), STRICT).gradients([(1,)])
        hidden, head = gradients[2], net.layers[3].learned
        assert hidden is not None and head is not None
        # The context's later rows embed to zero, so that each of them sends back the same.
        output = net.run(STRICT, [[1, 0, 0, 0, 0, 0]]).output[0]
        wanted = np.zeros(output.shape)
        wanted[:, 0] = 1.0
        sent = np.array([[sum(g * w for g, w in zip(row, column, strict=True)) for column in head.weights[0].T]
                         for row in output - wanted])  # fmt: skip
        assert np.max(np.abs(sent)) > 100.0
        scaled = sent * (100.0 / np.max(np.abs(sent)))
        assert np.allclose(hidden.biases, scaled.sum(axis=0), rtol=1e-12)


class TestLanguageModels:
    """Which nets are trained."""

    def test_a_net_knows_its_ids_and_its_heads(self) -> None:
        """Three softmaxes side by side are three future tokens."""
        assert (12, 1) == language_model(tiny_net())
        assert (12, 3) == language_model(tiny_net(3))

    def test_scores_need_not_be_probabilities_until_they_are_trained(self) -> None:
        """Without its softmax a net still scores every id."""
        net = tiny_net()
        bare = Net(net.specs[:-1], [layer.learned for layer in net.layers[:-1]])
        assert (12, 1) == language_model(bare)

    @pytest.mark.parametrize(("expected", "trigger"), MORE)
    def test_what_cannot_be_trained_is_refused(
        self, expected: CaiReferenceError, trigger: Callable[[], object]
    ) -> None:
        """With the reason in the error's values."""
        with raises(expected):
            trigger()

    def test_a_refused_story_leaves_the_net_as_it_was(self) -> None:
        """Nothing is learned from the rest of the batch."""
        trainer = tiny_trainer()
        with pytest.raises(CaiReferenceError):
            trainer.step([(1, 2), ()])
        fresh = tiny_net()
        for mine, other in zip(trainer.net.layers, fresh.layers, strict=True):
            if mine.learned is not None and other.learned is not None:
                assert np.array_equal(mine.learned.weights[0], other.learned.weights[0])
