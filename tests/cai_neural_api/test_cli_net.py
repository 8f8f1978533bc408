"""`net`: nets shown, verified, decoded, imported and exported; exit codes, and one sentence on whatever is wrong."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from cai_neural_api.exchange import import_net, read_net, read_weights, write_weights
from cai_neural_api.format import format_net
from support_cli import Result, invoke
from support_net_questions import ATTENTION, WORDS, cai_net, decoder_net, draft_net, edit, sample_folder, write
from support_nn_file import SAMPLES, needs_samples

pytestmark = pytest.mark.usefixtures("without_ci")


def objects(result: Result) -> list[dict[str, object]]:
    """Return the JSON lines of a result."""
    return [json.loads(line) for line in result.out.splitlines()]


def refused(result: Result) -> str:
    """Return the one sentence of a command that refused."""
    assert (2, "") == (result.code, result.out)
    (sentence,) = result.sentences
    assert "Traceback" not in sentence
    return sentence.removeprefix("cai-conform: ")


@pytest.fixture
def net(tmp_path: Path) -> Path:
    """A decoder of one block."""
    return write(tmp_path / "a.nn", decoder_net(ATTENTION))


@pytest.fixture
def vocabulary(tmp_path: Path) -> Path:
    """Five words."""
    path = tmp_path / "words.txt"
    path.write_bytes(WORDS)
    return path


class TestShow:
    """What a net is."""

    def test_an_object_in_a_pipe(self, net: Path) -> None:
        """With the totals; layers on request."""
        result = invoke("net", "show", net)
        (shown,) = objects(result)
        assert (0, "", str(net), 31) == (result.code, result.err, shown["file"], shown["layers"])
        assert 1 + 31 == len(objects(invoke("net", "show", net, "--layers")))

    def test_a_table_where_asked(self, net: Path) -> None:
        """With the decoder that it is."""
        result = invoke("net", "show", net, "--format", "table", environment={"COLUMNS": "80"})
        assert "decoder, width 8, 2 heads, feed-forward 12; 1 sequential" in result.out

    def test_a_damaged_net(self, net: Path) -> None:
        """The line is named."""
        net.write_bytes(net.read_bytes().replace(b"TNNetDyT", b"TNNetDyX", 1))
        assert "layer 2: the class 'TNNetDyX' is not known" in refused(invoke("net", "show", net))


@needs_samples
class TestVerify:
    """A net against measurements."""

    def test_a_real_sample_conforms(self) -> None:
        """Exit code 0, one object a quantity."""
        result = invoke("net", "verify", SAMPLES / "ssm.nn", SAMPLES / "ssm.json")
        *comparisons, summary = objects(result)
        assert (0, "", True, 11) == (result.code, result.err, summary["passed"], len(comparisons))

    def test_a_wrong_value_does_not(self, tmp_path: Path) -> None:
        """Exit code 1, and its place; a looser tolerance passes it."""
        sample = sample_folder(tmp_path, "ssm", "nn", "json")

        def change(value: dict[str, list[dict[str, list[list[float]]]]]) -> None:
            value["forward"][0]["output"][2][3] += 1e-3

        edit(sample, change)
        arguments = ("net", "verify", tmp_path / "ssm.nn", sample, "--quiet")
        result = invoke(*arguments, "--format", "table", environment={"COLUMNS": "100"})
        assert 1 == result.code
        assert "forward rows (ssm.json): example 0, row 2, channel 3: expected " in result.out
        assert "session rows" not in result.out
        assert 0 == invoke(*arguments, "--tolerance-rows", "0.01").code

    @pytest.mark.parametrize("tolerance", ["inf", "nan", "-1"])
    def test_a_tolerance_that_everything_passes_is_refused(self, net: Path, tolerance: str) -> None:
        """Values that are missing are infinitely far off."""
        result = invoke("net", "verify", net, net, "--tolerance-rows", tolerance)
        assert (2, "") == (result.code, result.out)
        assert "--tolerance-rows" in result.err

    def test_files_that_cannot_be_used(self, tmp_path: Path, net: Path) -> None:
        """A sample that is none, a net that is none, an arithmetic that is none."""
        sample = tmp_path / "a.json"
        sample.write_text('{"kind": "phase1"}', encoding="utf-8")
        assert "its layout is not known" in refused(invoke("net", "verify", net, sample))
        assert "cannot be read as a net" in refused(invoke("net", "verify", sample, sample))
        arithmetic = invoke("net", "verify", net, SAMPLES / "ssm.json", "--arithmetic", "slow")
        assert "slow" in refused(arithmetic)


class TestDecode:
    """Every way to continue a prompt."""

    def test_all_arms_agree(self, net: Path, vocabulary: Path, tmp_path: Path) -> None:
        """Exit code 0; an object an arm and prompt, with counters where it speculates."""
        draft = write(tmp_path / "draft.nn", draft_net())
        arguments = ("--vocabulary", vocabulary, "-p", "one day", "-p", "the", "--max-new", 4, "--draft", draft)
        result = invoke("net", "decode", net, *arguments)
        *arms, summary = objects(result)
        assert (0, "", True) == (result.code, result.err, summary["passed"])
        assert 2 * 10 == len(arms)
        speculation = next(arm for arm in arms if arm["arm"] == "speculation")["speculation"]
        assert isinstance(speculation, dict)
        assert speculation["draft_forwards"] == speculation["verified"][0] > 0
        assert all(arm["equal"] for arm in arms if arm["exact"])

    def test_a_table_shows_text_and_arms(self, net: Path, vocabulary: Path) -> None:
        """The prompt is in the text."""
        arguments = ("--vocabulary", vocabulary, "-p", "one day", "--max-new", 3, "--format", "table")
        result = invoke("net", "decode", net, *arguments, environment={"COLUMNS": "80"})
        lines = result.out.splitlines()
        assert lines[0].startswith("one day")
        assert "3 tokens, then 3 new ones" in lines[1]
        assert lines[-1].endswith("have the tokens of the full one: they agree.")
        assert 80 >= max(map(len, lines))

    def test_a_block_larger_than_the_context_is_as_large(self, net: Path, vocabulary: Path) -> None:
        """No draft guesses further; the counters are those of the largest block that makes sense."""
        runs = []
        for block in (12, 10**15):
            options = ("--vocabulary", vocabulary, "--prompt", "the fox", "--block", block, "--draft", net)
            result = invoke("net", "decode", net, *options)
            assert 0 == result.code
            runs.append([{**each, "ms_per_token": 0} for each in objects(result)])
        assert runs[0] == runs[1]

    def test_what_cannot_be_decoded(self, net: Path, vocabulary: Path, tmp_path: Path) -> None:
        """Prompts without tokens or with too many, a vocabulary of another net, numbers below one."""
        arguments = ("net", "decode", net, "--vocabulary", vocabulary)
        assert "prompt 2 has no tokens" == refused(invoke(*arguments, "-p", "one", "-p", ""))
        assert "prompt 1 has 13 tokens" in refused(invoke(*arguments, "-p", "x" * 13))
        assert "must be 1 or more, not 0" in refused(invoke(*arguments, "-p", "one", "--max-new", 0))
        small = write(tmp_path / "small.nn", decoder_net(ATTENTION, vocabulary=11))
        wrong = invoke("net", "decode", small, "--vocabulary", vocabulary, "-p", "one")
        assert "the vocabulary has 133 ids, the net knows 11: it belongs to another net" == refused(wrong)
        assert "cannot be read" in refused(invoke("net", "decode", net, "--vocabulary", tmp_path / "no", "-p", "a"))


class TestImportAndExport:
    """Between nets and weights files."""

    def test_there_and_back_is_the_same_net(self, net: Path, tmp_path: Path) -> None:
        """Byte for byte; nothing is rounded on the way."""
        weights, back = tmp_path / "a.safetensors", tmp_path / "b.nn"
        result = invoke("net", "import", net, "--output", weights)
        assert (0, "") == (result.code, result.err)
        assert "all as they were" in result.out
        result = invoke("net", "export", weights, "--output", back)
        assert 0 == result.code
        assert "no value was rounded" in result.out
        assert net.read_bytes() == back.read_bytes()

    def test_roundings_are_told(self, net: Path, tmp_path: Path) -> None:
        """How many, and the largest with its parameter: 1 + 2^-30 is nearest to 1."""
        model = import_net(read_net(net))
        gamma = next(parameter for parameter in model.parameters if parameter.name == "blocks.0.norm1.gamma")
        gamma.assign(np.full(gamma.shape, 1.0 + 2.0**-30))
        write_weights(tmp_path / "a.safetensors", model)
        result = invoke("net", "export", tmp_path / "a.safetensors", "--output", tmp_path / "b.nn")
        assert "8 of 3,094 values were rounded, by 9.31e-10 at most (blocks.0.norm1.gamma)" in result.out
        rounded = import_net(read_net(tmp_path / "b.nn"))
        assert [1.0] * 8 == next(p for p in rounded.parameters if p.name == gamma.name).value.tolist()

    def test_a_suite_becomes_a_net(self, tmp_path: Path) -> None:
        """With its golden weights, which are in binary32."""
        result = invoke("net", "export", "hybrid", "--output", tmp_path / "h.nn")
        assert 0 == result.code
        assert "no value was rounded" in result.out
        assert "TNNetDiagonalSSM" in {spec.kind for spec in read_net(tmp_path / "h.nn").specs}

    def test_nothing_is_overwritten_unasked(self, net: Path, tmp_path: Path) -> None:
        """Nor is a link; --force replaces."""
        taken = tmp_path / "taken"
        taken.write_bytes(b"mine")
        for command in ("import", "export"):
            source = net if command == "import" else "hybrid"
            assert "it exists already" in refused(invoke("net", command, source, "--output", taken))
            assert b"mine" == taken.read_bytes()
        (tmp_path / "link").symlink_to(tmp_path / "nowhere")
        assert "it exists already" in refused(invoke("net", "import", net, "--output", tmp_path / "link"))
        assert 0 == invoke("net", "import", net, "--output", taken, "--force").code
        assert 8 == read_weights(taken).configuration.width

    def test_a_source_is_never_replaced_by_what_is_made_of_it(self, net: Path, tmp_path: Path) -> None:
        """Not even with --force, and not through a link either."""
        weights = tmp_path / "a.safetensors"
        assert 0 == invoke("net", "import", net, "--output", weights).code
        for command, source in (("import", net), ("export", weights)):
            link, before = tmp_path / f"{command}.link", source.read_bytes()
            link.symlink_to(source)
            for output in (source, link):
                result = invoke("net", command, source, "--output", output, "--force")
                assert "it is the file that is read, which would be lost" in refused(result)
            assert before == source.read_bytes()

    def test_what_cannot_be_converted(self, tmp_path: Path) -> None:
        """A net of another family, a source that is none, a folder that is not there."""
        cai = write(tmp_path / "cai.nn", cai_net())
        assert "cannot be converted" in refused(invoke("net", "import", cai, "--output", tmp_path / "x"))
        assert "is neither a file" in refused(invoke("net", "export", "phase10", "--output", tmp_path / "x"))
        assert "no such folder" in refused(invoke("net", "export", "hybrid", "--output", tmp_path / "no" / "x"))
        assert format_net(cai_net()) == cai.read_bytes()
        assert not (tmp_path / "x").exists()
