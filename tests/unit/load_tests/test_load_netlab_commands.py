from __future__ import annotations

import signal
from pathlib import Path

import pytest

from load_tests import netlab
from load_tests.netlab import ray_nodes, state
from load_tests.netlab.__main__ import main
from load_tests.shuffles.__main__ import main as shuffles_main

REASON = netlab.unavailable()
needs_root = pytest.mark.skipif(REASON is not None, reason=str(REASON))


def complaint(capsys: pytest.CaptureFixture[str], *words: str) -> str:
    """The one line that the command prints when it cannot."""
    assert main(words) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith("netlab: ")
    return line


def test_run_wants_a_command(capsys: pytest.CaptureFixture[str]) -> None:
    assert "expected a command after `--`" in complaint(capsys, "run")


def test_run_says_what_is_wrong_in_the_file(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    path = tmp_path / "lab.yaml"
    path.write_text("link: {rate: 1}")
    assert f"{path}: link.rate: " in complaint(capsys, "run", "--config", str(path), "--", "true")


def test_run_is_refused_in_one_sentence_without_root(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("os.geteuid", lambda: 1000)
    assert complaint(capsys, "run", "--", "true").endswith("only root may make network namespaces.")


def test_deploy_wants_to_be_in_a_lab(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("PARM_NETLAB", raising=False)
    assert "does not run in a lab" in complaint(capsys, "deploy", "serve.yaml")


@pytest.mark.root
@needs_root
@pytest.mark.parametrize(
    ("script", "status"), [("exit 0", 0), ("exit 7", 7), ("kill -9 $$", 128 + signal.SIGKILL)]
)
def test_the_exit_status_is_the_commands(script: str, status: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ray_nodes.RayNodes, "start", lambda self, say: None)
    before = {of.name for of in state.all_labs()}
    assert main(["run", "--", "sh", "-c", script]) == status
    assert {of.name for of in state.all_labs()} <= before


def test_shuffles_say_what_is_wrong_in_the_file(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    path = tmp_path / "shuffles.yaml"
    path.write_text("concurrency: 4")
    assert shuffles_main(["--config", str(path)]) == 2
    assert capsys.readouterr().err.startswith(f"shuffles: {path}: concurrency: ")
