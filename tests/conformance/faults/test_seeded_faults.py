"""Every seeded fault shows where it says it acts, and leaves the reference as it was, bit for bit."""

from __future__ import annotations

import re
import sys
import threading
from pathlib import Path
from types import ModuleType
from typing import Final

import numpy as np
import pytest

from cai_conformance.faults import (
    FAULTS,
    GUESSES,
    Fault,
    HeldFault,
    Patch,
    Place,
    fault_named,
    faults_at,
    planted_together,
)
from cai_conformance.faults.errors import FaultError
from cai_conformance.faults.kinds import KINDS
from cai_conformance.faults.patch import PACKAGES
from cai_conformance.faults.workload import NGRAM
from cai_conformance.suites import find_suite
from cai_reference.arithmetic.instances import FAST
from cai_reference.decoding import generation, greedy, speculation
from cai_reference.decoding import speculation as drafts
from cai_reference.decoding.layer_states import RowStore
from cai_reference.decoding.session import Session
from cai_reference.text.batches import Windowing
from support_fault_workloads import IDS, OBSERVERS, model_of, untouched
from support_refusals import refuses

PAGE: Final = Path(__file__).resolve().parents[3] / "conformance" / "docs" / "faults.md"

TRUNCATE: Final = vars(Session)["truncate"]

PREFERRED: Final = ("llama.dense", "llama.gqa-window")
"""The suite whose model shows a fault that several suites show."""

SAMPLE: Final = 9
"""Of the faults every so many run always, the rest with `--exhaustive`."""


def suite_for(fault: Fault) -> str:
    """Return a suite in which a fault shows."""
    suites = [workload.suite for workload in fault.workloads if workload.suite != NGRAM]
    return next((suite for suite in PREFERRED if suite in suites), suites[0] if suites else PREFERRED[0])


def namespaces() -> dict[tuple[str, str], int]:
    """Return what every name in modules and classes of ours refers to, by identity."""
    found: dict[tuple[str, str], int] = {}
    for name, module in list(sys.modules.items()):
        if name.partition(".")[0] in PACKAGES:
            for key, value in list(vars(module).items()):
                found[name, key] = id(value)
                if isinstance(value, type) and value.__module__ == name:
                    found |= {(f"{name}.{key}", each): id(content) for each, content in list(vars(value).items())}
    return found


class TestEachFault:
    """Planted, it shows at each of its places and at no other; afterwards nothing is left of it."""

    def test_none_leaves_anything_behind(self) -> None:
        """Every name of ours refers to the very object that was there before."""
        before = namespaces()
        for fault in FAULTS:
            with fault.planted():
                pass
        assert namespaces() == before

    @pytest.mark.parametrize(
        "fault",
        [
            pytest.param(fault, id=fault.slug, marks=pytest.mark.exhaustive if place % SAMPLE else ())
            for place, fault in enumerate(GUESSES)
            if fault.places & set(OBSERVERS)
        ],
    )
    def test_it_shows_where_it_acts_and_nowhere_else(self, fault: Fault) -> None:
        """A fault of sessions leaves full passes alone, one of training both, and so on."""
        suite = suite_for(fault)
        places = {Place.BATCH, Place.SESSION} | fault.places & set(OBSERVERS)
        before = {place: untouched(place, suite) for place in places}
        with fault.planted():
            wrong = {place: OBSERVERS[place](suite) for place in places}
        shown = set() if fault.equivalent else fault.places & places
        assert shown == {place for place in places if wrong[place] != before[place]}
        assert before == {place: OBSERVERS[place](suite) for place in places}


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
            suites = [find_suite(workload.suite) for workload in fault.workloads]
            names = {check.name for suite in suites for check in suite.checks}
            assert fault.workloads and len(set(fault.workloads)) == len(fault.workloads), fault.slug
            assert bool(fault.expected) != bool(fault.equivalent or fault.unseen), fault.slug
            assert set(fault.expected) <= names, fault.slug
            assert all(
                workload.suite == suite.identifier for workload, suite in zip(fault.workloads, suites, strict=True)
            )

    def test_every_kind_that_is_known_in_public_is_seeded_or_said_to_have_no_vehicle(self) -> None:
        """One or the other (the page on faults says the latter), and no other kind is named."""
        seeded = {kind for fault in FAULTS for kind in fault.kinds}
        missing = set(re.findall(r"^\| ([A-Z]\d\d), ", PAGE.read_text("utf-8"), re.MULTILINE))
        assert seeded | missing == set(KINDS)
        assert not seeded & missing

    def test_faults_are_found_by_slug_and_by_place(self) -> None:
        """And an unknown slug is refused."""
        assert fault_named("rope.half-split").family == "rope"
        assert fault_named("cache.stale-row-after-rollback") in faults_at(Place.SESSION)
        assert fault_named("cache.stale-row-after-rollback") not in faults_at(Place.BATCH, Place.TRAINING)
        with refuses(FaultError, "unknown-fault", match=r"rope\.sideways"):
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
        with pytest.raises(ZeroDivisionError), fault_named("cache.window-ignored").planted():
            raise ZeroDivisionError
        assert methods == dict(vars(RowStore))
        with fault_named("cache.trim-after-wrap").planted():
            assert methods != dict(vars(RowStore))

    def test_a_second_fault_is_refused_unless_it_is_meant(self) -> None:
        """And the refusal leaves the first one planted."""
        right = greedy.greedy_token
        with fault_named("argmax.last-maximum").planted():
            wrong = greedy.greedy_token
            with refuses(FaultError, "fault-already-planted", match=r"window\.none cannot be planted: argmax"):
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
                found.append(OBSERVERS[Place.BATCH]("llama.dense"))
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


class TestPatch:
    """What a fault can do to the reference."""

    def test_a_setting_is_read_wrongly_by_objects_old_and_new(self) -> None:
        """And what is stored stays right, also where two changes of one setting meet."""
        old, patch = Windowing(2), Patch()
        patch.setting(Windowing, "stride", lambda stride: stride + 2)
        patch.setting(Windowing, "stride", lambda stride: stride * 10)
        new = Windowing(2, 5)
        assert (old.stride, new.stride, Windowing.stride) == (30, 70, 1)
        patch.suspend()
        assert (old.stride, new.stride, Windowing.stride) == (1, 5, 1)
        patch.resume()
        assert (old.stride, new.stride) == (30, 70)
        patch.suspend()

    def test_a_field_without_a_default_has_none_while_it_is_wrong(self) -> None:
        """As a class without one, and afterwards the name is gone from the class."""
        patch = Patch()
        patch.setting(Windowing, "context", 3)
        assert not hasattr(Windowing, "context") and Windowing(2).context == 3
        patch.suspend()
        assert "context" not in vars(Windowing)

    def test_arguments_are_changed_by_position_name_and_default(self) -> None:
        """A function sees all of them as they were given."""
        patch, logits = Patch(), np.array([1.0, 3.0, 2.0])
        patch.arguments(greedy.greedy_token, masked=lambda call: {*call.masked, len(call.logits) - 2})
        assert (greedy.greedy_token(logits), greedy.greedy_token(logits, masked={2})) == (2, 0)
        patch.suspend()
        assert greedy.greedy_token(logits) == 1

    def test_within_a_scope_only(self) -> None:
        """Elsewhere the right function acts, whoever calls it."""
        patch, logits = Patch(), np.array([1.0, 3.0])
        patch.within((Windowing, "starts"), greedy.greedy_token, lambda right, given: 1 - right(given))
        patch.around((Windowing, "starts"), lambda right, *call: [*right(*call), greedy.greedy_token(logits)])
        patch.replace(greedy.margin, lambda _: greedy.greedy_token(logits))
        assert greedy.margin(logits) == 1
        patch.suspend()
