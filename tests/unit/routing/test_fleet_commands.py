"""`parm-ray routing`: what it prints, and how it refuses."""

from __future__ import annotations

import json
import socket
import threading
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from parm_ray.cli import app
from tests.support.fleets import published, three_regions

FILES = Path(__file__).parents[3] / "serve_configs" / "routing"


def run(*words: str) -> Result:
    return CliRunner().invoke(app, ["routing", *words])


@pytest.fixture
def snapshots(tmp_path: Path) -> tuple[str, str]:
    paths = []
    for version, load in ((1, 1.0), (2, 0.4)):
        path = tmp_path / f"{version}.json"
        path.write_text(published(three_regions(load), version).to_json())
        paths.append(str(path))
    return paths[0], paths[1]


def test_simulated_means_stand_beside_the_plans() -> None:
    done = run("solve", str(FILES / "three_regions.yaml"), "--simulate", "1000000", "--json")
    found = json.loads(done.stdout)
    assert found["optimal"] is True
    assert found["simulated_ms"] == pytest.approx(found["mean_ms"], rel=0.02)
    assert found["others"]["nearest"]["simulated_ms"] is None
    proportional = found["others"]["capacity_proportional"]
    assert proportional["simulated_ms"] == pytest.approx(proportional["mean_ms"], rel=0.02)
    table = run("solve", str(FILES / "three_regions.yaml"), "--simulate", "1000").stdout
    assert "simulated ms" in table
    assert "(holds)" in table


def test_a_simulation_prints_its_phases(tmp_path: Path) -> None:
    file = tmp_path / "fleet.yaml"
    text = (FILES / "storm_and_overload.yaml").read_text()
    file.write_text(text.replace("duration_s: 400", "duration_s: 80").split("  - {at_s: 120")[0])
    found = json.loads(run("simulate", str(file), "--seed", "3", "--json").stdout)
    assert [phase["changes"] for phase in found["phases"]] == [[], ["slow b 10"]]
    assert found["phases"][1]["shares"]["b"] < found["phases"][0]["shares"]["b"]
    assert len(found["intervals"]) == 80
    page = tmp_path / "run.html"
    table = run("simulate", str(file), "--policy", "feedback", "--page", str(page))
    assert page.read_text().count("<svg") == 4
    assert table.exit_code == 0, table.output
    assert "slow b 10" in table.stdout


def test_plans_are_shown_explained_and_compared(snapshots: tuple[str, str], tmp_path: Path) -> None:
    first, second = snapshots
    shown = run("show", first).stdout
    assert "74.65 %" in shown
    assert "expected latency 110.06 ms" in shown
    assert json.loads(run("show", first, "--json").stdout)["version"] == 1
    assert "one more request" in run("explain", first, "B/default").stdout
    assert "B/default to C: 25.35 % -> 0.00 %" in run("diff", first, second).stdout
    page = tmp_path / "plan.html"
    assert run("page", first, second, "--out", str(page)).exit_code == 0
    assert "version 2" in page.read_text()


def _answers(server: socket.socket, with_what: bytes) -> None:
    connection, _ = server.accept()
    with connection:
        connection.recv(65536)
        connection.sendall(with_what)


def test_what_is_no_plan_is_refused(snapshots: tuple[str, str], tmp_path: Path) -> None:
    bad = tmp_path / "bad.json"
    bad.write_text(Path(snapshots[0]).read_text().replace("110", "111", 1).replace("0.7465", "0.8", 1))
    binary = tmp_path / "binary.json"
    binary.write_bytes(b"\xff\xfe")
    with socket.create_server(("127.0.0.1", 0)) as odd:
        # Not HTTP at all.
        threading.Thread(target=_answers, args=(odd, b"220 mail.example.org\r\n"), daemon=True).start()
        for source in (
            str(bad), str(binary), str(tmp_path / "none.json"), "http://127.0.0.1:9",
            f"http://127.0.0.1:{odd.getsockname()[1]}",
        ):  # fmt: skip
            done = run("show", source)
            assert done.exit_code == 2, source
            assert source in done.stderr
    assert "demand" in run("explain", snapshots[0], "Z").stderr


def test_a_profile_is_fitted_to_points(tmp_path: Path) -> None:
    file = tmp_path / "points.csv"
    file.write_text("load,seconds\n10,0.1\n20,0.12\n30,0.2\n")
    assert run("fit", str(file)).stdout.startswith("latency: {kind: profile, loads: [0, 10, 20, 30]")
    file.write_text("load,time\n10,0.1\n")
    assert "seconds" in run("fit", str(file)).stderr
    file.write_text("load,seconds\n10,0.1\n")
    assert "loads" in run("fit", str(file)).stderr
