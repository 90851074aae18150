"""Weighted request routers in Serve files: what `parm-ray check` says of them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from parm_ray.config.loading import WEIGHTED, load_applications
from parm_ray.core import ConfigError
from parm_ray.serve.weighted_router import WeightedRouter

FILE = Path(__file__).parents[3] / "serve_configs" / "routing" / "weighted_replicas.yaml"


def checked(tmp_path: Path, kwargs: dict[str, Any], apps: slice = slice(None)) -> dict[str, Any]:
    document = yaml.safe_load(FILE.read_text())
    config = document["applications"][1]["deployments"][0]["request_router_config"]
    config["request_router_kwargs"] |= kwargs
    document["applications"] = document["applications"][apps]
    file = tmp_path / "serve.yaml"
    file.write_text(yaml.safe_dump(document))
    return load_applications(file)


def test_the_name_in_files_is_the_routers() -> None:
    assert f"{WeightedRouter.__module__}:{WeightedRouter.__name__}" == WEIGHTED


def test_the_example_is_well_and_so_is_a_file_with_a_router_alone(tmp_path: Path) -> None:
    assert set(load_applications(FILE)) == {"control"}
    assert checked(tmp_path, {}, slice(1, None)) == {}


@pytest.mark.parametrize(
    ("kwargs", "why"),
    [
        ({"by": "rack"}, "by: expected one of replica"),
        ({"weight": {}}, r"request_router_kwargs.weight: Extra inputs"),
        ({"weights": {"fast": -1}}, r"request_router_kwargs.weights.fast: Input should be greater"),
        ({"demand": "callers/odd"}, r"demand: expected one of callers/default, got callers/odd"),
    ],
)
def test_what_is_wrong_is_named_with_its_place(tmp_path: Path, kwargs: dict[str, Any], why: str) -> None:
    with pytest.raises(
        ConfigError, match=r"applications\[1\].deployments\[0\].request_router_config.*" + why
    ):
        checked(tmp_path, kwargs)
