"""What a scenario does to its servers, in the simulator: each worked out by hand or against a formula."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from pydantic import ValidationError

from parm_ray.config.scenario import Scenario
from parm_ray.config.scenario_files import scenario_file
from parm_ray.core import CallId, ConfigError, GroupId
from parm_ray.groups.lanes import DEPLOYED
from parm_ray.scenarios import simulate_cell
from parm_ray.scenarios.service import service_of

ROOT = Path(__file__).parents[3]
FILES = sorted((ROOT / "load_tests" / "scenarios").glob("*.yaml"))
SHUFFLED = {
    "lab": {"model_nodes": 4, "link": {"rate_mbit": 100}},
    "shuffles": {"concurrent": 1, "size_mb": [25, 25]},
    "network": {"hit": 0.5, "delay_ms": 30},
}

CALL = CallId(GroupId(0), 0)


def scenario(**changed: Any) -> Scenario:
    given = {
        "name": "brief",
        "m": 2,
        "rates": [10],
        "queries": 3000,
        "service": {"kind": "deterministic", "service_s": 0.05},
        "plans": [{"name": "none", "deployed": 2}],
    }
    return Scenario.model_validate(given | changed)


def test_a_stall_holds_the_call_it_meets_and_those_that_begin_in_it() -> None:
    stall = {"kind": "stall", "replica": "deployed/0", "at_s": 1.0, "for_s": 2.0}
    takes = service_of(scenario(faults=[stall]), ["deployed/0", "deployed/1"], 0, 0)
    assert takes("deployed/0", 0, 0.5, CALL) == pytest.approx(0.05)
    assert takes("deployed/0", 1, 0.98, CALL) == pytest.approx(2.05)
    assert takes("deployed/0", 2, 2.0, CALL) == pytest.approx(1.05)
    assert takes("deployed/0", 3, 3.0, CALL) == pytest.approx(0.05)
    assert takes("deployed/1", 0, 0.98, CALL) == pytest.approx(0.05)


def test_while_a_servers_link_is_cut_it_computes_and_nothing_gets_through() -> None:
    cut = {"kind": "cut", "replica": "deployed/0", "at_s": 1.0, "for_s": 2.0}
    takes = service_of(scenario(faults=[cut]), ["deployed/0", "deployed/1"], 0, 0)
    assert takes("deployed/0", 0, 0.5, CALL) == pytest.approx(0.05)
    assert takes("deployed/0", 1, 0.98, CALL) == pytest.approx(2.02), "its answer waits"
    assert takes("deployed/0", 2, 2.0, CALL) == pytest.approx(1.05), "it is not even there before"
    assert takes("deployed/0", 3, 3.0, CALL) == pytest.approx(0.05)
    assert takes("deployed/1", 0, 0.98, CALL) == pytest.approx(0.05)


def test_a_fault_of_a_replica_that_no_plan_has_is_refused() -> None:
    stall = {"kind": "stall", "replica": "deployed/2", "at_s": 1.0, "for_s": 2.0}
    with pytest.raises(ValidationError, match="deployed/2: no plan has"):
        scenario(faults=[stall])


def test_a_kill_takes_what_runs_and_the_server_is_away_until_it_is_replaced() -> None:
    """One query every 100 ms for two servers: while one is away the other takes all of them."""
    kill = {"kind": "kill", "replica": "deployed/1", "at_s": 10.0, "for_s": 100.0}
    away = scenario(faults=[kill], arrivals={"kind": "constant"})
    found = simulate_cell(away, away.plans[0], 0, 0).found
    assert np.isfinite(found.latency).all()
    calm = scenario(arrivals={"kind": "constant"})
    before = simulate_cell(calm, calm.plans[0], 0, 0).found
    assert before.calls_by_server["deployed/1"] - found.calls_by_server["deployed/1"] > 400
    # Plans without the replica are spared.
    one, two = {"name": "one", "deployed": 1}, {"name": "two", "deployed": 2}
    both = scenario(faults=[kill], arrivals={"kind": "constant"}, plans=[one, two])
    assert simulate_cell(both, both.plans[0], 0, 0).found.calls_by_server["deployed/0"] == 3000
    with pytest.raises(ConfigError, match="killed again"):
        simulate_cell(scenario(faults=[kill, kill]), away.plans[0], 0, 0)


def test_a_full_queue_refuses_queries_as_the_servers_does() -> None:
    """Two servers at ten times what they can do, a batch may wait: what was refused never got an answer."""
    full = scenario(rates=[400], queue={"max_queued": 1}, deadline_ms=60_000)
    found = simulate_cell(full, full.plans[0], 0, 0).found
    answered = np.isfinite(found.latency)
    assert found.calls[DEPLOYED] == answered.sum()
    assert 0.05 < answered.mean() < 0.2
    assert found.latency[answered].max() <= 0.1 + 1e-9, "one call before it, and its own"
    open_queue = scenario(rates=[400], deadline_ms=600_000)
    assert np.isfinite(simulate_cell(open_queue, open_queue.plans[0], 0, 0).found.latency).all()


def test_shuffles_hit_the_share_of_calls_that_they_should() -> None:
    """One shuffle of two among four nodes: a node is in it half of the time, half of its calls are hit."""
    takes = service_of(scenario(**SHUFFLED), ["deployed/0", "deployed/1"], 0, 0)
    times = np.array([takes("deployed/0", i, i * 0.1, CALL) for i in range(40_000)])
    late = times[times > 0.0501]
    assert len(late) / len(times) == pytest.approx(0.25, abs=0.03)
    assert late.mean() - 0.05 == pytest.approx(0.03, rel=0.05)


def test_shuffles_need_to_be_described_for_the_simulator() -> None:
    for missing, words in (("network", "network"), ("lab", r"lab\.link\.rate_mbit")):
        unclear = scenario(**{key: value for key, value in SHUFFLED.items() if key != missing})
        with pytest.raises(ConfigError, match=words):
            simulate_cell(unclear, unclear.plans[0], 0, 0)


def test_a_second_model_lengthens_calls_on_its_nodes_alone() -> None:
    two = scenario(second_model={"nodes": 1, "rate": 10})
    takes = service_of(two, ["deployed/0", "deployed/1"], 0, 0)
    shared, alone = (
        np.array([takes(server, i, float(i), CALL) for i in range(4000)])
        for server in ("deployed/0", "deployed/1")
    )
    assert set(alone) == {0.05}
    # Busy half of the time: half of the calls find half a query, and all share what comes meanwhile.
    assert 0.06 < shared.mean() < 0.10
    for changed, words in (({"nodes": 3, "rate": 1}, "nodes"), ({"nodes": 1, "rate": 25}, "rate")):
        busy = scenario(second_model=changed)
        with pytest.raises(ConfigError, match=words):
            simulate_cell(busy, busy.plans[0], 0, 0)


@pytest.mark.parametrize("path", [p for p in FILES if p.stem != "shuffles"], ids=lambda path: path.stem)
def test_every_scenario_that_ships_runs_in_the_simulator(path: Path) -> None:
    found = scenario_file(path)
    for plan in found.plans:
        cell = simulate_cell(found, plan, 0, 0, queries=300)
        assert np.isfinite(cell.found.latency).all(), plan.name
