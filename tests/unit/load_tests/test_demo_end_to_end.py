from __future__ import annotations

import json
from pathlib import Path

import psutil
import pytest

from load_tests import demo
from load_tests.demo_plans import TITLES

ROOT = Path(__file__).parents[3]
DIGITS = ROOT / "artifacts" / "digits"


@pytest.mark.ray
@pytest.mark.slow
@pytest.mark.skipif(not (DIGITS / "queries.npz").is_file(), reason="python -m train.run --recipe tiny")
def test_the_demo_on_small_models(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    configs, out = tmp_path / "configs", tmp_path / "out"
    configs.mkdir()
    for path in (ROOT / "serve_configs").glob("demo_*.yaml"):
        (configs / path.name).write_text(path.read_text().replace("mnist5k", "digits"))
    words = ["--queries", "300", "--plans", "none", "concat_slot", "--configs", str(configs)]
    before = {process.pid for process in psutil.Process().children(recursive=True)}
    assert demo.main([*words, "--artifacts", str(DIGITS), "--out", str(out), "--json"]) == 0
    assert {process.pid for process in psutil.Process().children(recursive=True)} <= before
    document = json.loads(capsys.readouterr().out)
    assert document == json.loads((out / "results.json").read_text())
    assert [(row["plan"], row["queries"], row["errors"]) for row in document["rows"]] == [
        ("none", 300, 0),
        ("concat_slot", 300, 0),
    ]
    assert document["rows"][1]["reconstructed"] > 0
    assert [row["errors"] for row in document["faults"]] == [0, 0, 0]
    assert [event["kind"] for event in document["fault_events"]] == ["stall", "resume", "kill"]
    page = (out / "index.html").read_text()
    assert TITLES["concat_slot"] in page
    assert "Groups in which a reconstruction won" in page
