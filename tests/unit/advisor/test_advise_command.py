"""`parm-ray advise`: sources of service times, what it prints and writes, what it refuses."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner, Result

from parm_ray.cli.commands import app
from parm_ray.cli.service_times import read_pairs, read_times
from parm_ray.config.loading import load_settings
from parm_ray.core import ConfigError
from parm_ray.stats.families import Empirical

CONFIGS = Path(__file__).parents[3] / "serve_configs"
SMALL = ["--replicas", "4", "--processes", "1", "--objective", "mean", "--no-parity", "--max-copies", "2"]


def advise(*arguments: str) -> Result:
    return CliRunner().invoke(app, ["advise", *arguments])


@pytest.fixture(scope="module")
def times(tmp_path_factory: pytest.TempPathFactory) -> Path:
    rng = np.random.default_rng(0)
    path = tmp_path_factory.mktemp("times") / "times.csv"
    slow = np.where(rng.random(2000) < 0.03, 500.0, 50.0)
    path.write_text("query,latency_ms\n" + "".join(f"{i},{t}\n" for i, t in enumerate(slow)))
    return path


def test_a_file_in_a_plan_out(times: Path, tmp_path: Path) -> None:
    out, page = tmp_path / "advised" / "plan.yaml", tmp_path / "advice.html"
    found = advise(
        str(times),
        *SMALL,
        "--rate",
        "30",
        "--config",
        str(CONFIGS / "hedged.yaml"),
        "--out",
        str(out),
        "--page",
        str(page),
        "--json",
    )
    assert found.exit_code == 0, found.output
    advice = json.loads(found.stdout)
    assert advice["plans"][0]["plan"] == advice["advised"]
    for name in (
        "mean_ms",
        "p99_ms",
        "p999_ms",
        "cost_ms",
        "objective_low_ms",
        "objective_high_ms",
        "reason",
    ):
        assert name in advice["plans"][0]
    assert advice["plans"][0]["p999_ms"] is None, "2000 times do not say what one query in a thousand waits"
    assert advice["evidence"]["n"] == 2000
    assert advice["plans"][0]["kind"] == "hedged"
    (settings,) = load_settings(out).values()
    assert settings.plan.kind == "hedged"
    assert settings.plan.hedge is not None
    assert settings.model.replicas == 4
    assert page.read_text().startswith("<!doctype html>")
    assert out.read_text().startswith(f"# {advice['advised']}: ")


def test_a_law_and_a_table() -> None:
    found = advise(
        "--law", "hyperexponential(share=0.9, rates=1/0.1)", *SMALL, "--rate", "1", "--cancel-ms", "0"
    )
    assert found.exit_code == 0, found.output
    assert "Advice: 2 copies: mean" in found.output
    assert "Runner-up: " in found.output


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ([], "expected one of a file of service times, --law and --url"),
        (["--law", "gauss(mu=1)"], "law: expected one of bimodal(fast, slow, slow_share)"),
        (["--law", "weibull(shape=0.7)"], "law: weibull: scale: expected a number, got none"),
        (["--law", "exponential(rate=-1)"], "law: exponential: rate: expected a finite number > 0"),
        (["--law", "exponential(rate=1)", "--objective", "p100"], "objective: expected"),
        (["--law", "exponential(rate=1)", "--rate", "0"], "expected queries per second"),
        (
            ["--law", "exponential(rate=1)", "--parity", "two"],
            "--parity: expected K[:SLOWDOWN[:ACCURACY_LOSS]]",
        ),
        (["--law", "exponential(rate=1)", "--config", "x.yaml"], "--out: expected"),
        (["nowhere.csv"], "nowhere.csv: cannot be read"),
        (["--url", "ftp://x"], "--url: expected http://"),
        (["--url", "http://127.0.0.1:9/x"], "no observations there"),
    ],
)
def test_what_it_refuses(arguments: list[str], words: str) -> None:
    rate = [] if "--rate" in arguments else ["--rate", "1"]
    found = advise(*arguments, *rate, "--replicas", "2", "--processes", "1")
    assert found.exit_code == 2
    assert words in found.output


class TestFiles:
    def write(self, tmp_path: Path, text: str) -> Path:
        path = tmp_path / "x.csv"
        path.write_text(text)
        return path

    def test_a_bare_column_is_in_seconds(self, tmp_path: Path) -> None:
        found = read_times(self.write(tmp_path, "0.5\n1.5\n"))
        assert found.service.mean == 1.0

    def test_units(self, tmp_path: Path) -> None:
        path = self.write(tmp_path, "a,b\n1,2000\n3,4000\n")
        assert read_times(path, "b", "us").service.mean == pytest.approx(0.003)
        with pytest.raises(ConfigError, match="--column: expected which of a, b has the times"):
            read_times(path)
        with pytest.raises(ConfigError, match="--column: expected one of a, b, got c"):
            read_times(path, "c")

    def test_calls_that_were_cut_off(self, tmp_path: Path) -> None:
        """1, 2+, 3: P(X > 1) = 2/3, and then all at 3: mean 1/3 + 3 x 2/3."""
        found = read_times(self.write(tmp_path, "service_s,observed\n1,1\n2,0\n3,true\n"))
        assert found.service.mean == pytest.approx(7 / 3)
        assert "1 calls were cut off" in found.notes[0]
        open_end = read_times(self.write(tmp_path, "service_s,observed\n1,1\n2,1\n3,0\n"))
        assert "the tail is longer than it looks" in open_end.notes[0]

    def test_load_test_records(self, tmp_path: Path) -> None:
        rows = [f"{i},{i / 10},{i / 10},{i / 10 + 0.05},200,original" for i in range(11)]
        rows[3] = "3,0.3,0.3,0.5,200,reconstructed"
        path = self.write(tmp_path, "query,planned,sent,done,status,outcome\n" + "\n".join(rows))
        found = read_times(path)
        assert found.service.mean == pytest.approx(0.05)
        assert found.rate == pytest.approx(11.0)
        assert any("1 queries had no answer" in note for note in found.notes)

    def test_parquet(self, tmp_path: Path) -> None:
        pa = pytest.importorskip("pyarrow")
        parquet = pytest.importorskip("pyarrow.parquet")
        path = tmp_path / "x.parquet"
        parquet.write_table(pa.table({"latency_ms": [10.0, 30.0]}), path)
        assert read_times(path).service.mean == pytest.approx(0.02)
        (tmp_path / "y.parquet").write_text("no")
        with pytest.raises(ConfigError, match="not a Parquet file"):
            read_times(tmp_path / "y.parquet")

    def test_pairs(self, tmp_path: Path) -> None:
        rows = "".join("1,2\n3,4\n" for _ in range(100))
        found = read_pairs(self.write(tmp_path, "a,b\n" + rows), "ms")
        assert found[:2].tolist() == [[0.001, 0.002], [0.003, 0.004]]
        assert read_pairs(self.write(tmp_path, "a_ms,b_s\n" + rows))[0].tolist() == [0.001, 2.0]
        assert read_pairs(self.write(tmp_path, rows))[0].tolist() == [1.0, 2.0]
        with pytest.raises(ConfigError, match="expected two columns"):
            read_pairs(self.write(tmp_path, "a\n1\n"))
        with pytest.raises(ConfigError, match="--unit: expected one of s, ms, us for column a"):
            read_pairs(self.write(tmp_path, "a,b\n" + rows))
        with pytest.raises(ConfigError, match="expected at least 200 pairs, got 1"):
            read_pairs(self.write(tmp_path, "1,2\n"))

    def test_units_are_not_guessed(self, tmp_path: Path) -> None:
        assert read_times(self.write(tmp_path, "duration_ms\n5\n")).service.mean == pytest.approx(0.005)
        # What spreadsheets write in front of a file.
        assert read_times(self.write(tmp_path, "\ufefflatency_ms\n5\n")).service.mean == pytest.approx(0.005)
        with pytest.raises(ConfigError, match="--unit: expected one of s, ms, us for column duration"):
            read_times(self.write(tmp_path, "duration\n5\n"))

    def test_a_huge_file_is_thinned(self, tmp_path: Path) -> None:
        found = read_times(self.write(tmp_path, "1\n3\n" * 60_000))
        assert isinstance(found.service, Empirical)
        assert found.service.size == 100_000
        assert found.service.mean == pytest.approx(2.0, abs=0.02)
        assert "of 120000 times a random 100000 are used" in found.notes

    @pytest.mark.parametrize(
        ("text", "words"),
        [
            ("", "the file is empty"),
            ("latency_s\n", "latency_s: expected numbers, got none"),
            ("latency_s\n1\nx\n", "latency_s: row 2: expected a number, got 'x'"),
            ("latency_s\n1\n-1\n", "latency_s: row 2: expected a finite number >= 0"),
            ("latency_s\n1\nnan\n", "row 2: expected a finite number"),
            ("latency_s,b\n1,2\n3\n", "row 2: expected 2 cells, got 1"),
            (
                "planned,sent,done,outcome\n0,0,1,failed\n",
                "expected queries that the deployed model answered",
            ),
        ],
    )
    def test_what_is_wrong_is_named(self, tmp_path: Path, text: str, words: str) -> None:
        with pytest.raises(ConfigError, match=words):
            read_times(self.write(tmp_path, text))


def test_a_file_says_what_is_simulated(tmp_path: Path, times: Path) -> None:
    """Its code and its queue are taken from it, and what is not known of it is said."""
    base = tmp_path / "base.yaml"
    text = (CONFIGS / "coded_k2_sum.yaml").read_text()
    base.write_text(
        text.replace(
            "    deadline_ms:", "    queue: {discipline: random}\n    batch: {max_size: 4}\n    deadline_ms:"
        )
    )
    out = tmp_path / "out.yaml"
    options = ["--rate", "30", "--replicas", "6", "--processes", "1", "--objective", "mean", "--parity", "2"]
    limits = ["--max-extra-work", "0.9"]
    found = advise(str(times), *options, *limits, "--config", str(base), "--out", str(out), "--json")
    assert found.exit_code == 0, found.output
    assert any("batch.max_size is 4" in words for words in json.loads(found.stdout)["warnings"])
    (settings,) = load_settings(out).values()
    assert settings.queue.discipline == "random"
