"""How long a scenario's calls take in the simulator: the model, slow calls, and what else the node does."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Sequence

import numpy as np

from parm_ray.config.scenario import Scenario
from parm_ray.core import CallId, ConfigError
from parm_ray.groups.lanes import BACKUP, DEPLOYED, lane_of
from parm_ray.sim import Service
from parm_ray.sim.background import Shuffles, Tenant
from parm_ray.workload import ServiceTime

_BLOCK = 4096
_MODELS = {DEPLOYED: "deployed", BACKUP: "backup"}

Longer = Callable[[float, str, float], float]
"""(seconds, server, start) to the seconds that a call takes there and then."""


def service_of(scenario: Scenario, servers: Sequence[str], repetition: int, point: int) -> Service:
    """Return how long calls take: the model's own time, times the script's factor, lengthened by the node.

    servers: all of the plan's, each on a node of its own. Raises ConfigError for background traffic
    whose effect the scenario does not give.
    """
    seed = [scenario.seed, repetition, point]
    draws: dict[str, Callable[[], float]] = {}
    for number, name in enumerate(("deployed", "parity", "backup")):
        rng = np.random.default_rng([*seed, 1000 + number])
        draws[name] = _drawn(scenario.service_time(name, rng)).__next__
    script_seed = scenario.script_seed(repetition, point)
    script = scenario.slowness.script(script_seed)
    lengthen = [
        *_shuffled(scenario, servers, script_seed),
        *_shared(scenario, servers, script_seed),
        *_stalled(scenario),
        *_cut_off(scenario),
    ]
    slot_s = scenario.path.slot_ms / 1e3

    def seconds(server: str, number: int, at: float, call: CallId) -> float:
        takes = draws[_MODELS.get(lane_of(call), "parity")]()
        if script is not None:
            takes *= script.factor(server, number, at)
        for longer in lengthen:
            takes = longer(takes, server, at)
        return slot_s + takes

    return seconds


def _stalled(scenario: Scenario) -> Iterator[Longer]:
    """A stopped server's calls go on when it does."""
    stalls = _spans(scenario, "stall")
    if not stalls:
        return

    def longer(takes: float, server: str, at: float) -> float:
        for begin, end in stalls.get(server, ()):
            if at < end and at + takes > begin:
                takes += end - max(at, begin)
        return takes

    yield longer


def _cut_off(scenario: Scenario) -> Iterator[Longer]:
    """A cut-off server goes on, but nothing gets to it or back until its link is there again."""
    cuts = _spans(scenario, "cut")
    if not cuts:
        return

    def longer(takes: float, server: str, at: float) -> float:
        arrives, ends = at, at + takes
        for begin, end in cuts.get(server, ()):
            if begin <= arrives < end:
                arrives, ends = end, end + takes
            elif begin <= ends < end:
                ends = end
        return ends - at

    yield longer


def _spans(scenario: Scenario, kind: str) -> dict[str, list[tuple[float, float]]]:
    """Return from when to when each server has faults of a kind, seconds, in order."""
    spans: dict[str, list[tuple[float, float]]] = {}
    for fault in sorted(scenario.faults, key=lambda fault: fault.at_s):
        if fault.kind == kind:
            spans.setdefault(fault.replica, []).append((fault.at_s, fault.at_s + fault.for_s))
    return spans


def _shuffled(scenario: Scenario, servers: Sequence[str], seed: int) -> Iterator[Longer]:
    """Calls on nodes that exchange data are now and then delayed by the network."""
    if scenario.shuffles is None:
        return
    network = scenario.network
    if network is None:
        raise ConfigError(
            f"{scenario.name}: network: expected what shuffles do to calls, hit and delay_ms, for the "
            "simulator, which has no links; or run it with python -m load_tests.run --on netlab"
        )
    lab = scenario.lab or {}
    try:
        concurrent, sizes = scenario.shuffles["concurrent"], scenario.shuffles["size_mb"]
        rate = lab["link"]["rate_mbit"]
    except (KeyError, TypeError):
        raise ConfigError(
            f"{scenario.name}: expected shuffles.concurrent, shuffles.size_mb and lab.link.rate_mbit, "
            "from which the simulator takes how many shuffles there are and how long they last"
        ) from None
    # Nodes without a replica shuffle, too.
    nodes = [*servers, *(f"node/{i}" for i in range(len(servers), lab.get("model_nodes", 0)))]
    lasting = (8 * sizes[0] / rate, 8 * sizes[1] / rate)
    shuffles = Shuffles(nodes, concurrent, lasting, seed)
    rng = random.Random(f"hit/{seed}")
    hit, delay_s = network.hit, network.delay_ms / 1e3

    def longer(takes: float, server: str, at: float) -> float:
        met = shuffles.on(server, at)
        if met and rng.random() < 1 - (1 - hit) ** met:
            return takes + rng.expovariate(1 / delay_s)
        return takes

    yield longer


def _shared(scenario: Scenario, servers: Sequence[str], seed: int) -> Iterator[Longer]:
    """A second model's queries share some servers' accelerators with ours."""
    second = scenario.second_model
    if second is None:
        return
    if second.nodes > len(servers):
        raise ConfigError(
            f"{scenario.name}: second_model.nodes: expected at most {len(servers)}, the plan's replicas, "
            f"got {second.nodes}"
        )
    mean_s = scenario.service_time("deployed", np.random.default_rng(0)).mean_s
    # Spread evenly over the pools.
    chosen = [servers[i * len(servers) // second.nodes] for i in range(second.nodes)]
    try:
        tenants = {s: Tenant(second.rate / second.nodes, mean_s, f"{seed}/{s}") for s in chosen}
    except ValueError as error:
        raise ConfigError(f"{scenario.name}: second_model.rate: too much for its nodes ({error})") from None

    def longer(takes: float, server: str, at: float) -> float:
        tenant = tenants.get(server)
        return takes if tenant is None else tenant.lengthen(takes)

    yield longer


def _drawn(service: ServiceTime) -> Iterator[float]:
    """Yield service times, drawn a block at a time."""
    while True:
        yield from service.draw_many(_BLOCK).tolist()
