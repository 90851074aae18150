"""Recording and emulated losses on a real Serve application of their own, over real HTTP.

One application for both: what is lost is reconstructed for the client, and recorded from the late original.
"""

from __future__ import annotations

import asyncio
import math
import time
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest
import yaml

from load_tests import serve_app
from load_tests.accuracy import lossy_config, report
from load_tests.cluster import Cluster
from load_tests.lost_answers import collect
from load_tests.phase import LabelledImages
from load_tests.replay import replay
from load_tests.server_stats import ServedModel
from parm_ray.models.loading import load_predictor
from parm_ray.models.manifest import load_manifest

ROOT = Path(__file__).parents[2]
QUERIES = 300


@dataclass(frozen=True)
class Lossy:
    model: ServedModel
    images: LabelledImages
    recorded: Path
    without: Path
    cluster: Cluster


@pytest.fixture(scope="module")
def lossy(server, tmp_path_factory: pytest.TempPathFactory) -> Lossy:
    """A second application beside the `server` fixture's: tiny's models, sum and subtraction, losses on."""
    folder = tmp_path_factory.mktemp("lossy")
    both = yaml.safe_load((folder.parent / next(folder.parent.glob("serve*/tiny.yaml"))).read_text())
    without = folder / "without.yaml"
    without.write_text(yaml.safe_dump(both))
    tiny = yaml.safe_load((ROOT / "serve_configs" / "tiny.yaml").read_text())
    args = tiny["applications"][0]["args"]
    args["plan"] |= {"encoder": "sum", "decoder": "subtract"}
    args["parity"][0]["artifact"] = "artifacts/digits/sum_subtract_k2"
    args["record"] = {"directory": str(folder / "queries"), "share": 1.0, "rotate_rows": 100}
    source = folder / "source.yaml"
    source.write_text(yaml.safe_dump(tiny))
    lossy_config(source, folder / "lossy.yaml", http_port=server.cluster.http_port, root=ROOT)
    document = yaml.safe_load((folder / "lossy.yaml").read_text())
    application = document["applications"][0]
    both["applications"].append({**application, "name": "lossy", "route_prefix": "/lossy"})
    (folder / "both.yaml").write_text(yaml.safe_dump(both))
    serve_app.deploy(server.cluster, folder / "both.yaml", ready_path="/lossy/v2/health/ready")
    model = ServedModel.find(f"{server.url}/lossy", "digits")
    images = LabelledImages(server.images, server.labels)
    return Lossy(model, images, folder / "queries", without, server.cluster)


def test_reconstructions_over_http_are_as_right_as_offline_and_every_query_is_recorded(lossy: Lossy) -> None:
    found = asyncio.run(
        collect(lossy.model, lossy.images, QUERIES, 2, np.random.default_rng(0), rows_per_request=10)
    )
    parity = ROOT / "artifacts" / "digits" / "sum_subtract_k2"
    offline = load_manifest(parity)
    again = replay(found.full_groups(), lossy.images, parity)
    result = report(found, lossy.images.labels, offline, again, 1.0)
    assert result["lost"] >= QUERIES
    assert result["failures"] == {}
    assert max(result["lost_by_slot"]) - min(result["lost_by_slot"]) <= 1
    a_d = offline.metrics["a_d"]
    chance = 100 * math.sqrt(a_d * (1 - a_d) / result["lost"])
    assert abs(result["difference_points"]) < 4 * chance
    # The same groups decoded offline: no chance is left.
    assert again.other_class == 0
    assert again.largest_difference < 1e-3

    stats = settled(lossy.model)
    # A lost answer arrived late, and was compared with what stood in for it; a few were overtaken while
    # their call was still queued, which was then withdrawn: there is nothing to compare or to record.
    late, reconstructed = stats["agreement"]["total"], stats["outcomes"]["reconstructed"]
    assert reconstructed >= result["lost"]
    assert 0.8 * reconstructed <= late <= reconstructed
    assert stats["pools"]["deployed"]["calls"] == stats["outcomes"]["original"] + late

    # Stopping the application writes the last rows, a file that was not full.
    serve_app.deploy(lossy.cluster, lossy.without)
    files = sorted(lossy.recorded.glob("queries-*.npz"))
    assert [p for p in lossy.recorded.iterdir() if p not in files] == []
    parts = [np.load(file) for file in files]
    inputs, outputs = (np.concatenate([part[name] for part in parts]) for name in ("inputs", "outputs"))
    assert (inputs.dtype, inputs.shape[1:]) == (np.dtype("uint8"), (8, 8, 1))
    assert (outputs.dtype, outputs.shape[1:]) == (np.dtype("float32"), (10,))
    # One row per query that the deployed model answered, raw, the reconstructed ones included...
    assert len(inputs) == len(outputs) == stats["outcomes"]["original"] + late
    sent = Counter(lossy.images.images[a.image].tobytes() for a in found.answers)
    assert Counter(x.tobytes() for x in inputs) <= sent
    # ... with the deployed model's own answers, and those alone.
    _, deployed = load_predictor(ROOT / "artifacts" / "digits" / "deployed", threads=1)
    np.testing.assert_allclose(outputs, deployed.predict(inputs), atol=1e-4)


def settled(model: ServedModel, tries: int = 100) -> dict:
    """The stats page once every call has ended and every late answer has been compared."""
    for _ in range(tries):
        stats = model.stats()
        if stats["groups_open"] == 0 and stats["calls_outstanding"] == 0:
            return stats
        time.sleep(0.1)
    raise AssertionError(f"never settled: {stats}")
