"""`cai-conform vectors export`: folders that are whole, layouts that exist, and nothing replaced by accident."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from cai_conformance.fixtures.goldens.store import locate
from cai_conformance.suites import SUITES
from support_cli import invoke
from support_decode_given import read_tensors

ENGINES = ["llama.dense", "llama.gqa-window"]
MODEL = ["config.json", "generation_config.json", "model.safetensors", "trace.txt", "vectors.json"]
PLAIN = ["trace.txt", "vectors.json", "weights.safetensors"]


def names(folder: Path) -> list[str]:
    """Return what lies in a folder."""
    return sorted(found.name for found in folder.iterdir())


class TestContents:
    """What the folders hold."""

    def test_a_model_that_engines_load_is_the_golden_folder(self, tmp_path: Path) -> None:
        """Without a suite, all that engines can load; every file with the golden's bytes."""
        done = invoke("vectors", "export", tmp_path / "out", "--layout", "hf")
        assert (0, ["cai-conform: 2 folders in layout hf"]) == (done.code, done.sentences)
        assert ENGINES == names(tmp_path / "out")
        for suite in ENGINES:
            assert MODEL == names(tmp_path / "out" / suite)
            for name in MODEL:
                assert (locate() / suite / name).read_bytes() == (tmp_path / "out" / suite / name).read_bytes()
        assert [f"{tmp_path / 'out' / suite}: {', '.join(MODEL)}" for suite in ENGINES] == done.out.splitlines()

    def test_native_names_are_those_of_the_reference(self, tmp_path: Path) -> None:
        """Matrices are turned back: the query of a block is [inputs, outputs]."""
        assert 0 == invoke("vectors", "export", tmp_path, "gqa-window").code
        folder = tmp_path / "llama.gqa-window"
        assert PLAIN == names(folder)
        mine = read_tensors((folder / "weights.safetensors").read_bytes())
        theirs = read_tensors((locate() / "llama.gqa-window" / "model.safetensors").read_bytes())
        assert len(theirs) == len(mine)
        one, other = mine["blocks.1.attention.key.weight"], theirs["model.layers.1.self_attn.k_proj.weight"]
        assert ([32, 16], [16, 32]) == (one.shape, other.shape)
        assert [list(column) for column in zip(*one.matrix(), strict=True)] == other.matrix()
        assert mine["token_embedding.weight"] == theirs["model.embed_tokens.weight"]

    def test_every_suite_has_the_native_layout(self, tmp_path: Path) -> None:
        """It is the default, and holds what the golden holds wherever that is native."""
        done = invoke("vectors", "export", tmp_path)
        assert (0, [f"cai-conform: {len(SUITES)} folders in layout native"]) == (done.code, done.sentences)
        assert sorted(suite.identifier for suite in SUITES) == names(tmp_path)
        assert all(PLAIN == names(folder) for folder in tmp_path.iterdir())
        golden = locate() / "cai.kv-cache" / "weights.safetensors"
        assert golden.read_bytes() == (tmp_path / "cai.kv-cache" / "weights.safetensors").read_bytes()


class TestRefusals:
    """One sentence, exit code 2, and nothing written."""

    @pytest.mark.parametrize(
        ("suite", "sentence"),
        [
            ("course.ngram", "course.ngram has no layout 'hf': its model is no decoder"),
            ("hybrid", "cai.hybrid has no layout 'hf': engines have no layers such as dynamic tanh and a slab"),
        ],
    )
    def test_a_model_that_engines_cannot_load(self, tmp_path: Path, suite: str, sentence: str) -> None:
        """The reason stands in the sentence; suites named beside it are not written either."""
        done = invoke("vectors", "export", tmp_path / "out", "dense", suite, "--layout", "hf")
        assert 2 == done.code
        assert done.err.startswith(f"cai-conform: {sentence}")
        assert f"try: cai-conform vectors export DIR {sentence.split()[0]} --layout native" in done.err
        assert not (tmp_path / "out").exists()

    def test_a_folder_that_is_there(self, tmp_path: Path) -> None:
        """With --force it is replaced, and files of the other layout are gone."""
        assert 0 == invoke("vectors", "export", tmp_path, "dense", "--layout", "hf").code
        done = invoke("vectors", "export", tmp_path, "gqa-window", "dense")
        assert (2, [f"cai-conform: '{tmp_path / 'llama.dense'}' is already there"]) == (done.code, done.sentences)
        assert ["llama.dense"] == names(tmp_path), "the other one was not written either"
        assert 0 == invoke("vectors", "export", tmp_path, "dense", "--force").code
        assert PLAIN == names(tmp_path / "llama.dense")
        assert ["llama.dense"] == names(tmp_path)

    @pytest.mark.parametrize("name", ["notes.txt", "model.safetensors/part", ".hidden"])
    def test_a_folder_with_files_of_ones_own(self, tmp_path: Path, name: str) -> None:
        """No --force deletes what no export has written."""
        own = tmp_path / "llama.dense" / name
        own.parent.mkdir(parents=True)
        own.write_text("mine")
        done = invoke("vectors", "export", tmp_path, "dense", "--force")
        found = f"'{tmp_path / 'llama.dense'}' holds '{name.partition('/')[0]}', which no export writes"
        assert (2, [f"cai-conform: {found}, and is not replaced"]) == (done.code, done.sentences)
        assert "mine" == own.read_text()

    @pytest.mark.parametrize("link", [False, True])
    def test_something_else_of_the_same_name(self, tmp_path: Path, link: bool) -> None:
        """A file, or a link to a folder, is not replaced by --force."""
        place = tmp_path / "llama.dense"
        (tmp_path / "other").mkdir()
        place.symlink_to("other") if link else place.write_text("mine")
        done = invoke("vectors", "export", tmp_path, "dense", "--force")
        assert (2, [f"cai-conform: '{place}' is already there"]) == (done.code, done.sentences)
        assert link == place.is_symlink()

    def test_a_place_that_cannot_be_written(self, tmp_path: Path) -> None:
        """The operating system's words."""
        (tmp_path / "file").write_text("")
        done = invoke("vectors", "export", tmp_path / "file" / "out", "dense")
        assert 2 == done.code
        assert str(tmp_path / "file" / "out") in done.err
        assert "Not a directory" in done.err

    def test_a_write_that_fails_leaves_the_old_folder(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        """Whole folders are made first; what was there stays, and nothing lies about."""
        assert 0 == invoke("vectors", "export", tmp_path, "dense").code
        before = (tmp_path / "llama.dense" / "vectors.json").read_bytes()

        def full(_: int) -> None:
            raise OSError(28, "No space left on device")

        monkeypatch.setattr("cai_conformance.run.export.os.fsync", full)
        done = invoke("vectors", "export", tmp_path, "dense", "gqa-window", "--force")
        assert 2 == done.code
        assert "No space left on device" in done.err
        assert ["llama.dense"] == names(tmp_path)
        assert before == (tmp_path / "llama.dense" / "vectors.json").read_bytes()


@pytest.mark.parametrize(
    ("suite", "differing"),
    [
        ("llama.dense", {"rope_theta": 500000.0, "rms_norm_eps": 0.001, "num_key_value_heads": 4}),
        ("llama.gqa-window", {"rope_theta": 1000000.0, "rms_norm_eps": 0.0003, "num_key_value_heads": 2}),
    ],
)
def test_every_setting_of_the_model_is_stated(suite: str, differing: dict[str, object]) -> None:
    """Literals, so that a mistake in the project's plan shows; ids, shapes and precision among them."""
    windowed = suite == "llama.gqa-window"
    settings = json.loads((locate() / suite / "config.json").read_bytes())
    expected = {
        "architectures": ["MistralForCausalLM" if windowed else "LlamaForCausalLM"],
        "model_type": "mistral" if windowed else "llama",
        "vocab_size": 320,
        "hidden_size": 32,
        "intermediate_size": 48,
        "num_hidden_layers": 2,
        "num_attention_heads": 4,
        "head_dim": 8,
        "max_position_embeddings": 4096,
        "sliding_window": 7 if windowed else None,
        "tie_word_embeddings": windowed,
        "attention_bias": False,
        "mlp_bias": False,
        "hidden_act": "silu",
        "bos_token_id": 0,
        "eos_token_id": 1,
        "pad_token_id": None,
        "torch_dtype": "float32",
        "dtype": "float32",
        "rope_parameters": {"rope_type": "default", "rope_theta": differing["rope_theta"]},
        **differing,
    }
    assert expected == {name: settings[name] for name in expected}
    names = set(read_tensors((locate() / suite / "model.safetensors").read_bytes()))
    assert ("lm_head.weight" in names) == (not windowed)
    generation = json.loads((locate() / suite / "generation_config.json").read_bytes())
    assert (0, 1, 0, False) == tuple(
        generation[name] for name in ("bos_token_id", "eos_token_id", "pad_token_id", "do_sample")
    )
