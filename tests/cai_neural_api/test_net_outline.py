"""The outline of a net: counts and caches worked out by hand, and the decoder that it is, in words."""

from __future__ import annotations

from dataclasses import replace

import pytest

from cai_neural_api.exchange import read_net
from cai_neural_api.net.structure import LayerSpec
from cai_neural_api.outline import outline_lines, outline_net, outline_objects
from cai_neural_api.verify.session_checks import Measure, SampleComparison
from cai_neural_api.verify.verification import NetVerification, verification_lines, verification_objects
from support_net_questions import ATTENTION, LATENT, LOCAL, SSM, cai_net, decoder_net, draft_net, with_spec
from support_nn_file import SAMPLES, needs_samples

WIDTHS = (60, 80, 120)


@needs_samples
class TestRealNets:
    """Nets that the library made."""

    @pytest.mark.parametrize(
        ("kind", "weights", "biases", "caches"),
        [
            # 24 of the slab, 8 of the output, 24 and 8 of the feed-forward layers, 8 and 11 of the head.
            ("phase1", 818, 83, [16]),
            # 8 on either side of the recurrence; the rest as before.
            ("ssm", 722, 67, [8]),
            # Query 8, latent 3, key 8, value 8, rotary query 4 and key 2, output 8; 51 of the rest. 2 heads of 4 + 2.
            ("mla", 810, 92, [2 * 2 * 6, 3 + 2]),
            ("mtp", 994, 105, [16]),
            ("draft", 324, 23, [8]),
        ],
    )
    def test_counts_are_those_of_the_layers(self, kind: str, weights: int, biases: int, caches: list[int]) -> None:
        """Weights as the library counts them; biases and cached floats by hand."""
        found = outline_net(read_net(SAMPLES / f"{kind}.nn"))
        assert (weights, biases, caches) == (found.weights, found.biases, [cache.floats for cache in found.caches])
        assert (4 * (weights + biases), 8 * (weights + biases)) == (found.size_in_bytes(4), found.size_in_bytes(8))
        assert (6, 11, 3 if kind == "mtp" else 1) == (found.context, found.vocabulary, found.futures)

    def test_a_grouped_hybrid_is_recognised(self) -> None:
        """With its three mixers in order."""
        found = outline_net(read_net(SAMPLES / "grouped.nn"))
        assert (
            "decoder, width 8, 2 heads, feed-forward 12, 2 channels or more per group; 3 sequential blocks: "
            "recurrence, latent attention (latent 3, rotary 2), recurrence"
        ) == found.architecture
        assert (2, 2, 3) == found.session


class TestArchitecture:
    """Which decoder a net is, or why it is none."""

    @pytest.mark.parametrize(
        ("net", "words"),
        [
            (decoder_net(ATTENTION), "decoder, width 8, 2 heads, feed-forward 12; 1 sequential block: attention"),
            (decoder_net(SSM), "decoder, width 8, feed-forward 12; 1 sequential block: recurrence"),
            (decoder_net(ATTENTION, futures=3), "feed-forward 12, 3 future tokens; 1 sequential block: attention"),
            (decoder_net(LOCAL, ATTENTION), "2 sequential blocks: attention (window 3), attention"),
            (draft_net(), "token-shift draft, width 8, hidden 12"),
        ],
    )
    def test_it_is_told_in_words(self, net: object, words: str) -> None:
        """Sizes, wiring and mixers."""
        assert outline_net(net).architecture.endswith(words)  # type: ignore[arg-type]

    def test_the_first_layer_that_differs_is_named(self) -> None:
        """Of a net that is nearly one."""
        net = decoder_net(ATTENTION)
        index = next(index for index, spec in enumerate(net.specs) if "SwiGLU" in spec.kind)
        other = with_spec(net, index + 2, LayerSpec("TNNetSum", index + 1, listed=(index + 1, 1)))
        found = outline_net(other)
        assert "" == found.architecture
        assert found.obstacle.startswith(f"layer {index + 2}: ")


class TestSessions:
    """What a session keeps, and whether it is exact."""

    def test_a_window_bounds_what_is_of_use(self) -> None:
        """Two heads of width 4 see 3 tokens: 2 · 2 · 4 · 3 floats."""
        caches = outline_net(decoder_net(LOCAL)).caches
        assert [(16, True), (48, False)] == [(cache.floats, cache.per_token) for cache in caches]

    def test_latents_are_kept_instead(self) -> None:
        """Of each block."""
        caches = outline_net(decoder_net(LATENT, LATENT)).caches
        assert [2 * 2 * 2 * 6, 2 * 6] == [cache.floats for cache in caches]

    def test_why_a_session_is_not_exact(self) -> None:
        """Layers that need everything at once, look ahead, or are forgotten."""
        assert "" == outline_net(decoder_net(ATTENTION, SSM)).streaming
        assert "needs the whole sequence" in outline_net(cai_net()).streaming
        assert "is forgotten between steps" in outline_net(draft_net()).streaming
        net = decoder_net(ATTENTION)
        index = next(index for index, spec in enumerate(net.specs) if "Attention" in spec.kind)
        seeing = replace(net.specs[index], integers=(4, 0, 0, 0, 0, 0, 0, 0))
        assert (
            f"layer {index} (TNNetScaledDotProductAttention) looks ahead"
            in outline_net(with_spec(net, index, seeing)).streaming
        )


class TestScreens:
    """Lines fit, objects hold everything."""

    @pytest.mark.parametrize("width", WIDTHS)
    @pytest.mark.parametrize("layers", [False, True])
    def test_lines_fit_a_terminal(self, width: int, layers: bool) -> None:
        """From 80 columns on; narrower ones may stick out."""
        for net in (decoder_net(LATENT, LOCAL), cai_net(), draft_net()):
            lines = [line.plain for line in outline_lines("name.nn", outline_net(net), width, layers=layers)]
            assert "name.nn" == lines[0]
            if width >= 80:
                assert width >= max(map(len, lines))

    def test_every_layer_has_a_line(self) -> None:
        """With its number."""
        net = decoder_net(ATTENTION)
        lines = [line.plain.split() for line in outline_lines("name", outline_net(net), 120, layers=True)]
        numbers = [line[0] for line in lines if len(line) > 2 and line[0].isdigit()]
        assert [str(index) for index in range(len(net.specs))] == numbers

    def test_objects_for_programs(self) -> None:
        """One a net, and one a layer if they are asked for."""
        outline = outline_net(draft_net())
        (net,) = outline_objects("name", outline, layers=False)
        assert ("net", 7, 140 * 8 + 8 + 12 * 8 + 140 * 12) == (net["type"], net["layers"], net["weights"])
        assert {"attention_caches": 0, "recurrences": 0, "rotary_layers": 0} == net["session"]
        first, *layers = outline_objects("name", outline, layers=True)
        assert net == first
        assert ["TNNetEmbedding", [0], {"vocabulary": "140", "scale": "0.02"}] == [
            layers[1]["class"],
            layers[1]["inputs"],
            layers[1]["options"],
        ]

    @pytest.mark.parametrize("width", WIDTHS)
    def test_a_verification_fits_a_terminal(self, width: int) -> None:
        """A failure is told twice: in the table, and in a sentence with its place."""
        found = NetVerification(
            (
                SampleComparison("forward rows", "a.json", 1e-5, Measure.ABSOLUTE, 198, 2e-3, "example 1, row 2: " * 5),
                SampleComparison("gradients", "a.grad.json", 5e-5, Measure.OF_LAYER, 9, 1e-6, left_out="some"),
                SampleComparison("tokens, session", "a.json", values=12),
            ),
            ("a.json", "a.grad.json"),
            ("a.init.nn",),
            ("a.json: extra",),
        )
        lines = [line.plain for line in verification_lines(found, width)]
        assert width >= max(map(len, lines))
        text = "\n".join(lines)
        for part in ("FAIL", "forward rows (a.json): example 1", "left out of gradients: some", "not there: a.init.nn"):
            assert part in text
        assert "2 of 3 quantities pass, 219 values: not as measured." == lines[-1]
        quiet = [line.plain for line in verification_lines(found, width, quiet=True)]
        assert not any("gradients" in line for line in quiet)
        *comparisons, summary = verification_objects(found)
        assert [False, True, True] == [each["passed"] for each in comparisons]
        assert (1, ["a.init.nn"], ["a.json: extra"]) == (
            summary["exit_code"],
            summary["missing"],
            summary["not_verified"],
        )
