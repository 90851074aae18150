"""Who is turned away: by the plan in advance, by what is in flight at the moment."""

from __future__ import annotations

import pytest

from parm_ray.routing.planes.admission import AdmissionRule, Gate


def test_a_gate_lets_all_pass_until_it_is_narrowed_and_then_its_rate() -> None:
    gate = Gate(AdmissionRule(slack=1.0, burst_s=0.1))
    assert all(gate.admit(0.0) for _ in range(1000))
    gate.narrow(50.0, 0.0)
    passed = sum(gate.admit(n / 200) for n in range(2000))
    assert passed == pytest.approx(500, abs=6)
    gate.narrow(None, 10.0)
    assert all(gate.admit(10.0) for _ in range(100))


def test_it_says_when_to_come_back() -> None:
    gate = Gate(AdmissionRule())
    gate.narrow(0.5, 0.0)
    assert gate.admit(0.0)
    assert not gate.admit(0.0)
    assert gate.retry_after_s() == pytest.approx(1 / (0.5 * 1.05), rel=1e-6)


def test_a_gate_that_lets_nothing_pass() -> None:
    gate = Gate(AdmissionRule())
    gate.narrow(0.0, 0.0)
    gate.admit(0.0)
    assert not any(gate.admit(float(n)) for n in range(1, 100))


def test_the_less_important_find_an_engine_full_earlier() -> None:
    rule = AdmissionRule(burst=2.0, reserve=0.2)
    assert [rule.limit(10.0, rank) for rank in (0, 1, 2)] == [20, 16, 13]
    assert rule.limit(0.0) == rule.min_in_flight


@pytest.mark.parametrize(
    ("field", "value"),
    [("burst", 0.0), ("reserve", 1.0), ("min_in_flight", 0), ("slack", 0.5), ("burst_s", 0.0)],
)
def test_rules_that_make_no_sense_are_refused_by_name(field: str, value: float) -> None:
    with pytest.raises(ValueError, match=field):
        AdmissionRule(**{field: value})
