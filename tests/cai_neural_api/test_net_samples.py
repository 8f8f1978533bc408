"""Reading what was measured: recognised by content, read strictly, errors with a place."""

from __future__ import annotations

import json

import pytest

from cai_neural_api.errors import NetInputError
from cai_neural_api.verify.samples import GradientSample, NetSample, SessionEdgeSample, TrainingSample, parse_sample
from support_nn_file import KINDS, SAMPLES, needs_samples
from support_refusals import refuses

STEP = {"token": 3, "pos": 0, "cache_len": 1, "row": [0.5, 0.5]}
RUN = {"lr": 0.01, "batch": 1, "step_loss": [1.0], "step_error": [2.0], "final": "a.nn"}
FORWARD = {"input": [1, 2], "output": [[1.0], [1.0]]}


def parsed(value: object) -> object:
    """Read a value as a sample."""
    return parse_sample(json.dumps(value).encode(), "file.json")


@needs_samples
class TestRealSamples:
    """The files that the library left."""

    @pytest.mark.parametrize("kind", KINDS)
    def test_all_layouts_are_recognised(self, kind: str) -> None:
        """With no field unknown."""
        for end, expected in (("", NetSample), (".grad", GradientSample), (".train", TrainingSample)):
            path = SAMPLES / f"{kind}{end}.json"
            found = parse_sample(path.read_bytes(), path.name)
            assert (expected, ()) == (type(found), found.unknown)

    def test_the_edges_of_a_session(self) -> None:
        """Nine sequences of steps."""
        found = parse_sample((SAMPLES / "session_edge.json").read_bytes(), "edges")
        assert isinstance(found, SessionEdgeSample)
        assert 9 == len(found.sequences)

    def test_what_a_draft_decodes_net_wide_belongs_to_its_prompt(self) -> None:
        """It stands in a list of its own, and a one-token prompt has no width 2."""
        found = parse_sample((SAMPLES / "draft.json").read_bytes(), "draft")
        assert isinstance(found, NetSample)
        assert [(2, 2, 9, 9, 7, 7), (4, 6, 4, 9, 8, 9), (5, 6, 9, 9, 7, 7)] == [
            case.incremental for case in found.decode
        ]
        assert [None, (4, 6, 4, 9, 8, 9), (5, 6, 9, 9, 7, 7)] == [case.width2 for case in found.decode]


class TestLayouts:
    """What a file is, and what it may leave out."""

    def test_fields_may_be_missing(self) -> None:
        """A net that nobody streamed has outputs only."""
        found = parsed({"kind": "any", "forward": [FORWARD]})
        assert isinstance(found, NetSample)
        assert (None, None, None, ()) == (found.weights, found.session, found.seed, found.decode)
        assert ((1.0,), (2.0,)) == found.forward[0].input

    def test_fields_that_are_not_known_are_named(self) -> None:
        """Also those of a decode case."""
        found = parsed({"forward": [FORWARD], "logits": [], "decode": [{"prompt": [1], "beam": [1, 2]}]})
        assert isinstance(found, NetSample)
        assert ("logits", "decode.beam") == found.unknown

    def test_rows_of_several_numbers_are_an_input(self) -> None:
        """A net may read something else than ids."""
        found = parsed({"forward": [{"input": [[1, 2], [3, 4]], "output": [[1.0], [1.0]]}]})
        assert isinstance(found, NetSample)
        assert ((1.0, 2.0), (3.0, 4.0)) == found.forward[0].input


class TestDamage:
    """One sentence with the place."""

    @pytest.mark.parametrize(
        ("value", "problem"),
        [
            ([], "it is not a JSON object"),
            ({}, "its layout is not known"),
            ({"kind": "phase1"}, "its layout is not known"),
            ({"forward": {}}, "forward is not a list"),
            ({"forward": [{}]}, "forward[0] lacks the key input"),
            ({"forward": [{"input": ["a"], "output": []}]}, "forward[0].input[0] is not a number"),
            ({"forward": [{"input": [[1], [1, 2]], "output": []}]}, "forward[0].input has rows of several lengths"),
            ({"forward": [{"input": [1], "output": [[True]]}]}, "forward[0].output[0][0] is not a number"),
            ({"forward": [{"input": [1], "output": [[10**400]]}]}, "beyond the range of binary64"),
            ({"forward": [], "session": {"sdpa": 1}}, "session lacks the key ssm"),
            ({"forward": [], "count_weights": -1}, "count_weights is not a count"),
            ({"decode": [{"prompt": []}]}, "decode[0].prompt is empty"),
            ({"decode": [{"prompt": [1], "greedy_full": [2, 3]}]}, "greedy_full does not begin with the prompt"),
            ({"decode": [{"prompt": [1], "greedy_full": [1, -3]}]}, "decode[0].greedy_full[1] is not a count"),
            ({"layers": {"one": []}}, "'one' is not the index of a layer"),
            ({"layers": {"01": []}}, "'01' is not the index of a layer"),
            ({"layers": {"1": [[0.0]]}}, "layers.1[0] is not [bias, [weights]]"),
            ({"stories": [[1]], "grad_batch": [1]}, "grad_batch names story 1, but there are 1"),
            ({"stories": [[1]], "runs": [RUN | {"batch": 2}]}, "runs[0] needs 2 stories, but there are 1"),
            ({"stories": [[1]], "runs": [RUN | {"batch": 0}]}, "runs[0].batch is 0"),
            ({"stories": [[1]], "runs": [RUN | {"lr": 0.0}]}, "runs[0].lr is 0.0, which no optimiser can use"),
            ({"stories": [[1]], "runs": [RUN | {"beta2": 1}]}, "runs[0].beta2 is 1.0, which no optimiser can use"),
            ({"stories": [[1]], "runs": [RUN | {"clipnorm": -1}]}, "runs[0].clipnorm is -1.0, which no optimiser"),
            ({"stories": [[1]], "runs": [RUN | {"steps": 2}]}, "runs[0] has 2 steps, 1 losses and 1 errors"),
            ({"stories": [[1]], "runs": [RUN | {"final": "../a.nn"}]}, "is not the name of a file beside this one"),
            ({"stories": [[1]], "grad_file": ".."}, "is not the name of a file beside this one"),
            ({"plain": [STEP | {"token": "a"}]}, "plain[0].token is not a count"),
            ({"plain": [STEP], "int8_kv": [STEP, 3]}, "int8_kv[1] is not an object"),
            ({"plain": [STEP], "after_truncate_to_2": {}}, "after_truncate_to_2 is not a list"),
            ({"forward": [], "config": {"ctx": "six"}}, "config.ctx is not a count"),
            ({"forward": [], "config": {"vocab": True}}, "config.vocab is not a count"),
            ({"decode": [{"prompt": [1], "library_streamed_eos_lt2": [2]}]}, "library_streamed_eos_lt2 does not begin"),
        ],
    )
    def test_a_wrong_value_is_named(self, value: object, problem: str) -> None:
        """With its file."""
        with refuses(NetInputError, "sample-damaged") as caught:
            parsed(value)
        assert "file.json" == caught.value.fields["path"]
        assert problem in str(caught.value.fields["problem"])

    @pytest.mark.parametrize("data", [b"", b"{", b"\xff", b'{"a": 1, "a": 2}', b'{"forward": [NaN]}', b"[" * 100_000])
    def test_what_is_no_json_is_refused(self, data: bytes) -> None:
        """Repeated keys and NaN, too."""
        with refuses(NetInputError, "sample-damaged"):
            parse_sample(data, "file.json")
