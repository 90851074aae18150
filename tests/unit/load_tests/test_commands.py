from __future__ import annotations

import asyncio
from pathlib import Path

import numpy as np
import pytest
from contract_server import MODEL, SHAPE, ContractServer

from load_tests import demo, load, report
from load_tests.records import read_csv


@pytest.fixture
def images(tmp_path: Path) -> str:
    path = tmp_path / "queries.npz"
    pixels = np.zeros((10, *SHAPE), np.uint8)
    pixels[:, 0, 0, 0] = np.arange(10)
    np.savez(path, images=pixels, labels=np.arange(10))
    return str(path)


async def run_load(server: ContractServer, images: str, out: Path, *more: str) -> int:
    # A rate beyond anything real: all planned times are now.
    words = ["--url", server.base_url, "--model", MODEL, "--images", images, "--rate", "1e6"]
    return await asyncio.to_thread(load.main, [*words, "--queries", "20", "--out", str(out), *more])


@pytest.mark.parametrize("arrivals", ["poisson", "constant", "bursts"])
async def test_run_writes_records_that_report_reads(
    server: ContractServer,
    images: str,
    tmp_path: Path,
    arrivals: str,
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert await run_load(server, images, tmp_path, "--arrivals", arrivals, "--name", arrivals) == 0
    path = tmp_path / f"records_{arrivals}.csv"
    assert len(read_csv(path)) == 20
    assert report.main([str(path)]) == 0
    printed = capsys.readouterr().out
    assert "100.0 %" in printed
    assert "25.0 %" in printed


async def test_run_says_why_it_could_not(
    server: ContractServer, images: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert await run_load(server, images, tmp_path, "--model", "other") == 2
    assert "404" in capsys.readouterr().err
    assert await run_load(server, images, tmp_path, "--rate", "-1") == 2
    assert "rate" in capsys.readouterr().err


def test_report_refuses_other_files(tmp_path: Path) -> None:
    (tmp_path / "x.csv").write_text("a,b\n1,2\n")
    assert report.main([str(tmp_path / "x.csv")]) == 2
    assert report.main([str(tmp_path / "missing.csv")]) == 2


def test_the_demo_says_what_to_train(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert demo.main(["--artifacts", str(tmp_path), "--out", str(tmp_path / "out")]) == 2
    assert "train.run --recipe demo" in capsys.readouterr().err
    assert not (tmp_path / "out").exists()


def test_the_demo_refuses_configs_that_are_not_there(tmp_path: Path) -> None:
    assert demo.main(["--configs", str(tmp_path), "--out", str(tmp_path / "out")]) == 2
