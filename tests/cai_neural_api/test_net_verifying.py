"""Verifying nets: what the library measured passes, and one wrong number anywhere does not."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from cai_conformance.errors import InputError
from cai_conformance.fixtures.files import InterchangeError
from cai_neural_api.chat import Writer
from cai_neural_api.decode.arm_list import ArmList, DecodeSettings
from cai_neural_api.errors import NetInputError
from cai_neural_api.exchange import read_net
from cai_neural_api.format import NetFile, format_net
from cai_neural_api.net.graph import Net
from cai_neural_api.net.structure import LayerSpec
from cai_neural_api.sampling import LibraryGreedy
from cai_neural_api.tokenizer import Vocabulary
from cai_neural_api.verify.output_checks import no_clock
from cai_neural_api.verify.session_checks import SampleComparison
from cai_neural_api.verify.verification import NetVerification, Tolerances, verify_net
from cai_reference.arithmetic.instances import FAST
from support_net_questions import (
    ATTENTION,
    CONTEXT,
    LATENT,
    LOCAL,
    biases_shifted,
    cai_net,
    changed,
    decoder_net,
    edit,
    sample_folder,
    with_spec,
    write,
)
from support_nn_file import KINDS, SAMPLES, needs_samples
from support_refusals import refuses

COUNTS = "counts and sizes"
FORWARD = "forward rows"
FULL = "tokens, full re-encode"
SESSION = "tokens, session"
STREAMED = "tokens, streamed generator"
ROWS = "session rows"
GRADIENTS = "gradients"
WEIGHTS = "weights after fits"
LOSSES = "losses of fit steps"
ERRORS = "errors of fit steps"
INITIAL = "initial values from the seed"
ORDINARY = ("phase1", "mla", "draft")
"""Kinds that every test run verifies whole."""

EVERYTHING = [COUNTS, FORWARD, FULL, SESSION, STREAMED, ROWS, GRADIENTS, WEIGHTS, LOSSES, ERRORS, INITIAL]


@cache
def real(name: str) -> NetVerification:
    """Verify a sample of the library, once."""
    return verified(SAMPLES / name)


def verified(sample: Path, net: Path | None = None) -> NetVerification:
    """Verify the net beside a sample."""
    return verify_net(net or sample.with_suffix(".nn"), sample, Tolerances(), FAST)


def failed(found: NetVerification) -> dict[str, str]:
    """Return the quantities that failed, with the first place of each."""
    return {each.quantity: each.first for each in found.comparisons if not each.passed}


def comparison(found: NetVerification, quantity: str) -> SampleComparison:
    """Return the comparison of a quantity."""
    return next(each for each in found.comparisons if each.quantity == quantity)


@needs_samples
class TestRealSamples:
    """Nets of the library against what it did with them."""

    @pytest.mark.parametrize(
        "kind", [kind if kind in ORDINARY else pytest.param(kind, marks=pytest.mark.exhaustive) for kind in KINDS]
    )
    def test_everything_is_as_measured(self, kind: str) -> None:
        """With the siblings, every field and no exception; errors are far below the tolerances."""
        found = real(f"{kind}.json")
        assert ({}, (), ()) == (failed(found), found.missing, found.unknown)
        files = ["json", "train.json", "grad.json", "trained0.nn", "trained1.nn", "init.nn"]
        assert sorted(f"{kind}.{end}" for end in files) == sorted(found.files)
        assert all(each.values > 0 for each in found.comparisons)
        assert comparison(found, FORWARD).largest < 2e-6
        assert comparison(found, WEIGHTS).largest < 3e-5

    def test_all_quantities_are_there(self) -> None:
        """In the order of reading; a draft is also decoded net-wide."""
        assert EVERYTHING == [each.quantity for each in real("phase1.json").comparisons]
        draft = [each.quantity for each in real("draft.json").comparisons]
        assert {*EVERYTHING, "tokens, net-level incremental", "tokens, width 2"} == set(draft)

    def test_values_are_counted(self) -> None:
        """Three inputs of 6 rows and 11 channels; 12 new tokens; 818 weights, 83 biases and 7 that are unused."""
        found = real("phase1.json")
        counted = {each.quantity: each.values for each in found.comparisons}
        assert (3 * 6 * 11, 12, 3 * 5 * 11) == (counted[FORWARD], counted[FULL], counted[ROWS])
        stored = 818 + 83 + 7
        assert (stored, 2 * stored, 2 * 3, stored) == (
            counted[GRADIENTS],
            counted[WEIGHTS],
            counted[LOSSES],
            counted[INITIAL],
        )

    def test_the_edges_of_a_session(self) -> None:
        """Six sessions: plain, evicting, 8 bits, restored, cut, overflowing."""
        found = verified(SAMPLES / "session_edge.json", SAMPLES / "phase1.nn")
        assert ({}, ()) == (failed(found), found.unknown)
        rows = {each.quantity.removeprefix("session rows, "): each.values // 11 for each in found.comparisons[::2]}
        expected = {"plain": 6, "evict_sink1_window2": 6, "int8_kv": 6, "snapshot": 9, "overflow_maxcache2": 4}
        assert {**expected, "after_truncate_to_2": 8} == rows

    def test_gradients_by_themselves_find_their_stories(self) -> None:
        """In the file beside them."""
        found = verified(SAMPLES / "ssm.grad.json", SAMPLES / "ssm.nn")
        assert ([GRADIENTS], True) == ([each.quantity for each in found.comparisons], found.passed)
        assert ("ssm.grad.json", "ssm.train.json") == found.files

    @pytest.mark.exhaustive
    def test_fits_by_themselves(self) -> None:
        """With the gradients that they name, but without outputs."""
        found = verified(SAMPLES / "mla.train.json", SAMPLES / "mla.nn")
        assert [GRADIENTS, WEIGHTS, LOSSES, ERRORS] == [each.quantity for each in found.comparisons]
        assert found.passed

    def test_a_net_of_another_kind_fails(self) -> None:
        """Everything that the two do not share."""
        found = verified(SAMPLES / "ssm.json", SAMPLES / "phase1.nn")
        assert set(EVERYTHING) == failed(found).keys()
        assert "weights: expected 722, found 818" == failed(found)[COUNTS]


def nudge(key: str, *path: int | str, by: float = 1e-3) -> Callable[[Any], object]:
    """Return a change of one number of a JSON document."""

    def change(value: Any) -> None:
        inner = value[key]
        for step in path[:-1]:
            inner = inner[step]
        inner[path[-1]] += by

    return change


def of_decoding(quantity: str) -> bool:
    """Whether a quantity comes from decoded prompts."""
    return quantity.startswith("tokens") or quantity == ROWS


@needs_samples
class TestOneWrongNumber:
    """Each is found, by the quantity that it belongs to, at its place."""

    @pytest.mark.parametrize(
        ("kind", "file", "change", "quantity", "first"),
        [
            ("phase1", "phase1.json", nudge("forward", 1, "output", 4, 9), FORWARD, "example 1, row 4, channel 9: "),
            ("phase1", "phase1.json", nudge("forward", 2, "output", 5, 0, by=-2e-5), FORWARD, "example 2, row 5, chan"),
            ("phase1", "phase1.json", nudge("decode", 2, "greedy_full", 4, by=1), FULL, "prompt 2, position 4: expe"),
            ("ssm", "ssm.json", nudge("decode", 1, "greedy_session", 5, by=1), SESSION, "prompt 1, position 5: expe"),
            ("ssm", "ssm.json", nudge("decode", 0, "session_rows", 3, 2), ROWS, "prompt 0, row 3, channel 2: expected"),
            ("mtp", "mtp.json", nudge("decode", 0, "session_rows", 3, 32), ROWS, "prompt 0, row 3, channel 32: "),
            (
                "phase1",
                "phase1.json",
                lambda value: value["decode"][0].update(library_streamed_eos_lt2=[10, 9, 10]),
                STREAMED,
                "prompt 0, position 3: expected the end of the sequence, found 4",
            ),
            ("draft", "draft.json", nudge("draft_decode", 1, "width2", 5, by=1), "tokens, width 2", "prompt 1, posit"),
            (
                "draft",
                "draft.json",
                nudge("draft_decode", 0, "net_incremental", 1, by=1),
                "tokens, net-level incremental",
                "prompt 0, position 1: expected 3, found 2",
            ),
            (
                "phase1",
                "phase1.json",
                lambda value: value.update(count_weights=819),
                COUNTS,
                "weights: expected 819, found 818",
            ),
            ("phase1", "phase1.json", nudge("session", "rope", by=1), COUNTS, "rotary layers: expected 5, found 4"),
            ("mtp", "mtp.json", nudge("config", "num_future", by=1), COUNTS, "future tokens: expected 4, found 3"),
            ("grouped", "grouped.grad.json", nudge("layers", "5", 3, 1, 1), GRADIENTS, "layer 5 (TNNetGroupedPoint"),
            ("grouped", "grouped.grad.json", nudge("layers", "5", 3, 0), GRADIENTS, "layer 5 (TNNetGroupedPoint"),
            ("phase1", "phase1.train.json", nudge("runs", 1, "step_loss", 2), LOSSES, "run 1 (rate 0.2), step 3: e"),
            ("phase1", "phase1.train.json", nudge("runs", 0, "step_error", 0), ERRORS, "run 0 (rate 0.01), step 1: "),
        ],
    )
    def test_in_a_json_file(
        self, tmp_path: Path, kind: str, file: str, change: Callable[[Any], object], quantity: str, first: str
    ) -> None:
        """Nothing else fails."""
        sample = sample_folder(tmp_path, kind, "nn", "trained0.nn", "trained1.nn", "json", "train.json", "grad.json")
        edit(tmp_path / file, change)
        if file == f"{kind}.json":
            # The siblings have nothing to do with it, nor has the other half of the file.
            (tmp_path / f"{kind}.train.json").unlink()
            edit(sample, lambda value: value.pop("forward" if of_decoding(quantity) else "decode"))
        found = failed(verified(tmp_path / file, sample.with_suffix(".nn")))
        assert [quantity] == list(found)
        assert found[quantity].startswith(first)

    @pytest.mark.parametrize(
        ("file", "quantity", "part"),
        [
            ("phase1.trained1.nn", WEIGHTS, "run 1 (rate 0.2), layer 21 (TNNetPointwiseConvLinear), neuron 2, "),
            ("phase1.init.nn", INITIAL, "layer 21 (TNNetPointwiseConvLinear), neuron 2, "),
        ],
    )
    def test_in_a_net(self, tmp_path: Path, file: str, quantity: str, part: str) -> None:
        """A bias or a weight of a final net, or of the initial one."""
        ends = (
            ("nn", "json", "init.nn")
            if file.endswith("init.nn")
            else ("nn", "train.json", "trained0.nn", "trained1.nn")
        )
        sample = sample_folder(tmp_path, "phase1", *ends)
        given, original = sample.with_suffix(".nn"), read_net(tmp_path / file)
        for name, net in (
            ("bias", biases_shifted(original, 21, 2, 1e-3)),
            ("weight 5", weight_shifted(original, 21, 2, 5)),
        ):
            write(tmp_path / file, net)
            found = failed(verified(sample if file.endswith("init.nn") else tmp_path / "phase1.train.json", given))
            assert [quantity] == list(found)
            assert found[quantity].startswith(f"{part}{name}: expected ")

    def test_in_the_edges_of_a_session(self, tmp_path: Path) -> None:
        """A row, and a length of the caches."""
        sample = tmp_path / "edges.json"
        shutil.copyfile(SAMPLES / "session_edge.json", sample)
        edit(sample, nudge("int8_kv", 3, "row", 4))
        edit(sample, nudge("after_truncate_to_2", 1, "cache_len", by=1))
        found = failed(verified(sample, SAMPLES / "phase1.nn"))
        assert found["session rows, int8_kv"].startswith("int8_kv, step 3, channel 4: expected ")
        length = "after_truncate_to_2, step 1, cache 0: expected 5, found 4"
        assert (2, length) == (len(found), found["cache lengths, after_truncate_to_2"])

    @pytest.mark.exhaustive
    def test_in_the_net_itself(self, tmp_path: Path) -> None:
        """Outputs, gradients and fits follow from the weights; counts do not."""
        sample = sample_folder(tmp_path, "mla")
        write(tmp_path / "mla.nn", weight_shifted(read_net(tmp_path / "mla.nn"), 4, 1, 3, 0.5))
        assert {FORWARD, ROWS, GRADIENTS, WEIGHTS, LOSSES, ERRORS} <= failed(verified(sample)).keys()


def weight_shifted(net: NetFile, layer: int, neuron: int, weight: int, by: float = 1e-3) -> NetFile:
    """Return a net with one weight shifted."""
    rows = {id(net.neurons[layer][neuron])}

    def change(old: Any) -> Any:
        if id(old) not in rows:
            return old
        weights = old.weights.copy()
        weights[weight] += by
        return type(old)(old.bias, weights, old.shape)

    return changed(net, layer, change)


@needs_samples
class TestWhatIsLeftOut:
    """Biases of keys without rotation: rounding noise decides on them."""

    def test_they_are_told_with_their_error(self) -> None:
        """Eight biases of layer 5 of the sample with latent attention."""
        text = comparison(real("mla.json"), WEIGHTS).left_out
        assert text.startswith("biases 8 of layer 5: they add the same to every key")
        assert float(text.rpartition(" ")[2]) > 0.05

    def test_only_the_biases_are_left_out(self, tmp_path: Path) -> None:
        """The weights of the same neurons are judged."""
        sample_folder(tmp_path, "mla", "nn", "train.json", "trained0.nn")
        fits, net = tmp_path / "mla.train.json", tmp_path / "mla.nn"
        original = read_net(tmp_path / "mla.trained0.nn")
        write(tmp_path / "mla.trained0.nn", biases_shifted(original, 5, 3, 0.5))
        assert {} == failed(verified(fits, net))
        write(tmp_path / "mla.trained0.nn", weight_shifted(original, 5, 3, 1))
        assert failed(verified(fits, net))[WEIGHTS].startswith(
            "run 0 (rate 0.01), layer 5 (TNNetPointwiseConvLinear), n"
        )

    def test_nothing_is_left_out_of_a_net_that_rotates_all_keys(self) -> None:
        """Their biases are judged."""
        assert "" == comparison(real("phase1.json"), WEIGHTS).left_out


@needs_samples
class TestIncompleteSamples:
    """A sibling may be missing, a field unknown."""

    def test_missing_siblings_are_named(self, tmp_path: Path) -> None:
        """And are no failure."""
        for name in ("ssm.nn", "ssm.json"):
            shutil.copyfile(SAMPLES / name, tmp_path / name)
        found = verified(tmp_path / "ssm.json")
        assert (True, ("ssm.json",)) == (found.passed, found.files)
        assert ("ssm.train.json", "ssm.init.nn") == found.missing

    def test_a_missing_final_net_leaves_its_reports(self, tmp_path: Path) -> None:
        """Losses and errors are compared, weights of the other run, too."""
        sample_folder(tmp_path, "ssm", "nn", "train.json", "trained1.nn", "grad.json")
        found = verified(tmp_path / "ssm.train.json", tmp_path / "ssm.nn")
        assert (True, ("ssm.trained0.nn",)) == (found.passed, found.missing)
        assert 800 == comparison(found, WEIGHTS).values

    def test_gradients_beside_no_stories_are_named(self, tmp_path: Path) -> None:
        """Nobody can tell what they are of."""
        for name in ("ssm.nn", "ssm.json", "ssm.grad.json", "ssm.init.nn"):
            shutil.copyfile(SAMPLES / name, tmp_path / name)
        found = verified(tmp_path / "ssm.json")
        assert "ssm.train.json, which holds the stories of ssm.grad.json" in found.missing
        with refuses(NetInputError, "stories-missing", match=r"ssm\.train\.json is not beside it"):
            verified(tmp_path / "ssm.grad.json", tmp_path / "ssm.nn")

    def test_the_name_of_a_kind_means_nothing(self, tmp_path: Path) -> None:
        """Everything follows from the layers."""
        sample = sample_folder(tmp_path, "draft", "nn", "json")
        edit(sample, lambda value: value.update(kind="hybrid", extra=[1]))
        found = verified(sample)
        assert (True, ("draft.json: extra",)) == (found.passed, found.unknown)

    def test_unknown_sequences_of_steps_are_named(self, tmp_path: Path) -> None:
        """So is a part without its beginning."""
        sample = tmp_path / "edges.json"
        shutil.copyfile(SAMPLES / "session_edge.json", sample)
        edit(sample, lambda value: value.update(compressed=value.pop("pre_snapshot")))
        found = verified(sample, SAMPLES / "phase1.nn")
        assert found.passed
        parts = ("compressed", "after_snapshot_first", "after_restore")
        assert {f"edges.json: {name}" for name in parts} == set(found.unknown)


class TestNetsWithoutSamples:
    """Layers that the sample files do not have."""

    def test_a_net_that_cannot_be_streamed(self, tmp_path: Path) -> None:
        """In the library's session every token is alone; values are by the same net, so that only the way is tested."""
        net = write(tmp_path / "cai.nn", cai_net())
        ids = [1 + position % 9 for position in range(CONTEXT)]
        rows = Net.from_file(cai_net()).run(FAST, [ids]).output[0].tolist()
        sample = tmp_path / "cai.json"
        sample.write_text(json.dumps({"kind": "cai", "forward": [{"input": ids, "output": rows}]}), encoding="utf-8")
        assert [FORWARD] == [each.quantity for each in verified(sample, net).comparisons]
        assert verified(sample, net).passed
        alone = Net.from_file(cai_net())
        fed = [1, 5]
        session_rows = [alone.run(FAST, [[token]]).output[0, 0].tolist() for token in fed]
        chosen = int(np.argmax(session_rows[-1]))
        decode = {"prompt": fed, "greedy_session": [*fed, chosen], "session_rows": session_rows}
        edit(sample, lambda value: value.update(decode=[decode]))
        assert {} == failed(verified(sample, net))
        edit(sample, lambda value: value["decode"][0]["session_rows"].reverse())
        assert "prompt 0, row 0, channel" in failed(verified(sample, net))[ROWS]

    def test_stated_sizes_are_those_of_the_layers(self, tmp_path: Path) -> None:
        """Widths, heads, window and latent, each with its name; what the layers do not say is not asked."""
        net = write(tmp_path / "a.nn", decoder_net(LOCAL, LATENT))
        sizes = {"d_model": 8, "heads": 2, "ffn": 12, "window": 3, "latent": 4, "rope": 2, "blocks": 99}
        sample = tmp_path / "a.json"
        for wrong in (None, "d_model", "heads", "ffn", "window", "latent", "rope"):
            stated = {name: size + (name == wrong) for name, size in sizes.items()}
            sample.write_text(json.dumps({"forward": [], "config": stated}), encoding="utf-8")
            assert (wrong is None) == verified(sample, net).passed, wrong

    def test_a_context_that_nothing_bears_out_costs_no_memory(self, tmp_path: Path) -> None:
        """It is refused before anything is run."""
        net = decoder_net(ATTENTION)
        first = net.specs[0]
        huge = LayerSpec(first.kind, first.previous, (2**31 - 1, *first.integers[1:]), first.floats, first.listed)
        path = write(tmp_path / "a.nn", with_spec(net, 0, huge))
        sample = tmp_path / "a.json"
        sample.write_text('{"decode": [{"prompt": [1], "greedy_full": [1, 2]}]}', encoding="utf-8")
        with refuses(NetInputError, "net-too-large"):
            verified(sample, path)
        with refuses(NetInputError, "net-too-large"):
            ArmList(read_net(path), FAST, DecodeSettings(), no_clock)
        writer = Writer(Net.from_file(read_net(path)), Vocabulary(()), FAST)
        assert 3 == len(list(writer.steps([1], 3, LibraryGreedy())))
        with refuses(NetInputError, "net-too-large"):
            writer.steps([1], None, LibraryGreedy())

    def test_what_cannot_be_run_fails_with_its_reason(self, tmp_path: Path) -> None:
        """An id beyond the embedding."""
        net = write(tmp_path / "cai.nn", cai_net())
        sample = tmp_path / "cai.json"
        sample.write_text(json.dumps({"forward": [{"input": [999] * CONTEXT, "output": []}]}), encoding="utf-8")
        assert "example 0: position 0: id 999" in failed(verified(sample, net))[FORWARD]


class TestRefusals:
    """Files that cannot be used."""

    def test_a_damaged_net(self, tmp_path: Path) -> None:
        """Its line or layer is named."""
        net, sample = tmp_path / "a.nn", tmp_path / "a.json"
        net.write_bytes(format_net(cai_net())[:-1])
        sample.write_text('{"forward": []}', encoding="utf-8")
        with refuses(InterchangeError, "unreadable-net", match="line 2 has no line end"):
            verified(sample)

    def test_a_missing_sample(self, tmp_path: Path) -> None:
        """The operating system says so."""
        write(tmp_path / "a.nn", cai_net())
        with refuses(InputError, "input-unreadable"):
            verified(tmp_path / "a.json")

    def test_a_sibling_with_a_name_that_no_file_can_have(self, tmp_path: Path) -> None:
        """It is named."""
        write(tmp_path / "a.nn", cai_net())
        run = {"lr": 0.01, "batch": 1, "step_loss": [1.0], "step_error": [2.0], "final": "a" * 300}
        (tmp_path / "a.json").write_text(json.dumps({"stories": [[1]], "runs": [run]}), encoding="utf-8")
        with refuses(InputError, "input-unreadable", match="aaa"):
            verified(tmp_path / "a.json")

    def test_a_sample_that_states_nothing(self, tmp_path: Path) -> None:
        """It must not look like one that was verified."""
        write(tmp_path / "a.nn", cai_net())
        (tmp_path / "a.json").write_text('{"forward": []}', encoding="utf-8")
        with refuses(NetInputError, "nothing-to-verify"):
            verified(tmp_path / "a.json")

    def test_a_sibling_of_another_layout(self, tmp_path: Path) -> None:
        """It is damaged, not ignored."""
        write(tmp_path / "a.nn", cai_net())
        (tmp_path / "a.json").write_text('{"forward": [], "layers": 1}', encoding="utf-8")
        (tmp_path / "a.train.json").write_text('{"forward": []}', encoding="utf-8")
        with refuses(NetInputError, "sample-damaged", match="it holds no stories"):
            verified(tmp_path / "a.json")
