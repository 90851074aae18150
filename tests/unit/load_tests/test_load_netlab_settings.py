from __future__ import annotations

from pathlib import Path

import pytest
from pydantic import ValidationError

from load_tests.netlab.settings import LabSettings, LinkSettings, load_settings
from parm_ray.core import ConfigError


def from_yaml(tmp_path: Path, text: str) -> LabSettings:
    path = tmp_path / "lab.yaml"
    path.write_text(text)
    return load_settings(path)


def test_an_empty_file_means_the_defaults(tmp_path: Path) -> None:
    assert from_yaml(tmp_path, "") == LabSettings()


def test_the_frontend_and_the_model_nodes_carry_different_resources() -> None:
    settings = LabSettings(model_nodes=2)
    assert list(settings.numbers) == [0, 1, 2]
    assert [settings.ray_of(node).resources for node in settings.numbers] == [
        {"frontend": 1},
        {"model_node": 1},
        {"model_node": 1},
    ]


def test_overrides_change_one_node_and_only_what_they_name(tmp_path: Path) -> None:
    settings = from_yaml(
        tmp_path,
        """
        model_nodes: 3
        link: {rate_mbit: 100, burst_kb: 32, latency_ms: 50}
        nodes:
          0: {num_cpus: 4}
          2: {rate_mbit: 10, resources: {second_model: 0.5}}
        """,
    )
    usual = LinkSettings(rate_mbit=100, burst_kb=32, latency_ms=50)
    assert [settings.link_of(node) for node in (0, 1, 3)] == [usual] * 3
    assert settings.link_of(2) == LinkSettings(rate_mbit=10, burst_kb=32, latency_ms=50)
    assert settings.ray_of(2).resources == {"model_node": 1, "second_model": 0.5}
    assert settings.ray_of(3).resources == {"model_node": 1}
    assert [settings.ray_of(node).num_cpus for node in settings.numbers] == [4, 1, 1, 1]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("modelnodes: 3", "modelnodes"),
        ("model_nodes: 0", "model_nodes: Input should be greater than or equal to 1"),
        ("link: {rate_mbit: 0}", "link.rate_mbit: Input should be greater than or equal to 0.01"),
        ("link: {burst_kb: 1}", "link.burst_kb: Input should be greater than or equal to 2"),
        ("link: {delay_ms: 1}", "link.delay_ms"),
        ("nodes: {1: {rate: 1}}", "nodes.1.rate"),
        ("model: {resources: {model_node: 0}}", "model.resources.model_node"),
        ("{model_nodes: 2, nodes: {3: {rate_mbit: 1}}}", "expected node numbers 0 to 2, got [3]"),
        ("object_store_mb: 10", "object_store_mb: Input should be greater than or equal to 80"),
        ("[1, 2", "not YAML"),
        ("- 1", "valid dictionary"),
    ],
)
def test_what_is_wrong_is_named_with_file_and_key(tmp_path: Path, text: str, words: str) -> None:
    with pytest.raises(ConfigError) as refused:
        from_yaml(tmp_path, text)
    assert words in str(refused.value)
    assert str(refused.value).startswith(f"{tmp_path / 'lab.yaml'}: ")
    assert ": : " not in str(refused.value)


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="cannot be read"):
        load_settings(tmp_path / "none.yaml")


def test_settings_survive_json() -> None:
    settings = LabSettings(model_nodes=2, nodes={1: {"rate_mbit": 3}})  # type: ignore[dict-item]
    assert LabSettings.model_validate_json(settings.model_dump_json()) == settings


def test_settings_do_not_change() -> None:
    with pytest.raises(ValidationError):
        LabSettings().model_nodes = 3  # type: ignore[misc]
