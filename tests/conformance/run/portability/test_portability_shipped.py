"""The portability table that travels beside the goldens."""

from __future__ import annotations

import pytest

from cai_conformance.fixtures.goldens.store import GoldenStore, locate
from cai_conformance.run.portability.classes import BitClass
from cai_conformance.run.portability.table import shipped


@pytest.fixture(scope="module")
def goldens() -> GoldenStore:
    """The goldens of this repository."""
    return GoldenStore(locate())


class TestTheShippedTable:
    """What travels beside the goldens."""

    def test_it_is_of_these_goldens_and_of_all_of_them(self, goldens: GoldenStore) -> None:
        """Whoever accepts a golden records its portability anew: `cai-conform golden portability SUITE --output …`."""
        table = shipped(goldens)
        assert table is not None
        assert ((), ()) == (table.stale(goldens), table.unrecorded(goldens))

    def test_every_record_of_every_golden_has_a_class(self, goldens: GoldenStore) -> None:
        """In each of the three arithmetics, which state the same records."""
        table = shipped(goldens)
        assert table is not None
        for suite, each in table.suites.items():
            entry = goldens.entry(suite)
            assert entry is not None
            assert ["fast", "libm/1", "strict/1"] == sorted(each.arithmetics)
            for part in each.arithmetics.values():
                assert entry.records == sum(part.counts.values()), suite

    def test_strict_never_moves_and_tokens_never_change(self, goldens: GoldenStore) -> None:
        """What the goldens rest on."""
        table = shipped(goldens)
        assert table is not None
        assert table.strict_is_invariant
        for suite, each in table.suites.items():
            for part in each.arithmetics.values():
                assert not part.counts[BitClass.UNSTABLE], suite

    def test_several_kernels_threads_and_numpys_were_recorded(self, goldens: GoldenStore) -> None:
        """By their own word, not by what was asked for."""
        table = shipped(goldens)
        assert table is not None
        facts = [run.facts for run in table.recorded if run.facts is not None]
        assert len(table.recorded) == len(facts)
        for name, least in {"kernel": 3, "threads": 2, "simd": 2, "functions": 2, "numpy": 2}.items():
            assert least <= len({fact.texts[name] for fact in facts}), name

    def test_a_setting_without_effect_is_not_counted(self, goldens: GoldenStore) -> None:
        """No two recorded runs of one NumPy have the same facts."""
        table = shipped(goldens)
        assert table is not None
        assert len(table.recorded) == len({run.facts for run in table.recorded})
