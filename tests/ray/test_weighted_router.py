"""The weighted request router on real Serve: three replicas, weights of a file and of a plan."""

from __future__ import annotations

import json
import time
import urllib.request
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
import yaml

from load_tests.cluster import Cluster, cluster
from load_tests.serve_app import deploy

ROOT = Path(__file__).parents[2]
ROUTER = "parm_ray.serve.weighted_router:WeightedRouter"
BY_RANK = {"by": "metadata:rank"}
FLEET = {
    "front_ends": {"here": {"demands": [{"rate": 20}]}},
    "engines": {name: {"latency": {"rate": rate}} for name, rate in (("0", 60), ("1", 60), ("2", 60))},
    "network_ms": {"here": {"0": 0, "1": 0, "2": 0}},
    "control": {"interval_ms": 500, "num_cpus": 0.1, "penalty": {"min_samples": 5}},
    "data_plane": {"pull_ms": 250},
}


def app(name: str, path: str, router: dict[str, Any], **deployment: Any) -> dict[str, Any]:
    return {
        "name": name,
        "route_prefix": f"/{name}",
        "import_path": f"tests.support.ranked_app:{path}",
        "deployments": [
            {
                "name": "Ranked",
                **deployment,
                "request_router_config": {
                    "request_router_class": ROUTER,
                    "request_router_kwargs": {**BY_RANK, **router},
                },
            }
        ],
    }


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    with cluster(num_cpus=4, cwd=ROOT) as found:
        weights = {"weights": {"0": 1, "1": 2}, "default": 0}
        planned = {"control": "control", "demand": "here/default", "pull_ms": 250}
        document = {
            "proxy_location": "HeadOnly",
            "http_options": {"host": "127.0.0.1", "port": found.http_port},
            "applications": [
                {
                    "name": "control",
                    "route_prefix": "/control",
                    "import_path": "parm_ray.serve.fleet.app:control_plane",
                    "args": FLEET,
                },
                app("weighted", "build", weights),
                app("direct", "direct", weights),
                app("planned", "build", planned),
                app("wrong", "build", {"by": "rack"}, num_replicas=1),
            ],
        }
        file = tmp_path_factory.mktemp("weighted") / "serve.yaml"
        file.write_text(yaml.safe_dump(document))
        deploy(found, file, ready_path="/planned/ask?calls=1")
        yield found


def got(running: Cluster, path: str) -> bytes:
    with urllib.request.urlopen(running.base_url + path, timeout=30) as answer:
        return answer.read()


def asked(running: Cluster, app: str, calls: int, times: int = 1) -> Counter[str]:
    found: Counter[str] = Counter()
    for _ in range(times):
        found.update(json.loads(got(running, f"/{app}/ask?calls={calls}")))
    assert found.total() == calls * times
    return found


def until(said: Callable[[], bool], seconds: float = 60.0) -> None:
    end = time.monotonic() + seconds
    while not said():
        assert time.monotonic() < end, "it did not come about"


def test_calls_of_one_request_are_split_by_the_files_weights(running: Cluster) -> None:
    shares = asked(running, "weighted", 15, 40)
    assert "2" not in shares
    assert shares["1"] / shares.total() == pytest.approx(2 / 3, abs=0.06)


def test_calls_that_find_their_replica_full_are_answered_by_the_other_one(running: Cluster) -> None:
    """Twenty at a time may be at one: of fifty some have to wait, none goes where no weight is or hangs."""
    shares = asked(running, "weighted", 50, 4)
    assert set(shares) == {"0", "1"}


def test_with_settings_that_are_none_every_call_ends_at_once_and_says_why(running: Cluster) -> None:
    (why,) = asked(running, "wrong", 5)
    assert "request_router_kwargs: Value error, by: expected one of replica, node, zone" in why
    assert "got rack" in why


def test_a_proxy_splits_by_them_too(running: Cluster) -> None:
    with ThreadPoolExecutor(4) as threads:
        said = Counter(threads.map(lambda _: got(running, "/direct").decode().strip('"'), range(400)))
    assert set(said) == {"0", "1"}
    assert said["1"] / 400 == pytest.approx(2 / 3, abs=0.08)


def test_a_plan_takes_the_place_of_weights_and_a_slow_replica_loses_its_share(running: Cluster) -> None:
    def snapshot() -> dict[str, Any]:
        return json.loads(got(running, "/control/snapshot"))

    def load(seconds: float) -> Counter[str]:
        found: Counter[str] = Counter()
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            found += asked(running, "planned", 3)
        return found

    load(3.0)
    # The router's reports are what the plan is for.
    until(lambda: snapshot()["ages_s"]["demand of here"] is not None)
    usual = load(4.0)
    assert {name: count / usual.total() for name, count in usual.items()} == pytest.approx(
        dict.fromkeys("012", 1 / 3), abs=0.1
    )
    got(running, "/planned/slow?rank=2&times=15")
    load(6.0)
    assert snapshot()["penalties"]["2"][0] <= 0.1
    slow = load(4.0)
    assert slow["2"] / slow.total() < 0.1
    got(running, "/planned/slow?rank=2&times=1")
    until(lambda: load(1.0).total() > 0 and not snapshot()["penalties"], 90)
    again = load(4.0)
    assert again["2"] / again.total() > 0.2
