import numpy as np
import pytest

from parm_ray.sim.background import Shuffles, Tenant

NODES = [str(i) for i in range(18)]


def test_shuffles_join_two_nodes_each_all_the_time() -> None:
    shuffles = Shuffles(NODES, 4, (1.0, 3.0), seed=0)
    for at in np.arange(0.0, 200.0, 0.7):
        assert sum(shuffles.on(node, at) for node in NODES) == 2 * 4


def test_every_node_gets_its_share_in_the_long_run() -> None:
    shuffles = Shuffles(NODES, 4, (1.0, 3.0), seed=1)
    times = np.arange(0.0, 4000.0, 1.0)
    seen = dict.fromkeys(NODES, 0)
    for at in times:
        for node in NODES:
            seen[node] += shuffles.on(node, at)
    means = np.array(list(seen.values())) / len(times)
    assert means.mean() == pytest.approx(8 / 18)
    assert means.min() > 0.8 * 8 / 18
    assert means.max() < 1.2 * 8 / 18


def test_the_schedule_depends_on_the_seed_alone() -> None:
    def schedule(seed: int) -> list[int]:
        shuffles = Shuffles(NODES, 3, (1.0, 3.0), seed=seed)
        return [shuffles.on(node, at) for at in np.arange(0, 50, 1.0) for node in NODES]

    assert schedule(5) == schedule(5)
    assert schedule(5) != schedule(6)


def test_no_shuffles_touch_nobody() -> None:
    assert Shuffles(NODES, 0, (1.0, 2.0), seed=0).on("3", 10.0) == 0


def test_a_tenant_makes_calls_longer_by_what_it_runs_meanwhile() -> None:
    """Alone 0.02 s; a tenant busy 28 % of the time adds less than twice that share of it on average."""
    tenant = Tenant(14.0, 0.02, "0")
    times = np.array([tenant.lengthen(0.02) for _ in range(20_000)])
    assert times.min() == 0.02
    assert times.max() <= 0.04
    # Half of a query met in its middle (0.28 x 0.01) and those that come meanwhile (0.28 x 0.02, at most
    # one's length of a call counts).
    assert 0.0215 < times.mean() < 0.0285
    assert (times > 0.02).mean() == pytest.approx(1 - (1 - 0.28) * np.exp(-0.28), abs=0.02)


@pytest.mark.parametrize(
    ("make", "name"),
    [
        (lambda: Shuffles(NODES, -1, (1.0, 2.0), 0), "concurrent"),
        (lambda: Shuffles(["a"], 1, (1.0, 2.0), 0), "nodes"),
        (lambda: Shuffles(NODES, 1, (2.0, 1.0), 0), "lasting_s"),
        (lambda: Tenant(60.0, 0.02, "0"), "rate"),
    ],
)
def test_arguments_out_of_range_are_refused_by_name(make, name) -> None:
    with pytest.raises(ValueError, match=name):
        make()
