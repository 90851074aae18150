"""The adviser at work and the ingresses that follow it, with contests that the test decides."""

from __future__ import annotations

import asyncio
import logging
from typing import Any

import pytest

from parm_ray.advisor.auto import Comparison, Rival
from parm_ray.advisor.contest import Contest
from parm_ray.advisor.objective import Objective
from parm_ray.config import Settings
from parm_ray.core import InvalidInput, ManualClock
from parm_ray.redundancy import Hedge, RedundancyPlan
from parm_ray.serve.advising import Advising, limits_of, pools_of
from parm_ray.serve.following import Following, Order, Report
from parm_ray.stats import Interval
from tests.support.fake_pools import rig
from tests.unit.advisor.test_observed_workloads import page

NONE = RedundancyPlan()
HEDGED = RedundancyPlan("hedged", hedge=Hedge("fixed", 0.1))


def settings(**auto: Any) -> Settings:
    return Settings.model_validate({"model": {"artifact": "a"}, "auto": {"interval_s": 30, **auto}})


def better(plan: RedundancyPlan = HEDGED, share: float = 0.5) -> Contest:
    return Contest(Comparison((Rival(plan, share, Interval(share, share)),)), Objective(0.99))


class Rigged:
    """An adviser whose contests end as the test says; `asked` remembers what was compared."""

    def __init__(self, *ends: Any, **auto: Any) -> None:
        self.clock, self.ends, self.asked = ManualClock(), list(ends), []
        found = settings(**{"repeats": 1, "dwell_s": 0, **auto})
        self.advising = Advising(found, found.auto, self.clock, self._compare)

    def _compare(self, seen, plan, objective, limits, *, again, seed) -> Contest:
        self.asked.append((seen, plan, again, seed))
        end = self.ends.pop(0)
        if isinstance(end, Exception):
            raise end
        return end

    def report(self, ingress: str = "i1", plan: RedundancyPlan = NONE, **more: Any) -> Order:
        return self.advising.exchange(Report(ingress, page([1.0] * 10, **more), plan))


async def test_a_better_plan_is_handed_to_every_ingress_that_reports(caplog) -> None:
    r = Rigged(better())
    assert r.report("i1").plan == r.report("i2").plan == NONE
    with caplog.at_level(logging.WARNING, "ray.serve"):
        await r.advising.advise()
    (line,) = [record.getMessage() for record in caplog.records]
    assert line.startswith("plan none -> hedged (better): p99 at 40.0 batches/s")
    for ingress in ("i1", "i2", "one that is new"):
        order = r.report(ingress)
        assert (order.plan, order.reason) == (HEDGED, "better")
        assert order.why in line
    seen, plan, again, _ = r.asked[0]
    assert (seen.workload.rate, plan, again) == (40.0, NONE, None)


async def test_without_a_report_nothing_is_advised_and_old_reports_do_not_count() -> None:
    r = Rigged(better(), better())
    await r.advising.advise()
    assert not r.asked
    r.report("gone")
    r.clock.advance(61)
    await r.advising.advise()
    assert not r.asked, "who has not reported for two intervals is not there"
    r.report("i1")
    await r.advising.advise()
    assert r.asked[0][0].workload.rate == 20.0


async def test_a_contest_that_fails_leaves_the_plan_and_says_why() -> None:
    r = Rigged(ValueError("sample: expected at least 200"), RuntimeError("a bug"), better())
    r.report()
    await r.advising.advise()
    assert (r.report().plan, r.report().last) == (NONE, "no advice: sample: expected at least 200")
    await r.advising.advise()
    assert (r.report().plan, r.report().reason) == (NONE, None)
    assert "a bug" in r.report().last
    await r.advising.advise()
    assert r.report().plan == HEDGED
    assert r.advising.results == {"too_few": 1, "failed": 1, "change": 1}
    assert len({seed for *_, seed in r.asked}) == 3, "each advice draws anew"


async def test_the_rules_are_those_of_the_settings_and_the_challenger_is_compared_again() -> None:
    r = Rigged(better(), better(), better(), repeats=2, dwell_s=100)
    r.report()
    await r.advising.advise()
    assert (r.report().plan, r.asked[0][2]) == (NONE, None)
    r.clock.advance(50)
    r.report()
    await r.advising.advise()
    assert r.report().plan == NONE, "dwelling"
    assert r.asked[1][2] == HEDGED
    r.clock.advance(60)
    r.report()
    await r.advising.advise()
    assert r.report().plan == HEDGED


async def test_an_adviser_that_starts_anew_takes_over_the_plan_that_it_finds() -> None:
    r = Rigged(better(NONE, 0.5))
    assert r.report(plan=HEDGED).plan == HEDGED
    assert r.report("behind", plan=NONE).plan == HEDGED, "all go by one plan"
    await r.advising.advise()
    assert r.report().plan == NONE


async def test_reports_are_answered_while_an_advice_is_worked_out() -> None:
    import threading

    go = threading.Event()
    r = Rigged()
    r.advising._compare = lambda *args, **more: go.wait(10) and better()
    r.report()
    task = asyncio.ensure_future(r.advising.advise())
    await asyncio.sleep(0.05)
    assert r.report().plan == NONE
    go.set()
    await task
    assert r.report().plan == HEDGED


async def test_the_loop_goes_on_after_whatever_happens_and_keeps_its_interval() -> None:
    r, slept = Rigged(RuntimeError("a bug"), better()), []

    async def sleep(seconds: float) -> None:
        slept.append(seconds)
        r.clock.advance(seconds)
        if len(slept) == 2:
            raise asyncio.CancelledError
        r.report()

    r.report()
    with pytest.raises(asyncio.CancelledError):
        await r.advising.forever(sleep)
    assert slept == [30.0, 30.0]
    assert r.report().plan == HEDGED


def test_limits_and_pools_are_read_from_the_settings() -> None:
    found = Settings.model_validate(
        {
            "model": {"artifact": "a"},
            "parity": [{"artifact": "p"}],
            "plan": {"kind": "coded", "k": 4, "pool": "shared"},
            "auto": {"kinds": ["coded"], "max_extra_work": 0.3, "reconstruction_loss": 0.1, "max_copies": 2},
        }
    )
    limits, pools = limits_of(found.auto), pools_of(found, found.auto)
    assert limits.kinds == {"none", "coded"}
    assert (limits.extra_work, limits.copies) == (0.3, 2)
    assert pools.shared
    assert (pools.offer.k, pools.offer.accuracy_loss) == (4, 0.1)
    assert pools_of(settings(), settings().auto).offer is None


# -- the ingress ---------------------------------------------------------------------------------


async def following(*answers: Any):
    """An ingress on held pools, and an adviser that gives these answers."""
    r, left, changes = rig(None), list(answers), []

    async def exchange(report: Report) -> Order:
        answer = left.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer

    def use(plan: RedundancyPlan, reason: str) -> None:
        if r.driver.use(plan):
            changes.append((plan.name, reason))

    follow = Following(exchange, lambda: Report("i1", {}, r.driver.machine.plan), use)
    return r, follow, changes


async def test_an_order_is_followed_once_and_its_words_are_shown() -> None:
    order = Order(HEDGED, "better", "because", "because")
    r, follow, changes = await following(Order(RedundancyPlan(fill_timeout_s=30.0)), order, order)
    for _ in range(3):
        await follow.once()
    assert changes == [("hedged", "better")]
    assert r.driver.machine.plan.name == "hedged"
    assert follow.page() == {"reason": "better", "why": "because", "last": "because", "failing": ""}


async def test_when_the_adviser_fails_the_last_plan_stays_and_it_is_logged_once(caplog) -> None:
    order = Order(HEDGED, "better")
    r, follow, _ = await following(order, ConnectionError("gone"), ConnectionError("gone"), order)
    await follow.once()
    with caplog.at_level(logging.WARNING, "ray.serve"):
        await follow.once()
        await follow.once()
    assert len(caplog.records) == 1
    assert r.driver.machine.plan.name == "hedged"
    assert "gone" in follow.page()["failing"]
    assert follow.page()["reason"] == "better"
    await follow.once()
    assert follow.page()["failing"] == ""


async def test_a_plan_that_the_server_cannot_carry_out_changes_nothing() -> None:
    bad = RedundancyPlan("coded", k=2, r=1)
    r, follow, changes = await following(Order(bad, "better"))
    await follow.once()
    assert changes == []
    assert r.driver.machine.plan.name == "none"
    assert InvalidInput.__name__ in follow.page()["failing"]


async def test_an_adviser_that_never_answers_is_waited_for_no_longer_than_it_may_take(monkeypatch) -> None:
    monkeypatch.setattr("parm_ray.serve.following.TIMEOUT_S", 0.01)
    never = Following(lambda report: asyncio.Event().wait(), lambda: None, lambda plan, reason: None)
    await asyncio.wait_for(never.once(), 5)
    assert "Timeout" in never.page()["failing"]
