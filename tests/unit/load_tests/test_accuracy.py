"""The accuracy run against a server in this process that loses one slot of every group, for real."""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
import yaml
from aiohttp import web
from contract_server import MODEL, SHAPE, ContractServer

from load_tests.accuracy import lines, lossy_config, report
from load_tests.lost_answers import Answer, Collected, NotLost, collect
from load_tests.phase import LabelledImages
from load_tests.server_stats import ServedModel
from parm_ray.core import ConfigError, Outcome
from parm_ray.models.manifest import Manifest

CONFIGS = Path(__file__).parents[3] / "serve_configs"


def labelled(n: int) -> LabelledImages:
    pixels = np.zeros((n, *SHAPE), np.uint8)
    pixels[:, 0, 0, 0] = np.arange(n)
    return LabelledImages(pixels, np.arange(n) % 10)


class LosingServer:
    """Groups queries by arrival; slot group mod k is 'reconstructed', wrong for pixels below `wrong`."""

    def __init__(self, k: int, wrong: int = 0, refuse_every: int = 0) -> None:
        self.k, self.wrong, self.refuse_every = k, wrong, refuse_every
        self.queries = self.requests = 0
        self.seen: Counter[tuple[int, bool]] = Counter()

    async def infer(self, request: web.Request) -> web.StreamResponse:
        self.requests += 1
        if self.refuse_every and self.requests % self.refuse_every == 0:
            return web.json_response({"error": "queue full"}, status=503)
        body = await request.read()
        end = int(request.headers["Inference-Header-Content-Length"])
        (tensor,) = json.loads(body[:end])["inputs"]
        rows = np.frombuffer(body[end:], np.uint8).reshape(tensor["shape"])
        outcomes, groups, slots, logits = [], [], [], []
        for row in rows:
            group, slot = divmod(self.queries, self.k)
            self.queries += 1
            lost, pixel = slot == group % self.k, int(row.flat[0])
            self.seen[pixel, lost] += 1
            outcomes.append("reconstructed" if lost else "original")
            groups.append(group)
            slots.append(slot)
            logits.append(np.eye(10)[(pixel + (lost and pixel < self.wrong)) % 10])
        # Others get their turn, so that requests overlap.
        await asyncio.sleep(0)
        return response(outcomes, groups, slots, np.array(logits))


def response(outcomes: list[str], groups: list[int], slots: list[int], logits: np.ndarray) -> web.Response:
    """As `parm_ray.serve.responses` writes it."""
    parameters: dict = {"outcome": outcomes[0], "group": groups[0], "slot": slots[0]}
    if len(outcomes) > 1:
        parameters = {
            "outcomes": ",".join(outcomes),
            "groups": ",".join(map(str, groups)),
            "slots": ",".join(map(str, slots)),
        }
    raw = logits.astype("<f4").tobytes()
    output = {"name": "logits", "shape": list(logits.shape), "datatype": "FP32"}
    text = json.dumps(
        {"parameters": parameters, "outputs": [{**output, "parameters": {"binary_data_size": len(raw)}}]}
    ).encode()
    return web.Response(body=text + raw, headers={"Inference-Header-Content-Length": str(len(text))})


async def collected(
    server: ContractServer, images: LabelledImages, queries: int, k: int, **options: int
) -> Collected:
    model = await asyncio.to_thread(ServedModel.find, server.base_url, MODEL)
    return await collect(model, images, queries, k, np.random.default_rng(3), **options)


def offline(k: int, a_d: float) -> Manifest:
    metrics = {"a_a": 1.0, "a_d": a_d, **{f"a_d_slot_{i}": a_d for i in range(k)}}
    tensor = {"name": "x", "shape": [1], "dtype": "float32"}
    return Manifest.model_validate(
        {"name": "p", "input": tensor, "output": tensor, "model": {"factory": "a:b"}, "metrics": metrics}
    )


@pytest.mark.parametrize(("k", "rows"), [(2, 1), (2, 6), (3, 1), (3, 4), (4, 1), (4, 16)])
async def test_every_query_is_lost_once_and_the_share_of_right_ones_is_exact(
    server: ContractServer, k: int, rows: int
) -> None:
    losing = LosingServer(k, wrong=24)
    server.override = losing.infer
    images = labelled(120)
    found = await collected(server, images, 120, k, rows_per_request=rows)
    lost = found.reconstructed()
    # Rounds are filled up to whole groups with queries that may be lost a second time.
    assert set(range(120)) == {a.image for a in lost}
    assert len(lost) == losing.queries // k
    assert len(found.answers) == losing.queries == losing.seen.total()
    once = {a.image: int(a.output.argmax()) == images.labels[a.image] for a in lost}
    assert sum(once.values()) == 96, "24 of 120 are reconstructed wrongly"
    result = report(found, images.labels, offline(k, 0.8), None, 2.0)
    assert result["a_d"] == pytest.approx(0.8, abs=0.08)
    assert result["difference_points"] == pytest.approx(100 * (result["a_d"] - 0.8))
    assert result["a_a"] == 1.0
    assert max(result["lost_by_slot"]) - min(result["lost_by_slot"]) <= 1
    assert result["lost_in_short_groups"] == 0
    assert any("A_d over HTTP" in line for line in lines(result))


async def test_more_queries_than_images_are_whole_passes(server: ContractServer) -> None:
    server.override = LosingServer(2).infer
    found = await collected(server, labelled(10), 25, 2)
    times = Counter(a.image for a in found.reconstructed())
    assert min(times.values()) >= 2
    assert sum(times.values()) >= 25


async def test_refused_requests_are_counted_and_sent_again(server: ContractServer) -> None:
    server.override = LosingServer(2, refuse_every=7).infer
    found = await collected(server, labelled(40), 40, 2)
    assert {a.image for a in found.answers if a.outcome is Outcome.RECONSTRUCTED} == set(range(40))
    assert found.failures["HTTP 503: queue full"] > 0


async def test_a_server_that_always_refuses_is_given_up(server: ContractServer) -> None:
    server.override = LosingServer(2, refuse_every=1).infer
    with pytest.raises(NotLost, match="queue full"):
        await collected(server, labelled(200), 200, 2)


async def test_a_server_that_loses_nothing_is_said_to(server: ContractServer) -> None:
    async def infer(request: web.Request) -> web.StreamResponse:
        return response(["original"], [0], [0], np.eye(10)[:1])

    server.override = infer
    with pytest.raises(NotLost, match=r"model\.emulate\.lose"):
        await collected(server, labelled(10), 10, 2)


async def test_an_answer_without_provenance_is_a_failure(server: ContractServer) -> None:
    # The contract server's own answers say it in headers alone.
    with pytest.raises(NotLost, match="outcome"):
        await collected(server, labelled(200), 200, 2)


def answer(group: int, slot: int, outcome: Outcome = Outcome.ORIGINAL, image: int = 0) -> Answer:
    return Answer(image, outcome, group, slot, np.eye(10)[0])


def test_groups_that_closed_early_do_not_count() -> None:
    lost = Outcome.RECONSTRUCTED
    found = Collected(
        2, [answer(1, 1, lost), answer(0, 0, lost), answer(1, 0), answer(2, 0), answer(2, 1, lost)]
    )
    assert [(a.group, a.slot) for a in found.reconstructed()] == [(1, 1), (2, 1)]
    with pytest.raises(NotLost, match="more queries"):
        report(found, np.zeros(1), offline(2, 1.0), None, 1.0)


def test_the_deployed_file_differs_in_what_the_run_says_and_nothing_else(tmp_path: Path) -> None:
    source = CONFIGS / "fashion_sum_subtract_k3.yaml"
    settings = lossy_config(source, tmp_path / "out.yaml", http_port=4711, root=Path("/models"))
    assert settings.model.emulate.lose == "one_per_group"
    assert (settings.plan.k, settings.plan.encoder, settings.plan.fill_timeout_ms) == (3, "sum", 2000)
    assert settings.batch.max_size == 1
    assert settings.model.artifact == "/models/artifacts/fashion_resnet18/deployed"
    written = yaml.safe_load((tmp_path / "out.yaml").read_text())
    original = yaml.safe_load(source.read_text())
    for args in (a["applications"][0]["args"] for a in (written, original)):
        del args["deadline_ms"], args["plan"]["fill_timeout_ms"], args["parity"][0]["artifact"]
        del args["model"]["artifact"]
        args["plan"].pop("hold_off_ms", None)
        args["ingress"].pop("replicas", None)
        args["model"].pop("emulate", None)
        args.pop("batch", None)
    assert written["applications"] == original["applications"]


@pytest.mark.parametrize(
    ("name", "words"),
    [("none.yaml", r"plan\.kind: expected coded"), ("coded_k2_r2.yaml", r"plan\.r: expected 1, got 2")],
)
def test_files_without_one_coded_row_are_refused(tmp_path: Path, name: str, words: str) -> None:
    with pytest.raises(ConfigError, match=words):
        lossy_config(CONFIGS / name, tmp_path / name, http_port=1, root=tmp_path)


def artifacts_of(path: Path) -> list[str]:
    args = yaml.safe_load(path.read_text())["applications"][0]["args"]
    return [pool["artifact"] for pool in (args["model"], *args.get("parity", []))]


@pytest.mark.parametrize("path", sorted(CONFIGS.glob("*.yaml")), ids=lambda p: p.stem)
def test_the_artefacts_of_every_configuration_fit_its_plan(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from parm_ray.config.loading import load_settings
    from parm_ray.serve.app import check_artifacts

    root = CONFIGS.parent
    missing = [a for a in artifacts_of(path) if not (root / a / "manifest.json").is_file()]
    if missing:
        pytest.skip(f"not trained here: {', '.join(missing)}")
    monkeypatch.chdir(root)
    for settings in load_settings(path).values():
        assert check_artifacts(settings).code is None


@pytest.mark.parametrize("code", ["concat_slot", "sum_subtract"])
@pytest.mark.parametrize("k", [2, 3, 4])
def test_the_headline_files_name_their_own_artefacts(code: str, k: int) -> None:
    path = CONFIGS / f"fashion_{code}_k{k}.yaml"
    folder = "artifacts/fashion_resnet18"
    assert artifacts_of(path) == [f"{folder}/deployed", f"{folder}/{code}_k{k}"]
    plan = yaml.safe_load(path.read_text())["applications"][0]["args"]["plan"]
    assert (f"{plan['encoder']}_{plan['decoder']}", plan["k"]) == (code, k)
