from __future__ import annotations

import itertools
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from load_tests.shuffles.nodes import ShuffleError, names, taking_part
from load_tests.shuffles.plan import Exchange, chunks, exchanges
from load_tests.shuffles.report import Finished, ShuffleReport
from load_tests.shuffles.settings import ShuffleSettings, load_settings
from parm_ray.core import ConfigError


def first(n: int, nodes: int = 6, size_mb: tuple[float, float] = (128, 256), seed: int = 0) -> list[Exchange]:
    return list(itertools.islice(exchanges(nodes, size_mb, seed), n))


def test_the_plan_is_a_function_of_the_seed() -> None:
    assert first(100, seed=7) == first(100, seed=7)
    assert first(100, seed=7) != first(100, seed=8)
    assert first(200, seed=7)[:100] == first(100, seed=7)
    assert [exchange.number for exchange in first(3)] == [0, 1, 2]


def test_every_ordered_pair_is_equally_likely_and_nobody_talks_to_itself() -> None:
    n, nodes = 6000, 4
    counted = Counter((exchange.first, exchange.second) for exchange in first(n, nodes))
    assert set(counted) == set(itertools.permutations(range(nodes), 2))
    expected = n / 12
    # Five standard deviations of a binomial count, for twelve counts of a fixed seed.
    assert all(abs(count - expected) < 5 * (expected * 11 / 12) ** 0.5 for count in counted.values())


def test_sizes_fill_their_range() -> None:
    sizes = [exchange.size for exchange in first(1000, size_mb=(1, 3))]
    assert 1_000_000 <= min(sizes) < 1_020_000
    assert 2_980_000 < max(sizes) <= 3_000_000
    assert {exchange.size for exchange in first(50, size_mb=(5, 5))} == {5_000_000}


@pytest.mark.parametrize("nodes", [0, 1])
def test_it_takes_two(nodes: int) -> None:
    with pytest.raises(ValueError, match=f"at least 2 to exchange data, got {nodes}"):
        exchanges(nodes, (1, 2), 0)


@given(st.integers(1, 10_000), st.integers(1, 500))
def test_chunks_are_full_but_for_the_last_and_nothing_is_lost(size: int, chunk: int) -> None:
    cut = chunks(size, chunk)
    assert sum(cut) == size
    assert all(piece == chunk for piece in cut[:-1])
    assert 0 < cut[-1] <= chunk


def test_the_defaults_are_the_papers() -> None:
    settings = ShuffleSettings()
    assert (settings.concurrent, settings.size_mb, settings.both_ways) == (4, (128, 256), True)


def test_settings_are_read_from_yaml(tmp_path: Path) -> None:
    path = tmp_path / "shuffles.yaml"
    path.write_text("{concurrent: 2, size_mb: [27, 53], chunk_mb: 0.5, resource: null, pause_s: 1.5}")
    settings = load_settings(path)
    assert (settings.size_mb, settings.resource, settings.chunk_bytes) == ((27, 53), None, 500_000)
    assert settings.most_stored_bytes == 2 * 2 * 3 * 500_000
    path.write_text("")
    assert load_settings(path) == ShuffleSettings()


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("sizes_mb: [1, 2]", "sizes_mb"),
        ("size_mb: [2, 1]", "size_mb: Value error, expected the least size, then the most, got [2.0, 1.0]"),
        ("size_mb: [0, 1]", "size_mb.0: Input should be greater than 0"),
        ("concurrent: 0", "concurrent: Input should be greater than or equal to 1"),
        ("chunk_mb: 0.01", "chunk_mb: Input should be greater than or equal to 0.2"),
        ("pause_s: -1", "pause_s: Input should be greater than or equal to 0"),
        ("duration_s: 0", "duration_s: Input should be greater than 0"),
        ("{", "not YAML"),
    ],
)
def test_bad_settings_are_named_with_file_and_key(tmp_path: Path, text: str, words: str) -> None:
    path = tmp_path / "shuffles.yaml"
    path.write_text(text)
    with pytest.raises(ConfigError) as refused:
        load_settings(path)
    assert str(refused.value).startswith(f"{path}: ")
    assert words in str(refused.value)


def node(address: str, *, alive: bool = True, store: float = 1e9, **resources: float) -> dict[str, Any]:
    return {
        "NodeID": f"id-{address}",
        "NodeManagerAddress": address,
        "Alive": alive,
        "Resources": {"object_store_memory": store, **resources},
    }


def addresses(found: list[dict[str, Any]]) -> list[str]:
    return [each["NodeManagerAddress"] for each in found]


def test_the_living_nodes_with_the_resource_take_part_in_the_order_of_their_addresses() -> None:
    cluster = [
        node("10.0.0.10", model_node=1),
        node("10.0.0.9", model_node=0.5),
        node("10.0.0.1", frontend=1),
        node("10.0.0.2", alive=False, model_node=1),
    ]
    assert addresses(taking_part(cluster, ShuffleSettings())) == ["10.0.0.9", "10.0.0.10"]
    everybody = taking_part(cluster, ShuffleSettings(resource=None))
    assert addresses(everybody) == ["10.0.0.1", "10.0.0.9", "10.0.0.10"]


def test_nodes_may_have_names_for_addresses() -> None:
    cluster = [node("worker-b", model_node=1), node("worker-a", model_node=1)]
    assert addresses(taking_part(cluster, ShuffleSettings())) == ["worker-a", "worker-b"]


def test_nodes_that_share_an_address_are_told_apart_by_their_ids() -> None:
    same = [{**node("10.0.0.1"), "NodeID": each * 10} for each in "ab"]
    assert names([*same, node("10.0.0.2")]) == ("10.0.0.1/aaaaaa", "10.0.0.1/bbbbbb", "10.0.0.2")


def test_too_few_nodes_are_refused() -> None:
    cluster = [node("10.0.0.1", model_node=1), node("10.0.0.2")]
    with pytest.raises(ShuffleError, match="at least 2 living nodes that have 'model_node', found 1"):
        taking_part(cluster, ShuffleSettings())


def test_object_stores_that_the_chunks_would_fill_are_refused() -> None:
    cluster = [node("10.0.0.1", model_node=1), node("10.0.0.2", model_node=1, store=50e6)]
    with pytest.raises(ShuffleError, match=r"up to 96 MB .* the object store of 10.0.0.2 has 50 MB"):
        taking_part(cluster, ShuffleSettings())
    assert taking_part(cluster, ShuffleSettings(concurrent=2))


def test_the_report_counts_what_arrived_and_what_ended() -> None:
    report = ShuffleReport(
        nodes=("a", "b", "c"),
        moved={(0, 1): 3_000_000, (2, 0): 1_000_000},
        finished=(Finished(0, 1, 0.0, 1.0), Finished(2, 0, 0.5, 1.0), Finished(0, 2, 1.0, 0.2, failed=True)),
        cut=1,
        seconds=8.0,
        lost_nodes=("c",),
    )
    assert (report.bytes_moved, report.exchanges, report.failed) == (4_000_000, 2, 1)
    assert "4.0 MB in 8.0 s (4 Mbit/s), 2 exchanges between 3 nodes, 1 failed, 1 cut" in str(report)
    document = report.to_json()
    assert document["pairs"][1] == {"from": "c", "to": "a", "bytes": 1_000_000}
    assert document["finished"][2]["failed"] is True
    assert document["lost_nodes"] == ["c"]
