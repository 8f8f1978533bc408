"""What PyTorch's engine says of itself and of folders, and the pieces that its models are made of."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from cai_conformance.engine import (
    CopyingEngine,
    DroppingEngine,
    FailingEngine,
    Feature,
    GeneratingEngine,
    Nondeterminism,
    PoisonableEngine,
    Precision,
    Refused,
    TrainingEngine,
)
from cai_reference.layers.projection import interleaving
from support_foreign_engines import DECODERS, NO_TORCH, drawn, fed_afresh, given

if TYPE_CHECKING:
    from cai_conformance.backends.torch.engine import TorchEngine

Folder = Callable[[str], Path]


@pytest.fixture
def torch() -> Any:
    """PyTorch, where it is installed."""
    return pytest.importorskip("torch", reason=NO_TORCH)


def changed(folder: Path, target: Path, **settings: object) -> Path:
    """Copy a folder, with other settings."""
    target.mkdir()
    for file in folder.iterdir():
        (target / file.name).write_bytes(file.read_bytes())
    path = target / "config.json"
    path.write_text(json.dumps({**json.loads(path.read_text("utf-8")), **settings}), "utf-8")
    return target


class TestDescription:
    """Who it is."""

    def test_it_can_do_everything(self, engine: TorchEngine) -> None:
        """Every feature, and the methods that belong to it."""
        assert frozenset(Feature) == engine.description.features
        kinds = (CopyingEngine, DroppingEngine, FailingEngine, GeneratingEngine, PoisonableEngine, TrainingEngine)
        assert all(isinstance(engine, kind) for kind in kinds)

    def test_it_is_known_before_anything_is_loaded(self, engine: TorchEngine, torch: Any) -> None:
        """Its formats among it."""
        found = engine.description
        assert ("PyTorch on cpu", torch.__version__, "float64") == (found.name, found.version, found.arithmetic)
        assert (Precision.uniform("float64"), ("float64", "float32", "bfloat16")) == (found.precision, found.precisions)
        assert (Nondeterminism.BATCH, frozenset({"full", "cached"}), 16) == (
            found.nondeterminism,
            found.arms,
            found.slots,
        )

    def test_other_formats_and_devices_are_refused(self, torch: Any) -> None:
        """Before a model is there."""
        from cai_conformance.backends.torch.engine import TorchEngine

        with pytest.raises(Refused, match="refuses the format float16: it has float64, float32, bfloat16"):
            TorchEngine("float16")
        if not torch.cuda.is_available():
            with pytest.raises(Refused, match="refuses the device cuda: PyTorch finds none"):
                TorchEngine(device="cuda")


class TestFolders:
    """What a folder says is followed or refused."""

    @pytest.mark.parametrize("suite", DECODERS)
    def test_what_is_stated_is_what_the_suite_follows(self, engine: TorchEngine, folder: Folder, suite: str) -> None:
        """In its words."""
        stated = engine.load(folder(suite)).conventions
        model = given(suite)
        expected = dict(model.phase.conventions(model.sizes))
        assert stated == {key: expected[key] for key in stated}
        assert {"rope", "window", "softmax_scale", "tie", "norm_eps"} <= stated.keys()

    @pytest.mark.parametrize(
        ("settings", "text"),
        [
            ({"hidden_act": "gelu"}, "hidden_act is 'gelu', not 'silu'"),
            ({"attention_bias": True}, "attention_bias is True, not False"),
            ({"rope_parameters": {"rope_type": "yarn", "rope_theta": 1.0}}, "rope_type is 'yarn', not 'default'"),
            ({"model_type": "qwen3"}, "model_type is 'qwen3', not one of llama, mistral"),
            ({"num_hidden_layers": 3}, "the tensor 'model.layers.2.input_layernorm.weight' is missing"),
            ({"num_hidden_layers": 1}, "the tensor 'model.layers.1.input_layernorm.weight' is unknown"),
            ({"vocab_size": 321}, r"the tensor 'model.embed_tokens.weight' has the shape \[320, 32\]"),
            ({"hidden_size": 0}, "hidden_size is 0, which is no number from 1 on"),
        ],
    )
    def test_other_models_are_refused(
        self, engine: TorchEngine, folder: Folder, tmp_path: Path, settings: dict[str, object], text: str
    ) -> None:
        """In words; what was loaded before stays."""
        engine.load(folder("llama.dense"))
        before = fed_afresh(engine, drawn(5, 1)).tobytes()
        with pytest.raises(Refused, match=f"PyTorch on cpu refuses the folder: {text}"):
            engine.load(changed(folder("llama.dense"), tmp_path / "changed", **settings), "float32")
        assert before == fed_afresh(engine, drawn(5, 1)).tobytes()
        assert "float64" == engine.description.arithmetic

    def test_a_folder_without_its_files_is_refused(self, engine: TorchEngine, tmp_path: Path) -> None:
        """Whatever is missing or broken."""
        with pytest.raises(Refused, match=r"No such file.*config\.json"):
            engine.load(tmp_path)
        (tmp_path / "config.json").write_text("[]", "utf-8")
        with pytest.raises(Refused, match=r"config\.json is no object"):
            engine.load(tmp_path)

    def test_broken_weights_are_refused(self, engine: TorchEngine, folder: Folder, tmp_path: Path) -> None:
        """As the library says."""
        broken = changed(folder("llama.dense"), tmp_path / "broken")
        (broken / "model.safetensors").write_bytes(b"\0" * 20)
        with pytest.raises(Refused, match=r"model\.safetensors cannot be read"):
            engine.load(broken)

    def test_loading_leaves_the_generator_of_pytorch_alone(
        self, engine: TorchEngine, folder: Folder, torch: Any
    ) -> None:
        """Its modules draw numbers for a start."""
        before = torch.random.get_rng_state()
        engine.load(folder("llama.dense"))
        assert torch.equal(before, torch.random.get_rng_state())

    def test_threads_are_put_back(self, engine: TorchEngine, folder: Folder, torch: Any) -> None:
        """One thread computes, however many there are."""
        threads = torch.get_num_threads()
        engine.load(folder("llama.dense"))
        try:
            torch.set_num_threads(2)
            fed_afresh(engine, drawn(5, 1))
            assert 2 == torch.get_num_threads()
        finally:
            torch.set_num_threads(threads)


class TestPieces:
    """What models are made of, against independent words for the same."""

    @pytest.mark.parametrize("adjacent", [True, False])
    def test_pairs_are_turned_as_complex_numbers(self, torch: Any, adjacent: bool) -> None:
        """By position · base^(−2j/width)."""
        from cai_conformance.backends.torch.attention import TorchRope

        x = np.arange(24.0).reshape(1, 3, 8) / 7 - 1
        positions = np.array([[0, 1, 3000]])
        pairs = x[..., 0::2] + 1j * x[..., 1::2] if adjacent else x[..., :4] + 1j * x[..., 4:]
        turned = pairs * np.exp(1j * positions[..., None] * 500.0 ** (-np.arange(0, 8, 2) / 8))
        found = TorchRope(500.0, adjacent)(torch.tensor(x), torch.tensor(positions)).numpy()
        halves = (found[..., 0::2], found[..., 1::2]) if adjacent else (found[..., :4], found[..., 4:])
        assert np.max(np.abs(halves[0] + 1j * halves[1] - turned)) < 1e-12

    @pytest.mark.parametrize(("outputs", "groups"), [(24, 3), (96, 3), (320, 2)])
    def test_channels_are_shuffled_as_the_reference_interleaves(self, torch: Any, outputs: int, groups: int) -> None:
        """PyTorch's own layer, seen from the other side."""
        step = outputs // groups
        numbers = torch.arange(outputs, dtype=torch.float64).reshape(1, outputs, 1)
        found = torch.nn.ChannelShuffle(step)(numbers).flatten().tolist()
        assert interleaving(outputs, step) == found

    def test_tensors_return_to_the_file_as_they_came(self, torch: Any) -> None:
        """However they are turned in between."""
        from cai_conformance.backends.torch.weights import MatrixTurn, WeightPlace

        grouped, matrix = torch.arange(24.0).reshape(2, 3, 4), torch.arange(6.0).reshape(2, 3)
        places = [(WeightPlace("g", MatrixTurn.GROUPED, 2), grouped), (WeightPlace("m", MatrixTurn.TRANSPOSED), matrix)]
        for place, value in [*places, (WeightPlace("n", MatrixTurn.NONE), matrix)]:
            assert torch.equal(value, place.to_file(place.from_file(value)))
        assert (8, 3, 1) == places[0][0].from_file(grouped).shape
        assert 5.0 == float(places[0][0].from_file(grouped)[1, 1, 0])

    def test_a_ring_knows_what_it_holds(self, torch: Any) -> None:
        """Six rows and eight to go back: of twenty tokens, the last fourteen."""
        from cai_conformance.backends.torch.cache import LayerCache, Remembered

        cache = LayerCache(Remembered(6, {"row": ()}), 1, 48, torch.float64, torch.device("cpu"))
        cache.store(0, 0, {"row": torch.arange(17.0, dtype=torch.float64)})
        cache.store(0, 17, {"row": torch.arange(17.0, 20.0, dtype=torch.float64)})
        past = cache.past(torch.tensor([0]), 20)
        assert sorted(past.indices[0].tolist()) == list(range(6, 20))
        assert past.indices[0].tolist() == past.rows["row"][0].tolist()
        assert [False, True, True] == [cache.can_be_cut(0, length) for length in (11, 12, 20)]
