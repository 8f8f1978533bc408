"""Which ways to decode a net allows: that follows from its layers alone.

The *full* arm is the reference. Every other arm is either exact, so that a difference from it is a mistake, or known
not to be: 8 bits round, eviction forgets, and the library's session forgets the token before a token shift.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Final, TypeAlias

from cai_conformance.verdicts import Clock
from cai_neural_api.conversion import net_to_decoder
from cai_neural_api.decode.arms import (
    ArmRun,
    Budget,
    run_cached,
    run_draft,
    run_full,
    run_heads,
    run_path,
    sees_two_tokens,
)
from cai_neural_api.decode.paths import (
    DecoderPath,
    DraftPath,
    Heads,
    NetPath,
    PrefixPath,
    RefeedingPath,
    SessionPath,
    SnapshotPath,
    TwoTokenPath,
    look_ahead,
)
from cai_neural_api.errors import NetInputError
from cai_neural_api.format import NetFile
from cai_neural_api.net.cache import Eviction
from cai_neural_api.net.graph import Net
from cai_neural_api.net.session import NetSession
from cai_neural_api.structure import check_run, session_counts, shift_layers
from cai_reference.arithmetic import Arithmetic
from cai_reference.decoding.latent_states import LatentCache
from cai_reference.decoding.session import Session, SessionOptions
from cai_reference.errors import CaiReferenceError
from cai_reference.models.decoder import Decoder, LatentSpec
from cai_reference.models.token_shift_draft import TokenShiftDraft

Ids: TypeAlias = Sequence[int]

FULL: Final = "full"

STAYS: Final = "a layer keeps one state, which cannot be cut back"


@dataclass(frozen=True)
class DecodeSettings:
    """How nets are decoded.

    Attributes:
        new_tokens: the budget of each prompt.
        block: guesses a pass, as many as the context at most; a chunk of a prompt is a token more.
    """

    new_tokens: int = 40
    block: int = 4

    def __post_init__(self) -> None:
        for name, value in (("the number of new tokens", self.new_tokens), ("the block", self.block)):
            if value < 1:
                raise NetInputError("invalid-decode-setting", name=name, value=value)


@dataclass(frozen=True)
class Arm:
    """One way to decode.

    Attributes:
        name: for tables.
        description: one line.
        exact: whether its tokens must be those of the full arm.
        run: from a prompt to what it makes of it.
    """

    name: str
    description: str
    exact: bool
    run: Callable[[Ids], ArmRun]


@dataclass(frozen=True)
class SkippedArm:
    """A way to decode that a net does not allow, and why."""

    name: str
    reason: str


class ArmList:
    """The arms of a net, the full one first.

    Attributes:
        net: the net that is run.
        heads: where its predictions are.
        arms: those that it allows.
        skipped: those that it does not allow, with reasons.

    Raises:
        NetInputError (net-too-large): running the net takes too much memory.
        LegacyError: the net does not score the ids that it reads.
        NetInputError (draft-differs): the draft knows other ids, or its context is too short.
        NetError: a net cannot be made, or does not run.
    """

    def __init__(
        self,
        file: NetFile,
        arithmetic: Arithmetic,
        settings: DecodeSettings,
        clock: Clock,
        draft: NetFile | None = None,
    ) -> None:
        self.net = Net.from_file(file)
        check_run(self.net)
        self.heads = Heads.of(self.net)
        self.arms: list[Arm] = []
        self.skipped: list[SkippedArm] = []
        self._arithmetic = arithmetic
        self._settings = replace(settings, block=min(settings.block, self.net.context))
        self._clock = clock
        self._budget = Budget(settings.new_tokens, self.net.context)
        self._draft = None if draft is None else self._fitting(Net.from_file(draft))
        self._add_all(file)

    def _fitting(self, draft: Net) -> Net:
        check_run(draft)
        known = Heads.of(draft).vocabulary
        if known != self.heads.vocabulary:
            raise NetInputError("draft-differs", what="ids", draft=known, target=self.heads.vocabulary)
        needed = 2 if sees_two_tokens(draft) else self.net.context
        if draft.context < needed:
            raise NetInputError("draft-differs", what="tokens of context", draft=draft.context, target=needed)
        return draft

    def _add_all(self, file: NetFile) -> None:
        self._add(FULL, "encodes everything again, padded to the context", True, self._runner(run_full))
        ahead = look_ahead(self.net, self._arithmetic)
        if ahead is not None:
            for name in ("prefix", "session"):
                self.skipped.append(SkippedArm(name, f"row {ahead} depends on later tokens"))
            return
        self._add_batch_arms()
        try:
            NetSession(self.net, self._arithmetic, 1)
        except CaiReferenceError as error:
            self.skipped.append(SkippedArm("session", str(error)))
        else:
            self._add_session_arms()
            if self._draft is not None:
                self._add_draft_arm(self._draft)
        self._add_family_arms(file)
        if self.heads.count > 1:
            name = "self-speculation"
            self._add(name, "later heads draft, head 0 verifies by encoding again", True, self._runner(run_heads))

    def _add_batch_arms(self) -> None:
        net, arithmetic = self.net, self._arithmetic
        try:
            # Some nets take nothing but whole contexts.
            net.run(arithmetic, [[0]])
        except CaiReferenceError as error:
            self.skipped.append(SkippedArm("prefix", str(error)))
        else:
            self._add_path("prefix", "encodes everything again", True, lambda: PrefixPath(net, arithmetic))
        if sees_two_tokens(net) and net.context > 1:
            self._add_path("width 2", "encodes the two newest tokens", True, lambda: TwoTokenPath(net, arithmetic))

    def _add_session_arms(self) -> None:
        net, arithmetic, width = self.net, self._arithmetic, self._settings.block + 1
        shifts, (caches, recurrences, _) = shift_layers(net.specs), session_counts(net.specs)
        carries = bool(shifts)

        def session(eviction: Eviction | None = None, eight_bits: bool = False) -> NetSession:
            fresh = NetSession(net, arithmetic, net.context + width, carries_shift=carries)
            fresh.quantise(eight_bits)
            fresh.evict(eviction)
            return fresh

        if carries:
            forgetful = f"a token a step; forgets the token before at layer {shifts[0]}"
            self._add("session", forgetful, False, self._runner(run_cached))
            self._add_path("incremental", "a token a step, token shifts carried", True, lambda: SessionPath(session()))
        else:
            self._add("session", "a token a step", True, self._runner(run_cached))
        self._add_path(
            "chunked", f"as before, the prompt by {width} tokens", True, lambda: SessionPath(session(), width)
        )
        self._add_path("snapshot", "each step astray first, then restored", True, lambda: SnapshotPath(session()))
        if caches and not recurrences and not carries:
            refeeding = f"each step cut back by {width} tokens, fed again"
            self._add_path("refeed", refeeding, True, lambda: RefeedingPath(session(), width))
        elif caches:
            self.skipped.append(SkippedArm("refeed", STAYS))
        if caches:
            # Neither is exact: 8 bits round, and eviction forgets once a token has been dropped.
            eight_bits = "keys and values in 8 bits"
            self._add_path("8 bits", eight_bits, False, lambda: SessionPath(session(eight_bits=True)))
            eviction = Eviction(1, max(1, net.context // 4))
            kept = f"keeps {eviction.sinks} sink and {eviction.recent} recent tokens"
            try:
                session(eviction)
            except CaiReferenceError as error:
                self.skipped.append(SkippedArm("evicting", str(error)))
            else:
                self._add_path("evicting", kept, False, lambda: SessionPath(session(eviction)))

    def _add_family_arms(self, file: NetFile) -> None:
        arithmetic = self._arithmetic
        try:
            model = net_to_decoder(file)
        except CaiReferenceError as error:
            self.skipped.append(SkippedArm("decoder", f"not a decoder of the family: {error}"))
            return
        if isinstance(model, TokenShiftDraft):
            self._add_path("decoder", "the draft that the net is", True, lambda: DraftPath(model, arithmetic))
            return
        self._add_path("decoder", "the session of the decoder that the net is", True, _opened(model, arithmetic))
        if any(isinstance(mixer, LatentSpec) for mixer in model.configuration.mixers):
            small = "caches latents and rotary keys only"
            self._add_path("latent", small, True, _opened(model, arithmetic, LatentCache.LATENT))
            absorbed = f"{small}, key and value maps absorbed"
            self._add_path("absorbed", absorbed, True, _opened(model, arithmetic, LatentCache.ABSORBED))

    def _add_draft_arm(self, draft: Net) -> None:
        net, block, budget = self.net, self._settings.block, self._budget
        name, arithmetic, clock = "speculation", self._arithmetic, self._clock
        if session_counts(net.specs)[1] or shift_layers(net.specs):
            self.skipped.append(SkippedArm(name, STAYS))
            return
        text = f"the draft proposes {block}, a window of {block + 1} verifies"
        self._add(name, text, True, lambda prompt: run_draft(net, draft, arithmetic, prompt, budget, block, clock))

    def _add(self, name: str, description: str, exact: bool, run: Callable[[Ids], ArmRun]) -> None:
        self.arms.append(Arm(name, description, exact, run))

    def _add_path(self, name: str, description: str, exact: bool, path: Callable[[], NetPath]) -> None:
        self._add(name, description, exact, lambda prompt: run_path(path(), prompt, self._budget, self._clock))

    def _runner(self, run: Callable[[Net, Arithmetic, Ids, Budget, Clock], ArmRun]) -> Callable[[Ids], ArmRun]:
        return lambda prompt: run(self.net, self._arithmetic, prompt, self._budget, self._clock)


def _opened(model: Decoder, arithmetic: Arithmetic, latent: LatentCache = LatentCache.HEADS) -> Callable[[], NetPath]:
    return lambda: DecoderPath(Session(model, arithmetic, SessionOptions(latent=latent)))
