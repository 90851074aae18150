"""Processes beside the load: real ones, of a few lines."""

from __future__ import annotations

import sys
import time
from pathlib import Path

import psutil
import pytest

from load_tests import background_process
from load_tests.background_process import running
from load_tests.cluster import ClusterError

WAITS = "import signal, sys, time\nsignal.signal(signal.SIGINT, lambda *_: sys.exit(STATUS))\n"
READY = "print('a warning', file=sys.stderr)\nprint('ready now', file=sys.stderr, flush=True)\n"


def wait_for_the_end_of(pid: int) -> None:
    while psutil.Process(pid).status() != psutil.STATUS_ZOMBIE:
        time.sleep(0.01)


def command(script: str, status: int = 0) -> list[str]:
    return [sys.executable, "-c", script.replace("STATUS", str(status))]


def test_it_runs_while_the_block_does_whatever_it_says_before_it_is_ready() -> None:
    with running("a job", command(WAITS + READY + "time.sleep(600)"), "ready"):
        pass


def test_what_it_says_meanwhile_does_not_stop_it() -> None:
    """A pipe holds 64 KiB."""
    talks = "for _ in range(3000): print('x' * 100, file=sys.stderr)\nprint('done', file=sys.stderr)\n"
    with running("a job", command(WAITS + talks + READY + "time.sleep(600)"), "ready"):
        pass


@pytest.mark.parametrize("script", ["import sys; print('no such file', file=sys.stderr)", "1 / 0"])
def test_one_that_does_not_start_is_named_with_what_it_said(script: str) -> None:
    words = "a job: did not start: .*(no such file|ZeroDivisionError)"
    with pytest.raises(ClusterError, match=f"(?s){words}"), running("a job", command(script), "ready"):
        pytest.fail("it is not there")


def test_one_that_is_never_ready_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(background_process, "START_S", 0.0)
    with (
        pytest.raises(ClusterError, match="did not start"),
        running("a job", command(WAITS + "time.sleep(600)"), "ready"),
    ):
        pytest.fail("it is not ready")


def test_one_that_ends_by_itself_or_with_a_failure_is_heard_of(tmp_path: Path) -> None:
    pid = tmp_path / "pid"
    tells = f"import os, pathlib\npathlib.Path({str(pid)!r}).write_text(str(os.getpid()))\n"
    with (
        pytest.raises(ClusterError, match="ended early, with status 3"),
        running("a job", command(f"import sys\n{tells}" + READY + "sys.exit(3)"), "ready"),
    ):
        wait_for_the_end_of(int(pid.read_text()))
    with (
        pytest.raises(ClusterError, match="ended with status 4"),
        running("a job", command(WAITS + READY + "time.sleep(600)", status=4), "ready"),
    ):
        pass


def test_the_blocks_own_error_goes_first() -> None:
    with (
        pytest.raises(ZeroDivisionError),
        running("a job", command(WAITS + READY + "time.sleep(600)", status=4), "ready"),
    ):
        raise ZeroDivisionError
