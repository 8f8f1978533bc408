"""An engine as a backend: traces of given weights, suites one after the other, and engines that break in between."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Final

import pytest

from cai_conformance.backends.engine.backend import EngineBackend
from cai_conformance.backends.errors import NotOffered
from cai_conformance.backends.protocol import TraceRequest, ask, own_arithmetic
from cai_conformance.engine import EngineBroken, Evaluated, Feature, Loaded, Piece, Refused
from cai_conformance.trace.grammars import grammar_of
from cai_conformance.trace.parse import parse
from cai_reference.arithmetic.instances import STRICT
from support_engines import HEADS, SUITE, Wrapped, question
from support_traces import question as question_of_the_ngram

FEW: Final = ("fwd.oracle.far", "gen.given.cached")


def request(suite: str = SUITE, profile: str = "edges") -> TraceRequest:
    """Return a request for a few cases of a suite."""
    return replace(question(suite, "auto", "float64", *FEW).request, profile=profile)


class Making:
    """Makes engines, and keeps them."""

    def __init__(self, make: Callable[[], Wrapped] = Wrapped) -> None:
        self.made: list[Wrapped] = []
        self._make = make

    def __call__(self) -> Wrapped:
        """Make one more."""
        self.made.append(self._make())
        return self.made[-1]


class TestTraces:
    """What a backend of an engine answers."""

    def test_the_answers_to_the_vector_cases(self) -> None:
        """One record a case, in the arithmetic that the engine states, with the conventions that it states."""
        making = Making()
        backend = EngineBackend("mine", making)
        assert [] == making.made
        trace = parse(ask(backend, request()), grammar_of)
        envelope = trace.envelope
        assert (SUITE, "edges", "float64") == (envelope.suite, envelope.profile, envelope.arithmetic)
        answered = [record.get("case") for record in trace.all("SAMPLE")]
        assert ["fwd.oracle.last", "fwd.oracle.far", "gen.given.cached"] == answered
        assert "half-split pairs" == trace.all("CONVENTION")[0].get("rope")
        assert len(making.made) == 1

    def test_an_engine_that_states_no_conventions(self) -> None:
        """Nothing is made up for it."""

        class Silent(Wrapped):
            def load(self, folder: Path, precision: str | None = None) -> Loaded:
                super().load(folder)
                return Loaded({"rope": "mine", "no convention": "x"})

        stated = dict(parse(ask(EngineBackend("mine", Silent), request()), grammar_of).all("CONVENTION")[0].fields)
        assert "mine" == stated.pop("rope")
        assert {"unstated"} == set(stated.values())

    def test_it_answers_in_the_arithmetic_of_the_engine(self) -> None:
        """Which is asked for once it is open."""
        assert "strict/1" == own_arithmetic(EngineBackend("mine", lambda: Wrapped(STRICT)))
        assert "float32" == own_arithmetic(EngineBackend("mine", lambda: Wrapped(arithmetic="float32")))

    def test_stages_are_shown_with_every_value(self) -> None:
        """Of the case whose tokens are those of whole passes."""
        trace = parse(ask(EngineBackend("mine", Wrapped), request(profile="stages")), grammar_of)
        last = trace.all("STAGE")[-1]
        assert "logits.0" == last.get("name")
        rows, ids = last.integers("shape")
        assert (len(last.bits("bits")), 320) == (rows * ids, ids)
        assert list(range(rows * ids)) == list(last.integers("at"))

    def test_stages_that_are_not_shown_are_not_offered(self) -> None:
        """Without the feature."""
        backend = EngineBackend("mine", lambda: Wrapped(features=frozenset({Feature.DROP})))
        with pytest.raises(NotOffered) as caught:
            ask(backend, request(profile="stages"))
        assert "mine does not offer the profile stages: it has no feature observe" == str(caught.value)

    @pytest.mark.parametrize("profile", ["golden", "published", "foreign"])
    def test_it_makes_no_run(self, profile: str) -> None:
        """And is not opened to say so."""
        making = Making()
        with pytest.raises(NotOffered):
            ask(EngineBackend("mine", making), request(profile=profile))
        assert [] == making.made

    def test_a_suite_without_a_decoder_is_not_offered(self) -> None:
        """There is nothing to give."""
        asked = replace(question_of_the_ngram().request, profile="edges")
        with pytest.raises(NotOffered):
            ask(EngineBackend("mine", Wrapped), asked)
        assert EngineBackend("mine", Wrapped).opened(asked) is None

    def test_a_second_run_is_that_of_a_fresh_engine(self) -> None:
        """Which is let go of; the first one goes on."""
        making = Making()
        backend = EngineBackend("mine", making)
        assert backend.trace(request()) == backend.replay(request())
        assert [False, True] == [engine.closed for engine in making.made]

    def test_the_only_engine_is_not_started_again(self) -> None:
        """It would be closed behind the back of whoever is asking it."""
        engine = Wrapped()
        with pytest.raises(NotOffered):
            EngineBackend("mine", lambda: engine, again=False).replay(request())
        assert not engine.closed


class TestSuites:
    """Several suites, one after the other."""

    def test_the_model_of_each_is_loaded(self) -> None:
        """By the same engine."""
        making = Making()
        backend = EngineBackend("mine", making)
        one, again = backend.opened(request()), backend.opened(request(profile="stages"))
        other = backend.opened(request(HEADS))
        assert one is again
        assert one is not None and other is not None and one is not other
        assert one.engine is other.engine
        one.load()
        other.load()
        one.load()
        assert making.made[0].loads == 3

    def test_an_engine_that_broke_is_started_afresh_for_the_next(self) -> None:
        """Within a suite it stays broken."""

        class Breaking(Wrapped):
            broken = False

            def evaluate(self, pieces: Sequence[Piece], *, observe: bool = False) -> tuple[Evaluated, ...]:
                self.broken = True
                raise EngineBroken("breaking", "crashed")

            def clear(self, slot: int) -> None:
                if self.broken:
                    raise EngineBroken("breaking", "crashed")

        making = Making(Breaking)
        backend = EngineBackend("mine", making)
        for _ in range(2):
            with pytest.raises(EngineBroken):
                ask(backend, request())
        assert len(making.made) == 1
        with pytest.raises(EngineBroken):
            ask(backend, request(HEADS))
        assert [True, False] == [engine.closed for engine in making.made]

    def test_an_engine_that_refuses_is_alive(self) -> None:
        """A folder that it cannot load tells nothing about the next one."""

        class Choosing(Wrapped):
            def load(self, folder: Path, precision: str | None = None) -> Loaded:
                if not (folder / "model.safetensors").exists():
                    raise Refused("choosing", "the folder", "it has another layout")
                return super().load(folder)

            def clear(self, slot: int) -> None:
                if self.loads == 0:
                    raise Refused("choosing", "a slot", "nothing is loaded")
                super().clear(slot)

        making = Making(Choosing)
        backend = EngineBackend("mine", making)
        with pytest.raises(Refused):
            ask(backend, request(HEADS))
        assert ask(backend, request())
        assert len(making.made) == 1

    def test_one_that_cannot_be_started_is_not_tried_again(self) -> None:
        """It says the same to everybody."""
        tries: list[int] = []

        def failing() -> Wrapped:
            tries.append(1)
            raise EngineBroken("mine", "cannot be started")

        backend = EngineBackend("mine", failing)
        assert own_arithmetic(backend) is None
        for call in (lambda: ask(backend, request()), lambda: backend.opened(request())):
            with pytest.raises(EngineBroken):
                call()
        assert len(tries) == 1
        backend.close()
