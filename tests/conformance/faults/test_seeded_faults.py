"""Every seeded fault shows where it says it acts, and leaves the reference as it was, bit for bit."""

from __future__ import annotations

import sys
import threading
from types import ModuleType
from typing import Final

import numpy as np
import pytest

from cai_conformance.faults import FAULTS, Fault, HeldFault, Place, fault_named, faults_at, planted_together
from cai_conformance.faults.errors import FaultAlreadyPlanted, UnknownFault
from cai_conformance.faults.kinds import KINDS
from cai_conformance.faults.not_applicable import NOT_APPLICABLE
from cai_conformance.faults.vehicle import NGRAM
from cai_conformance.suites import find_suite
from cai_reference.arithmetic import FAST
from cai_reference.decoding import drafts, generation, greedy, speculation
from cai_reference.decoding.row_store import RowStore
from cai_reference.decoding.session import Session
from support_fault_vehicles import IDS, VEHICLES, model_of, untouched

TRUNCATE: Final = vars(Session)["truncate"]

PREFERRED: Final = ("llama.dense", "llama.gqa-window")
"""The suite whose model shows a fault that several suites show."""

SAMPLE: Final = 9
"""Of the faults every so many run always, the rest with `--exhaustive`."""


def suite_for(fault: Fault) -> str:
    """Return a suite in which a fault shows."""
    suites = [vehicle.suite for vehicle in fault.vehicles if vehicle.suite != NGRAM]
    return next((suite for suite in PREFERRED if suite in suites), suites[0] if suites else PREFERRED[0])


@pytest.mark.parametrize(
    "fault",
    [
        pytest.param(fault, id=fault.slug, marks=pytest.mark.exhaustive if place % SAMPLE else ())
        for place, fault in enumerate(FAULTS)
    ],
)
class TestEachFault:
    """Planted, it shows at each of its places and at no other that it could; afterwards nothing is left of it."""

    def test_it_shows_where_it_acts_and_leaves_nothing_behind(self, fault: Fault) -> None:
        """By what the vehicle of the place observes."""
        suite = suite_for(fault)
        before = {place: untouched(place, suite) for place in fault.places}
        with fault.planted():
            wrong = {place: VEHICLES[place](suite) for place in fault.places}
        unseen = [] if not fault.equivalent else sorted(fault.places)
        assert unseen == [place for place in fault.places if wrong[place] == before[place]]
        assert before == {place: VEHICLES[place](suite) for place in fault.places}

    def test_what_it_does_not_act_on_stays_right(self, fault: Fault) -> None:
        """A fault of sessions leaves full passes alone, one of training both, and so on."""
        suite = suite_for(fault)
        others = {Place.BATCH, Place.SESSION} - fault.places
        before = {place: untouched(place, suite) for place in others}
        with fault.planted():
            assert before == {place: VEHICLES[place](suite) for place in others}


class TestTheCatalogue:
    """Slugs are names for good."""

    def test_slugs_are_unique_and_well_formed(self) -> None:
        """A family, a dot, and words of small letters, digits and hyphens."""
        slugs = [fault.slug for fault in FAULTS]
        assert len(slugs) == len(set(slugs))
        assert all(slug == slug.lower() and slug.count(".") == 1 and " " not in slug for slug in slugs)

    def test_each_has_its_words(self) -> None:
        """A title without a stop, a story with one, and a place."""
        for fault in FAULTS:
            assert fault.title and not fault.title.endswith("."), fault.slug
            assert fault.story.endswith(".") and fault.places, fault.slug

    def test_each_has_a_vehicle_and_checks_that_must_fail_unless_nothing_changes(self) -> None:
        """Vehicles name suites, expected checks are those of one of them, and none stands twice."""
        for fault in FAULTS:
            suites = [find_suite(vehicle.suite) for vehicle in fault.vehicles]
            names = {check.name for suite in suites for check in suite.checks}
            assert fault.vehicles and len(set(fault.vehicles)) == len(fault.vehicles), fault.slug
            assert bool(fault.expected) != bool(fault.equivalent), fault.slug
            assert set(fault.expected) <= names, fault.slug
            assert all(vehicle.suite == suite.identifier for vehicle, suite in zip(fault.vehicles, suites, strict=True))

    def test_every_kind_that_is_known_in_public_is_seeded_or_said_to_have_no_vehicle(self) -> None:
        """One or the other, and no other kind is named."""
        seeded = {kind for fault in FAULTS for kind in fault.kinds}
        assert seeded | set(NOT_APPLICABLE) == set(KINDS)
        assert not seeded & set(NOT_APPLICABLE)

    def test_faults_are_found_by_slug_and_by_place(self) -> None:
        """And an unknown slug is refused."""
        assert fault_named("rope.half-split").family == "rope"
        assert fault_named("cache.stale-row-after-rollback") in faults_at(Place.SESSION)
        assert fault_named("cache.stale-row-after-rollback") not in faults_at(Place.BATCH, Place.TRAINING)
        with pytest.raises(UnknownFault, match=r"rope\.sideways"):
            fault_named("rope.sideways")


class TestPlanting:
    """Where a name was imported to, it is replaced; whatever happens, it is put back."""

    def test_a_function_is_replaced_under_every_name(self) -> None:
        """Modules that imported it see the wrong one while it is planted, and the very same object afterwards."""
        holders = (greedy, generation, speculation, drafts)
        right = greedy.greedy_token
        assert all(holder.greedy_token is right for holder in holders)
        with fault_named("argmax.last-maximum").planted():
            assert all(holder.greedy_token is not right for holder in holders)
        assert all(holder.greedy_token is right for holder in holders)

    def test_a_module_that_is_imported_meanwhile_is_put_right(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """It got the wrong function when it was imported, and would keep it."""
        right = greedy.greedy_token
        late = ModuleType("cai_conformance.late")
        with fault_named("argmax.last-maximum").planted():
            late.greedy_token = greedy.greedy_token  # type: ignore[attr-defined]
            monkeypatch.setitem(sys.modules, late.__name__, late)
            assert late.greedy_token is not right
        assert late.greedy_token is right

    def test_an_error_within_restores(self) -> None:
        """The reference is right again, and another fault can be planted."""
        methods = dict(vars(RowStore))
        with pytest.raises(ZeroDivisionError), fault_named("window.plus-one").planted():
            raise ZeroDivisionError
        assert methods == dict(vars(RowStore))
        with fault_named("window.minus-one").planted():
            assert methods != dict(vars(RowStore))

    def test_a_second_fault_is_refused_unless_it_is_meant(self) -> None:
        """And the refusal leaves the first one planted."""
        right = greedy.greedy_token
        with fault_named("argmax.last-maximum").planted():
            wrong = greedy.greedy_token
            with pytest.raises(FaultAlreadyPlanted, match=r"window\.none cannot be planted: argmax"):
                fault_named("window.none").planted().__enter__()
            assert greedy.greedy_token is wrong
            with fault_named("window.none").planted(nested=True):
                pass
        assert greedy.greedy_token is right

    def test_several_are_planted_together_and_compose(self) -> None:
        """Base and layout are changed by different replacements of the same pass."""
        faults = [fault_named("rope.adjacent"), fault_named("rope.base-10000")]
        found = []
        for chosen in ((), faults[:1], faults[1:], faults):
            with planted_together(chosen):
                found.append(VEHICLES[Place.BATCH]("llama.dense"))
        assert len(set(found)) == 4
        assert found[0] == untouched(Place.BATCH, "llama.dense")

    def test_a_held_fault_is_wrong_now_and_then_and_remembers(self) -> None:
        """A session that was cut stays one ahead, although the fault was taken out in between."""
        fault, model = fault_named("cache.position-plus-one-after-rollback"), model_of("llama.dense")
        right, session, held = RowStore.empty, Session(model, FAST), HeldFault(fault)
        session.feed(IDS[:6])
        with held.active():
            session.truncate(4)
            with held.active():
                assert vars(Session)["truncate"] is not TRUNCATE
            assert vars(Session)["truncate"] is not TRUNCATE
        assert vars(Session)["truncate"] is TRUNCATE and right == RowStore.empty
        with held.active():
            (ahead,) = session.feed(IDS[6:8])
        fresh = Session(model, FAST)
        fresh.feed(IDS[:4])
        assert not np.array_equal(ahead, fresh.feed(IDS[6:8])[0])

    def test_another_thread_waits(self) -> None:
        """Two are never planted at once by accident."""
        order: list[str] = []

        def later() -> None:
            with fault_named("window.none").planted():
                order.append("second")

        with fault_named("rope.none").planted():
            thread = threading.Thread(target=later)
            thread.start()
            thread.join(0.05)
            order.append("first")
        thread.join()
        assert order == ["first", "second"]
