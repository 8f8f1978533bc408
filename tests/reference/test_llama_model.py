"""What a Llama model is made of: names, shapes, draws, sizes that are refused, and small models worked by hand."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest

from cai_reference.arithmetic import Array
from cai_reference.arithmetic.instances import STRICT
from cai_reference.autograd import Tape
from cai_reference.errors import CaiReferenceError, LayerError, ModelError
from cai_reference.models.llama import Llama, LlamaConfiguration
from cai_reference.models.registry import decayed_names, parameter_count, weight_count
from cai_reference.splitmix import SplitMix64
from support_llama_models import ADJACENT, EXPONENTIAL, PLAIN, small
from support_refusals import raises

COURSE = LlamaConfiguration(
    vocabulary=5,
    context=4,
    width=4,
    heads=2,
    feed_forward=4,
    layers=2,
    tied=True,
    rope_layout=ADJACENT,
    epsilon=1e-6,
    norm=EXPONENTIAL,
)
"""The model of the course's chapter 32."""


def made(configuration: LlamaConfiguration, seed: int = 32) -> Llama:
    """Draw a model."""
    return Llama.initialize(configuration, SplitMix64(seed))


def logits(model: Llama, ids: list[int]) -> Array:
    """Return the logits [tokens, vocabulary]."""
    (head,) = model.forward(Tape(STRICT, recording=False), ids, 1)
    rows: Array = head.value[0]
    return rows


class TestRegistry:
    """Names, order, shapes and numbers."""

    def test_names_and_shapes(self) -> None:
        """Block after block, norm before layer; the output matrix last."""
        shapes = [(parameter.name, parameter.shape) for parameter in made(replace(PLAIN, layers=1)).parameters]
        assert [
            ("token_embedding.weight", (13, 6)),
            ("blocks.0.attention_norm.gain", (6,)),
            ("blocks.0.attention.query.weight", (6, 16)),
            ("blocks.0.attention.key.weight", (6, 8)),
            ("blocks.0.attention.value.weight", (6, 8)),
            ("blocks.0.attention.output.weight", (16, 6)),
            ("blocks.0.ffn_norm.gain", (6,)),
            ("blocks.0.ffn.gate.weight", (6, 5)),
            ("blocks.0.ffn.up.weight", (6, 5)),
            ("blocks.0.ffn.down.weight", (5, 6)),
            ("final_norm.gain", (6,)),
            ("output.weight", (6, 13)),
        ] == shapes

    def test_a_tied_model_has_no_output_matrix(self) -> None:
        """Everything else is the same."""
        names = [[p.name for p in made(replace(PLAIN, tied=tied)).parameters] for tied in (False, True)]
        assert [*names[1], "output.weight"] == names[0]

    @pytest.mark.parametrize(
        ("sizes", "tensors", "scalars"),
        [
            (COURSE, 20, 264),
            (replace(COURSE, layers=1, context=2), 11, 144),
            (replace(COURSE, vocabulary=266, heads=1, layers=1), 11, 1188),
            (replace(COURSE, layers=0), 2, 24),
            (replace(COURSE, tied=False), 21, 284),
        ],
    )
    def test_the_counts_of_the_course(self, sizes: LlamaConfiguration, tensors: int, scalars: int) -> None:
        """Chapters 32, 33 and 39: V·d + L·(4·d·d + 3·d·ff + 2·d) + d."""
        model = made(sizes)
        assert (tensors, scalars) == (len(model.parameters), parameter_count(model.parameters))
        assert scalars == weight_count(model.parameters)

    def test_matrices_decay_and_gains_do_not(self) -> None:
        """By their names."""
        names = {parameter.name for parameter in made(COURSE).parameters}
        assert {name for name in names if not name.endswith(".gain")} == set(decayed_names(made(COURSE).parameters))

    @pytest.mark.parametrize("tied", [False, True])
    def test_one_stream_draws_all_matrices_in_order(self, tied: bool) -> None:
        """Row-major from U(−limit, limit), limit √(6 / (in + out)); gains are ones and draw nothing."""
        generator, stream = SplitMix64(7), SplitMix64(7)
        for parameter in Llama.initialize(replace(PLAIN, tied=tied), generator).parameters:
            if parameter.name.endswith(".gain"):
                assert np.ones(6).tolist() == parameter.value.tolist()
                continue
            limit = math.sqrt(6.0 / sum(parameter.shape))
            expected = [limit * (2.0 * stream.unit() - 1.0) for _ in range(parameter.value.size)]
            assert expected == parameter.value.ravel().tolist()
        assert stream.next_u64() == generator.next_u64()


class TestSizes:
    """What a configuration refuses, and in which order it looks."""

    BAD: tuple[tuple[dict[str, object], CaiReferenceError], ...] = (
        ({"vocabulary": 0}, ModelError("size-too-small", name="vocabulary", size=0)),
        ({"width": 0}, ModelError("size-too-small", name="width", size=0)),
        ({"heads": 0}, ModelError("size-too-small", name="heads", size=0)),
        ({"head_width": 3}, LayerError("odd-rope-width", width=3)),
        ({"key_value_heads": 3}, LayerError("key-value-heads-do-not-divide", heads=4, key_value_heads=3)),
        ({"feed_forward": -1}, ModelError("size-too-small", name="feed_forward", size=-1)),
        ({"context": 0}, ModelError("size-too-small", name="context", size=0)),
        ({"rope_base": 0.0}, LayerError("invalid-rope-base", base=0.0)),
        ({"epsilon": math.nan}, LayerError("invalid-norm-epsilon", epsilon=math.nan)),
        ({"layers": -2}, ModelError("negative-layers", layers=-2)),
        ({"window": 0}, LayerError("window-too-small", window=0)),
    )

    @pytest.mark.parametrize("first", range(len(BAD)))
    def test_the_first_offence_is_named(self, first: int) -> None:
        """With everything behind it wrong as well."""
        changes: dict[str, object] = {}
        for change, _ in self.BAD[first:]:
            changes |= change
        with raises(self.BAD[first][1]):
            replace(PLAIN, **changes)  # type: ignore[arg-type]

    def test_what_is_left_out(self) -> None:
        """As many keys as queries, and heads of d / H."""
        sizes = replace(PLAIN, width=8, head_width=None, key_value_heads=None)
        assert (2, 4) == (sizes.features, sizes.groups)

    @pytest.mark.parametrize(
        ("ids", "batch", "expected"),
        [
            ([], 1, ModelError("empty-sequence")),
            ([1, 2], 0, ModelError("empty-sequence")),
            ([9] * 5, 1, ModelError("sequence-too-long", length=5, context=4)),
            ([1, 2, 7], 1, LayerError("token-id-out-of-bounds", position=2, token_id=7, vocabulary_size=5)),
        ],
    )
    def test_tokens_that_are_refused(self, ids: list[int], batch: int, expected: CaiReferenceError) -> None:
        """None, too many, and unknown ones, looked for in this order."""
        with raises(expected):
            made(COURSE).forward(Tape(STRICT), ids, batch)


class TestByHand:
    """Models small enough to work out."""

    def test_no_layers(self) -> None:
        """The logit of id j after id i is the product of their embeddings over the root of the mean square of i's."""
        model = made(replace(COURSE, layers=0, epsilon=0.0))
        table = np.array([[3.0, 4.0, 0.0, 0.0], [0.0, 0.0, 2.0, 0.0], *np.eye(4)[:3]])
        model.table.assign(table)
        # Mean squares 25/4 and 1, so the rows are divided by 2.5 and 1.
        expected = [[10.0, 0.0, 1.2, 1.6, 0.0], [0.0, 4.0, 0.0, 0.0, 2.0]]
        assert np.allclose(expected, logits(model, [0, 1]), rtol=1e-15, atol=0.0)

    def test_id_zero_is_a_token_like_others(self) -> None:
        """Its embedding is read and not a zero vector."""
        model = made(COURSE)
        seen: dict[str, Array] = {}
        model.forward(Tape(STRICT), [0, 1], 1, observe=lambda name, value: seen.update({name: value.value}))
        assert model.table.value[:2].tolist() == seen["embedding"][0].tolist()

    def test_a_block_of_identities(self) -> None:
        """Twice a unit vector, ε 0: 2 + 2 from attention, normalised to 2, gated to 4σ(2) (course, chapter 31)."""
        model = made(replace(COURSE, layers=1, epsilon=0.0, rope_base=100.0))
        for parameter in model.parameters:
            if len(parameter.shape) == 2 and parameter.shape[0] == 4:
                parameter.assign(np.eye(4))
        model.table.assign(np.concatenate([2.0 * np.eye(4), np.ones((1, 4))]))
        seen: dict[str, Array] = {}
        model.forward(Tape(STRICT), [0, 1, 2], 1, observe=lambda name, value: seen.update({name: value.value}))
        first = seen["blocks.0.output"][0, 0]
        assert pytest.approx([4.0 + 4.0 / (1.0 + math.exp(-2.0)), 0.0, 0.0, 0.0], rel=1e-15) == first.tolist()
        # Token 1 is turned by one radian within head 0: scores are 4 · sin 1 with token 0, and 4 with itself, over √2.
        weights = np.exp(np.array([-4.0 * math.sin(1.0), 4.0]) / math.sqrt(2.0))
        assert np.allclose(weights / weights.sum(), seen["blocks.0.mixer.weights"][0, 0, 1, :2], rtol=1e-14)

    def test_stages_come_in_the_order_of_the_computation(self) -> None:
        """From the embedding to the logits."""
        names: list[str] = []
        small("grouped").forward(Tape(STRICT), [1, 2], 1, observe=lambda name, value: names.append(name))
        block = ["norm1", *(f"mixer.{stage}" for stage in ("query", "key", "value", "weights", "mixture")), "mixed"]
        block += ["residual", "feed_forward.gated", "output"]
        expected = [f"blocks.{layer}.{stage}" for layer in range(2) for stage in block]
        assert ["embedding", *expected, "final_norm", "logits.0"] == names
