"""One real Ray cluster with real Serve applications for every test of this folder."""

from __future__ import annotations

import json
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml

from load_tests.cluster import Cluster, cluster
from load_tests.serve_app import applications, deploy, render_config, replica_pids

ROOT = Path(__file__).parents[2]


def pytest_collection_modifyitems(items):
    for item in items:
        if Path(item.fspath).parent == Path(__file__).parent:
            item.add_marker(pytest.mark.ray)


@pytest.fixture(scope="session")
def artifacts() -> Path:
    """The tiny recipe's models, trained here if they are not there yet."""
    done = subprocess.run(
        [sys.executable, "-m", "train.run", "--recipe", "tiny", "--out", "artifacts"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    return ROOT / "artifacts"


@dataclass(frozen=True)
class Server:
    """The tiny coded application (`/`), and an application that calls it by handle (`/caller`)."""

    cluster: Cluster
    images: np.ndarray
    labels: np.ndarray
    model: str = "digits"

    @property
    def url(self) -> str:
        return self.cluster.base_url

    def request(
        self, path: str, body: Any = None, headers: dict[str, str] | None = None, timeout: float = 30
    ):
        """(status, headers, body); a dict body is sent as JSON, None is a GET."""
        data = json.dumps(body).encode() if isinstance(body, dict) else body
        request = urllib.request.Request(self.url + path, data=data, headers=headers or {})
        try:
            with urllib.request.urlopen(request, timeout=timeout) as response:
                return response.status, response.headers, response.read()
        except urllib.error.HTTPError as error:
            return error.code, error.headers, error.read()

    def document(self, images: np.ndarray, **parameters: Any) -> dict[str, Any]:
        return {
            "inputs": [
                {
                    "name": "image",
                    "datatype": "UINT8",
                    "shape": list(images.shape),
                    "data": images.reshape(-1).tolist(),
                }
            ],
            "parameters": parameters,
        }

    def infer(self, images: np.ndarray, headers: dict[str, str] | None = None, **parameters: Any):
        path = f"/v2/models/{self.model}/infer"
        status, got, body = self.request(path, self.document(images, **parameters), headers)
        return status, got, json.loads(body)

    def stats(self) -> dict[str, Any]:
        return json.loads(self.request(f"/v2/models/{self.model}/stats")[2])

    def pids(self, deployment: str) -> list[int]:
        return replica_pids(applications(self.cluster), deployment)


@pytest.fixture(scope="session")
def ray_cluster() -> Iterator[Cluster]:
    with cluster(num_cpus=4, cwd=ROOT) as running:
        yield running


@pytest.fixture(scope="session")
def server(ray_cluster: Cluster, artifacts: Path, tmp_path_factory: pytest.TempPathFactory) -> Server:
    path = tmp_path_factory.mktemp("serve") / "tiny.yaml"
    document = render_config(
        ROOT / "serve_configs" / "tiny.yaml", path, http_port=ray_cluster.http_port, root=ROOT
    )
    document["applications"].append(
        {
            "name": "caller",
            "route_prefix": "/caller",
            "import_path": "tests.support.second_app:build",
            "args": {"app": "parm"},
        }
    )
    path.write_text(yaml.safe_dump(document))
    deploy(ray_cluster, path)
    queries = np.load(artifacts / "digits" / "queries.npz")
    return Server(ray_cluster, queries["images"], queries["labels"])
