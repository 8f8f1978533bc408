"""Which ways to decode a net has, what they agree on, and how a wrong one is told."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from cai_conformance.errors import ConformanceError, InputError
from cai_neural_api.decode.arm_list import Arm, ArmList, DecodeSettings, SkippedArm
from cai_neural_api.decode.arms import ArmRun
from cai_neural_api.decode.decoding import Decoding, decode, decoding_lines, decoding_objects
from cai_neural_api.decode.paths import look_ahead
from cai_neural_api.errors import LegacyError, NetInputError, NetSessionError
from cai_neural_api.format import NetFile
from cai_neural_api.net.graph import Net
from cai_neural_api.texts import prompt_ids, read_vocabulary, shown_text
from cai_neural_api.tokenizer import Vocabulary
from cai_reference.arithmetic.instances import FAST
from cai_reference.models.decoder import MixerSpec
from support_net_questions import (
    ATTENTION,
    CONTEXT,
    LATENT,
    LOCAL,
    SSM,
    WORDS,
    cai_net,
    decoder_net,
    draft_net,
    with_spec,
)
from support_refusals import refuses

PROMPTS = ((3, 1, 4), (5,))
NOT_EXACT = {"8 bits", "evicting"}
STREAMED = {"full", "prefix", "session", "chunked", "snapshot", "decoder"}
CACHED = STREAMED | {"refeed"} | NOT_EXACT


def arms_of(net: NetFile, draft: NetFile | None = None, new_tokens: int = 40) -> ArmList:
    """Return the arms of a net, with a clock that stands still."""
    return ArmList(net, FAST, DecodeSettings(new_tokens), lambda: 0.0, draft)


def spell(ids: object) -> str:
    """Spell ids as they are."""
    return str(ids)


class TestArmsOfNets:
    """They follow from the layers."""

    @pytest.mark.parametrize(
        ("net", "draft", "expected"),
        [
            (decoder_net(ATTENTION), True, CACHED | {"speculation"}),
            (decoder_net(LATENT), False, CACHED | {"latent", "absorbed"}),
            (decoder_net(SSM), True, STREAMED),
            (decoder_net(LOCAL, ATTENTION), False, CACHED - {"evicting"}),
            (decoder_net(SSM, LATENT), False, CACHED - {"refeed"} | {"latent", "absorbed"}),
            (decoder_net(ATTENTION, futures=3), False, CACHED | {"self-speculation"}),
            (draft_net(), False, STREAMED | {"width 2", "incremental"}),
            (cai_net(), True, {"full", "prefix"}),
        ],
    )
    def test_all_exact_arms_have_the_tokens_of_the_full_one(
        self, net: NetFile, draft: bool, expected: set[str]
    ) -> None:
        """Logits agree to rounding."""
        arms = arms_of(net, draft_net(seed=9) if draft else None, new_tokens=5)
        assert expected == {arm.name for arm in arms.arms}
        self.agree(decode(arms, PROMPTS[:1]))

    @pytest.mark.exhaustive
    @pytest.mark.parametrize("mixer", [ATTENTION, LATENT, SSM, LOCAL])
    def test_they_agree_to_the_end_of_the_context(self, mixer: MixerSpec) -> None:
        """On several prompts."""
        found = decode(arms_of(decoder_net(mixer), draft_net()), PROMPTS)
        for outcomes in found.outcomes:
            assert outcomes[0].run is not None
            assert CONTEXT == len(outcomes[0].run.ids)
        self.agree(found)

    @staticmethod
    def agree(found: Decoding) -> None:
        """Assert that all exact arms have the tokens of the full one, and its logits but for rounding."""
        assert found.passed
        exact = [outcome for outcomes in found.outcomes for outcome in outcomes[1:] if outcome.exact]
        assert all(outcome.equal for outcome in exact)
        assert all(outcome.deviation is not None and outcome.deviation < 1e-9 for outcome in exact)

    def test_what_a_net_does_not_allow_is_told(self) -> None:
        """With the reason."""
        reasons = {skipped.name: skipped.reason for skipped in arms_of(cai_net()).skipped}
        assert {"session", "decoder"} == reasons.keys()
        assert "needs the whole sequence" in reasons["session"]
        stays = SkippedArm("speculation", "a layer keeps one state, which cannot be cut back")
        assert stays in arms_of(decoder_net(SSM), draft_net()).skipped
        assert [SkippedArm("evicting", "1 sinks and 3 recent tokens: a layer has a window already")] == [
            skipped for skipped in arms_of(decoder_net(LOCAL)).skipped if skipped.name == "evicting"
        ]

    def test_a_net_that_looks_ahead_has_the_full_arm_only(self) -> None:
        """Every other one would see other tokens."""
        net = seeing()
        assert 0 == look_ahead(Net.from_file(net), FAST)
        arms = arms_of(net)
        assert ["full"] == [arm.name for arm in arms.arms]
        assert "row 0 depends on later tokens" == arms.skipped[0].reason

    def test_nets_of_the_library_do_not_look_ahead(self) -> None:
        """Not even where the whole context goes in."""
        for net in (decoder_net(ATTENTION), decoder_net(SSM), draft_net(), cai_net()):
            assert look_ahead(Net.from_file(net), FAST) is None

    def test_a_session_forgets_a_token_shift(self) -> None:
        """As the library's does: its tokens differ, and that is no failure."""
        found = decode(arms_of(draft_net()), PROMPTS)
        session = next(outcome for outcome in found.outcomes[0] if outcome.arm == "session")
        assert (False, False, True) == (session.exact, session.equal, session.passed)
        assert session.difference is not None
        assert session.difference.found_margin is not None
        assert session.difference.found_margin > 0.0


def seeing() -> NetFile:
    """Return a decoder whose first head of attention has no mask."""
    net = decoder_net(ATTENTION)
    index = next(index for index, spec in enumerate(net.specs) if "Attention" in spec.kind)
    spec = net.specs[index]
    return with_spec(net, index, replace(spec, integers=(spec.integers[0], 0, *spec.integers[2:])))


class TestAWrongArm:
    """It is found, and told with its place and both margins."""

    @pytest.fixture
    def arms(self) -> ArmList:
        """Arms of a net with one more, which is to be exact and has another third token."""
        arms = arms_of(decoder_net(ATTENTION), new_tokens=3)
        full = arms.arms[0]

        def wrong(prompt: object) -> ArmRun:
            run = full.run(prompt)  # type: ignore[arg-type]
            other = replace(run.predictions[2], scores=-run.predictions[2].scores)
            new = (*run.new[:2], other.choice, *run.new[3:])
            return replace(run, new=new, predictions=(*run.predictions[:2], other, *run.predictions[3:]))

        arms.arms.append(Arm("wrong", "differs", True, wrong))
        return arms

    def test_the_first_difference_is_found(self, arms: ArmList) -> None:
        """With the margins: that of the full arm leads, that of the wrong choice trails."""
        found = decode(arms, PROMPTS[:1])
        outcome = found.outcomes[0][-1]
        assert (False, False) == (found.passed, outcome.passed)
        difference = outcome.difference
        assert difference is not None
        assert outcome.run is not None
        assert (5, outcome.run.new[2]) == (difference.position, difference.found)
        assert difference.expected_margin is not None
        assert difference.found_margin is not None
        assert difference.expected_margin > 0.0 > difference.found_margin

    def test_it_is_told(self, arms: ArmList) -> None:
        """In the table, in a sentence and in the verdict; for programs, too."""
        found = decode(arms, PROMPTS[:1])
        text = [line.plain for line in decoding_lines(found, ["prompt"], spell, 80)]
        assert any(line.split()[:2] == ["wrong", "DIFFER"] for line in text)
        assert any("wrong: at position 5 the full arm has id " in line for line in text)
        assert "6 of 7 runs of exact arms have the tokens of the full one: they differ." == text[-1]
        *_, arm, summary = decoding_objects(found, ["prompt"], spell)
        assert ("wrong", False, True) == (arm["arm"], arm["equal"], arm["exact"])
        assert (False, 1) == (summary["passed"], summary["exit_code"])

    def test_an_arm_that_fails_is_told(self) -> None:
        """An exact arm that makes nothing has not agreed."""
        arms = arms_of(decoder_net(ATTENTION), new_tokens=2)

        def failing(prompt: object) -> ArmRun:
            raise NetSessionError("cache-overflow", length=1, tokens=2, capacity=2)

        arms.arms.append(Arm("failing", "fails", True, failing))
        found = decode(arms, PROMPTS[:1])
        assert (False, False) == (found.passed, found.outcomes[0][-1].equal)
        text = [line.plain for line in decoding_lines(found, ["prompt"], spell, 80)]
        assert any(line.split() == ["failing", "failed"] for line in text)
        assert any("the caches hold 1 of 2 tokens" in line for line in text)

    def test_an_end_too_early_is_a_difference(self) -> None:
        """There is no id, and no margin, behind it."""
        arms = arms_of(decoder_net(ATTENTION), new_tokens=3)
        full = arms.arms[0]

        def short(prompt: object) -> ArmRun:
            run = full.run(prompt)  # type: ignore[arg-type]
            return replace(run, new=run.new[:2], predictions=run.predictions[:2])

        arms.arms.append(Arm("short", "ends", True, short))
        difference = decode(arms, PROMPTS[:1]).outcomes[0][-1].difference
        assert difference is not None
        assert (5, None, None) == (difference.position, difference.found, difference.found_margin)


class TestRefusals:
    """Prompts, drafts and settings that cannot be used."""

    @pytest.mark.parametrize(
        ("prompt", "error"),
        [((), "empty-net-prompt"), ((1,) * CONTEXT, "net-prompt-too-long"), ((1, 140), "prompt-id-too-large")],
    )
    def test_prompts_are_checked_before_anything_is_run(self, prompt: tuple[int, ...], error: str) -> None:
        """Also the second one."""
        arms = arms_of(draft_net())
        ran: list[str] = []
        with refuses(ConformanceError, error) as caught:
            decode(arms, [(1,), prompt], ran.append)
        assert ([], "prompt 2") == (ran, str(caught.value)[:8])

    def test_a_draft_must_know_the_same_ids(self) -> None:
        """And as long a context, where it reads all of it."""
        with refuses(NetInputError, "draft-differs", match="the draft has 11 ids, the net 140"):
            arms_of(decoder_net(ATTENTION), draft_net(vocabulary=11))
        short = decoder_net(ATTENTION)
        short = with_spec(short, 0, replace(short.specs[0], integers=(8, *short.specs[0].integers[1:])))
        with refuses(NetInputError, "draft-differs", match="the draft has 8 tokens of context, the net 12"):
            arms_of(decoder_net(ATTENTION), short)

    @pytest.mark.parametrize("settings", [{"new_tokens": 0}, {"block": -1}])
    def test_settings_below_one_are_refused(self, settings: dict[str, int]) -> None:
        """There would be nothing to do."""
        with refuses(NetInputError, "invalid-decode-setting"):
            DecodeSettings(**settings)

    def test_a_net_that_scores_no_ids_is_refused(self) -> None:
        """Here it ends in front of its output projection."""
        net = decoder_net(ATTENTION)
        with pytest.raises(LegacyError):
            arms_of(NetFile(net.specs[:-2], net.neurons[:-2]))


class TestTexts:
    """Prompts as ids, and ids as text."""

    VOCABULARY = Vocabulary.parse(WORDS)

    def test_a_text_ends_at_the_first_control_id(self) -> None:
        """Ids that the vocabulary lacks are numbers, bytes that are no text are escapes."""
        one, day = 128, 129
        assert "one day<135>" == shown_text(self.VOCABULARY, [one, 32, day, 135, 1, one])
        assert "one" == shown_text(self.VOCABULARY, [one, 0, day])
        assert "" == shown_text(self.VOCABULARY, [])

    def test_prompts_are_encoded_as_the_library_does(self) -> None:
        """Whole words by their place among the sorted ones, the rest by bytes."""
        assert (130, 32, 128) == prompt_ids(self.VOCABULARY, "one day", 1)
        assert () == prompt_ids(self.VOCABULARY, "", 1)
        with refuses(InputError, "input-unreadable", match="prompt 3"):
            prompt_ids(self.VOCABULARY, "a\0", 3)

    def test_a_vocabulary_must_fit_the_net(self, tmp_path: object) -> None:
        """A net may know more ids, not fewer."""
        path = tmp_path / "words.txt"  # type: ignore[operator]
        path.write_bytes(WORDS)
        assert 133 == read_vocabulary(path, 133).size == read_vocabulary(path, 140).size
        with refuses(NetInputError, "vocabulary-too-large", match="133 ids, the net knows 132"):
            read_vocabulary(path, 132)
        path.write_bytes(b"one\none\n")
        with refuses(InputError, "input-unreadable", match="line 2 repeats line 1"):
            read_vocabulary(path, 140)


def test_deviations_are_those_of_logits() -> None:
    """Eight bits change logits by more than rounding, and less than by one."""
    found = decode(arms_of(decoder_net(ATTENTION), new_tokens=3), PROMPTS[:1])
    deviation = next(outcome.deviation for outcome in found.outcomes[0] if outcome.arm == "8 bits")
    assert deviation is not None
    assert np.isfinite(deviation)
    assert 1e-6 < deviation < 1.0
