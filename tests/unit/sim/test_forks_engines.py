"""The two fork simulators against each other, job by job, and against what can be worked out by hand."""

from __future__ import annotations

import numpy as np
import pytest

from parm_ray.sim.forks import Forking, simulate_forks
from parm_ray.sim.forks.events import Run
from parm_ray.sim.forks.lockstep import lockstep
from parm_ray.sim.forks.simulate import choose
from parm_ray.stats.copies import SizeSlowdown
from parm_ray.stats.families import Bimodal, Deterministic, Exponential, ShiftedExponential

STRATEGIES = [
    Forking(3, 3, 3),
    Forking(4, 4, 1),
    Forking(4, 4, 2),
    Forking(4, 4, 3, need=2),
    Forking(5, 3, 2),
    Forking(6, 3, 3, need=2, choice="groups"),
    Forking(6, 2, 1, choice="groups"),
    Forking(5, 2, 2, choice="least work"),
    Forking(4, 4, 4, need=4),
    Forking(4, 4, 2, cancel_s=0.3),
    Forking(4, 2, 2, cancel="waiting"),
    Forking(4, 4, 3, need=2, cancel="none"),
]


@pytest.mark.parametrize("strategy", STRATEGIES, ids=repr)
def test_array_steps_and_events_agree_on_every_job(strategy: Forking) -> None:
    rng, jobs, runs = np.random.default_rng(5), 400, 3
    arrivals = np.cumsum(rng.exponential(0.5, (jobs, runs)), axis=0)
    service = ShiftedExponential(0.2, 1.5).sample(rng, (jobs, runs, strategy.keep))
    # Servers that become free in the same moment take their next jobs in order of their numbers.
    mine = (
        None if strategy.forks_to_all else np.sort(choose(strategy, rng, (jobs, runs))[..., : strategy.fork])
    )
    latency, cost = lockstep(strategy, arrivals, service, mine, np.zeros((runs, strategy.servers)))
    for i in range(runs):
        places = None if mine is None else mine[:, i].tolist()
        run = Run(strategy, arrivals[:, i].tolist(), service[:, i].tolist(), places)
        run.serve()
        assert run.latency == pytest.approx(latency[:, i].tolist(), abs=1e-9)
        assert run.cost == pytest.approx(cost[:, i].tolist(), abs=1e-9)


def serve(strategy: Forking, arrivals: list[float], service: list[list[float]]) -> Run:
    run = Run(strategy, arrivals, service, None if strategy.forks_to_all else [[0, 1, 2, 3]] * len(arrivals))
    run.serve()
    return run


def test_a_hedge_by_hand() -> None:
    """The first copy would take 10, the second, sent at 2, takes 3: done at 5, 5 + 3 server seconds."""
    one = serve(Forking(4, 1, 1, hedge_s=2.0), [0.0, 1.0], [[10.0, 3.0], [1.5, 9.0]])
    # The second job waits for server 0, which is free at 5: 5 + 1.5 - 1; from its start on it takes 1.5.
    assert one.latency == [5.0, 5.5]
    assert (one.cost, one.hedged) == ([8.0, 1.5], [True, False])
    early = serve(Forking(4, 1, 1, hedge_s=2.0, hedge_from="arrival"), [0.0, 1.0], [[10.0, 3.0], [9.0, 1.5]])
    # Counted from arrival it is sent to server 1 at 3, which serves the first job until 5, as does server 0:
    # both start then, the second copy of the two ends first.
    assert early.hedged == [True, True]
    assert (early.latency, early.cost) == ([5.0, 5.5], [8.0, 3.0])
    runs_on = serve(Forking(4, 1, 1, hedge_s=2.0, cancel="waiting"), [0.0], [[10.0, 3.0]])
    assert (runs_on.latency, runs_on.cost) == ([5.0], [13.0])
    held = serve(Forking(4, 1, 1, hedge_s=2.0, cancel_s=0.25), [0.0, 4.0], [[10.0, 3.0], [1.0, 1.0]])
    assert (held.latency, held.cost) == ([5.0, 2.25], [8.25, 1.0])


def test_a_hedge_of_a_job_in_one_queue_for_all() -> None:
    """Two servers, both busy until 4 and 6: the job starts at 4, its hedge at 6, and ends at 7."""
    run = serve(Forking(2, 2, 1, hedge_s=1.0), [0.0, 0.0, 0.5], [[4.0, 9.0], [6.0, 9.0], [9.0, 1.0]])
    # It came before the hedges of the other two, which are withdrawn when these are done, at 4 and 6.
    assert run.latency == [4.0, 6.0, 6.5]
    assert (run.cost, run.hedged) == ([4.0, 6.0, 3.0 + 1.0], [True, True, True])
    # At the same time as the hedges it comes after them: at 4 the second job starts once more, until 6.
    later = serve(Forking(2, 2, 1, hedge_s=1.0), [0.0, 0.0, 1.0], [[4.0, 9.0], [6.0, 9.0], [9.0, 1.0]])
    assert (later.latency, later.cost) == ([4.0, 6.0, 7.0], [4.0, 8.0, 3.0])


def test_cancelling_holds_a_server() -> None:
    """Two servers, copies of 1 and 3, c = 0.5: the loser's server is free at 1.5."""
    strategy = Forking(2, 2, 2, cancel_s=0.5)
    run = serve(strategy, [0.0, 1.0], [[1.0, 3.0], [2.0, 0.1]])
    # The second job starts at 1 on one and at 1.5 on the other server, which is first, at 1.6; 0.6 + 0.5 on
    # the one and 0.1 on the other.
    assert run.latency == pytest.approx([1.0, 0.6])
    assert run.cost == pytest.approx([1.0 + 1.5, 1.1 + 0.1])
    # Two that end in the same moment are both done: nothing is cancelled.
    assert serve(strategy, [0.0], [[1.0, 1.0]]).cost == [2.0]


def test_what_idle_servers_do_is_exact() -> None:
    """Nearly no load: two of three copies of one length, what a shared size does to copies."""
    rng = np.random.default_rng(6)
    found = simulate_forks(Forking(3, 3, 3, need=2), Deterministic(2.0), 1e-4, rng, jobs=20, runs=4)
    assert found.latency_s == pytest.approx(np.full((4, 20), 2.0), abs=1e-6)
    assert found.cost_s == pytest.approx(np.full((4, 20), 6.0), abs=1e-6)
    x = SizeSlowdown(Exponential(1.0), Bimodal(1.0, 10.0, 0.05))
    shared = simulate_forks(Forking(2, 2, 2), x, 1e-4, rng, jobs=400, runs=64)
    mean, interval = shared.mean(shared.latency_s, level=0.999)
    assert interval.low < x.min_mean(2) < interval.high
    assert shared.mean(shared.cost_s)[0] == pytest.approx(2 * mean, rel=1e-3)


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"fork": 5}, r"fork: expected 1\.\.4"),
        ({"fork": 2, "keep": 3}, r"keep: expected 1\.\.2"),
        ({"need": 3}, r"need: expected 1\.\.2"),
        ({"fork": 3, "choice": "groups"}, "divisor of 4"),
        ({"choice": "best"}, "choice: expected one of"),
        ({"cancel_s": -1.0}, "cancel_s: .* >= 0"),
        ({"fork": 3, "hedge_s": 1.0}, "fork: with hedges"),
        ({"hedge_s": float("inf")}, "hedge_s"),
    ],
)
def test_what_is_no_strategy_is_named(fields: dict, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        Forking(**{"servers": 4, "fork": 4, "keep": 2, **fields})


def test_what_cannot_be_simulated_is_named() -> None:
    rng, strategy, x = np.random.default_rng(0), Forking(1, 1, 1), Exponential(1.0)
    bad = [({"jobs": 0}, "jobs"), ({"jobs": 1, "warm_up": -1}, "warm_up"), ({"jobs": 1, "runs": 0}, "runs")]
    for arguments, words in bad:
        with pytest.raises(ValueError, match=words):
            simulate_forks(strategy, x, 1.0, rng, **arguments)
    with pytest.raises(ValueError, match=r"rate: .* > 0"):
        simulate_forks(strategy, x, 0.0, rng, jobs=1)
    one = simulate_forks(strategy, x, 0.5, rng, jobs=10, runs=1)
    with pytest.raises(ValueError, match=">= 2 for an interval"):
        one.mean(one.latency_s)
