"""What the weighted router makes of replicas as Serve hands them over; with real ones: tests/ray."""

from __future__ import annotations

import asyncio
from collections import Counter
from dataclasses import dataclass, field
from typing import Any

import pytest
import ray
from ray.serve._private.common import DeploymentHandleSource, DeploymentID, ReplicaID, RequestMetadata
from ray.serve.request_router import PendingRequest

from parm_ray.core import ConfigError
from parm_ray.serve.board import board_of
from parm_ray.serve.weighted_router import WeightedRouter

DEPLOYMENT = DeploymentID("model", "app")


@dataclass
class Replica:
    name: str
    node_id: str = "n0"
    availability_zone: str | None = None
    replica_metadata: dict[str, Any] = field(default_factory=dict)
    max_ongoing_requests: int = 2

    @property
    def replica_id(self) -> ReplicaID:
        return ReplicaID(self.name, DEPLOYMENT)

    async def get_queue_len(self, *, deadline_s: float) -> int:
        return 0


class Result:
    """As a call's result is: callbacks, from another thread."""

    def add_done_callback(self, callback: Any) -> None:
        self.callback = callback

    async def ends(self, said: Any) -> None:
        await asyncio.to_thread(self.callback, said)
        await asyncio.sleep(0)


def router_of(*replicas: Replica, **kwargs: Any) -> WeightedRouter:
    router = WeightedRouter(
        deployment_id=DEPLOYMENT,
        handle_source=DeploymentHandleSource.REPLICA,
        use_replica_queue_len_cache=True,
    )
    router.initialize_state(**kwargs)
    router.update_replicas(list(replicas))
    return router


async def shares(router: WeightedRouter, picks: int = 4000) -> dict[str, float]:
    found: Counter[str] = Counter()
    for _ in range(picks):
        ranks = await router.choose_replicas(list(router.curr_replicas.values()))
        assert all(len(rank) == 1 for rank in ranks)
        found[ranks[0][0].replica_id.unique_id] += 1
    return {name: count / picks for name, count in found.items()}


async def test_bad_settings_end_a_call_and_not_the_router() -> None:
    router = router_of(Replica("a"), by="rack")
    for _ in range(2):
        pending = PendingRequest(args=[], kwargs={}, metadata=RequestMetadata("id", "internal"))
        with pytest.raises(ConfigError, match=r"request_router_kwargs: .*by: expected one of replica"):
            await asyncio.wait_for(router._choose_replica_for_request(pending), 5)
    await asyncio.sleep(0)
    assert router.curr_num_routing_tasks == 0


NODES = [
    {"NodeID": "n0", "Labels": {"kind": "big"}, "Resources": {"speed": 3.0}},
    {"NodeID": "n1", "Labels": {"kind": "small"}, "Resources": {"speed": 1.0, "CPU": 4.0}},
]


@pytest.mark.parametrize(
    ("kwargs", "wanted"),
    [
        ({"by": "replica", "weights": {"a": 2}}, {"a": 0.5, "b": 0.25, "c": 0.25}),
        ({"by": "node", "weights": {"n0": 3, "n1": 1}}, {"a": 0.375, "b": 0.375, "c": 0.25}),
        ({"by": "zone", "weights": {"east": 1, "": 3}}, {"a": 0.375, "b": 0.375, "c": 0.25}),
        ({"by": "metadata:kind", "weights": {"x": 1, "y": 4}}, {"a": 0.2, "b": 0.4, "c": 0.4}),
        ({"by": "label:kind", "weights": {"big": 1, "small": 9}}, {"a": 0.05, "b": 0.05, "c": 0.9}),
        ({"by": "resource:speed"}, {"a": 0.375, "b": 0.375, "c": 0.25}),
        ({"by": "resource:CPU"}, {"c": 1.0}),
    ],
)
async def test_replicas_are_told_apart_as_the_file_says(
    kwargs: dict[str, Any], wanted: dict[str, float], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ray, "nodes", lambda: NODES)
    router = router_of(
        Replica("a", replica_metadata={"kind": "x"}),
        Replica("b", replica_metadata={"kind": "y"}),
        Replica("c", "n1", "east", {"kind": "y"}),
        **kwargs,
    )
    # Nothing of a choice waits for what Ray says of nodes.
    assert await router.choose_replicas(list(router.curr_replicas.values()))
    await asyncio.gather(*router._tasks)
    assert await shares(router) == {name: pytest.approx(share, abs=0.04) for name, share in wanted.items()}


async def test_nodes_are_asked_for_once_and_again_for_new_ones(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = []
    monkeypatch.setattr(ray, "nodes", lambda: asked.append(1) or NODES)
    router = router_of(Replica("a"), Replica("z", "unheard of"), by="label:kind", weights={"big": 1})
    await asyncio.gather(*router._tasks)
    router.update_replicas([Replica("a"), Replica("z", "unheard of")])
    assert not router._tasks
    router.update_replicas([Replica("a"), Replica("c", "another")])
    await asyncio.gather(*router._tasks)
    assert len(asked) == 2


async def test_without_word_of_nodes_the_calls_go_on(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken() -> None:
        raise ConnectionError("no GCS")

    monkeypatch.setattr(ray, "nodes", broken)
    router = router_of(Replica("a"), Replica("c", "n1"), by="resource:speed")
    await asyncio.gather(*router._tasks)
    assert await shares(router) == {"a": pytest.approx(0.5, abs=0.05), "c": pytest.approx(0.5, abs=0.05)}


async def test_calls_in_flight_count_and_full_replicas_are_passed_over() -> None:
    a, b = Replica("a"), Replica("b")
    router = router_of(a, b)
    await asyncio.sleep(0)
    router.on_send_request(a.replica_id)
    assert (await shares(router))["b"] == pytest.approx(0.75, abs=0.04)
    router.on_send_request(a.replica_id)
    assert await shares(router, 50) == {"b": 1.0}
    for _ in range(2):
        router.on_request_completed(a.replica_id, "any")
        router.decrement_queue_len_cache(a.replica_id)
    assert (await shares(router))["a"] == pytest.approx(0.5, abs=0.04)


async def test_a_replica_that_a_call_found_dead_is_no_choice_any_more_and_front_ends_hear_of_it() -> None:
    a, b = Replica("a"), Replica("b", "n1")
    router = router_of(a, b)
    assert board_of("app", "model").nodes == {"a": "n0", "b": "n1"}
    router.on_replica_actor_died(a.replica_id)
    assert await shares(router, 50) == {"b": 1.0}
    assert board_of("app", "model").nodes == {"b": "n1"}


async def test_calls_are_timed_from_when_they_are_accepted_and_end_on_the_routers_loop() -> None:
    a = Replica("a")
    router = router_of(a)
    plane, result = router._plane, Result()
    ends: list[tuple[float, bool | None]] = []
    plane.begin = lambda replica, now: lambda at, outcome: ends.append((at - now, outcome))  # type: ignore[method-assign]
    router.on_request_routed(None, a.replica_id, result)  # type: ignore[arg-type]
    await asyncio.sleep(0.02)
    await result.ends(ValueError("no"))
    ((took, outcome),) = ends
    assert 0.02 <= took < 1
    assert outcome is False
