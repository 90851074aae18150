from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from load_tests import processes
from load_tests.netlab import lab, state
from load_tests.netlab.kernel import NetlabError
from load_tests.netlab.settings import LabSettings
from load_tests.netlab.state import LabState

NAME = "parmlab-0a1b2c"


def a_lab(name: str = NAME) -> LabState:
    return LabState.of_this_process(name, Path("/tmp") / name, LabSettings(model_nodes=2))


def test_a_lab_is_read_as_it_was_written(tmp_path: Path) -> None:
    written = a_lab()
    path = state.write(written, tmp_path)
    assert state.read(path) == written
    assert list(state.all_labs(tmp_path)) == [written]
    assert [file.name for file in tmp_path.iterdir()] == [f"{NAME}.json"]
    state.forget(written, tmp_path)
    state.forget(written, tmp_path)
    assert list(state.all_labs(tmp_path)) == []


def test_a_name_in_use_is_never_taken_over(tmp_path: Path) -> None:
    state.write(a_lab(), tmp_path)
    with pytest.raises(FileExistsError):
        state.write(a_lab().model_copy(update={"owner_pid": 1}), tmp_path)
    assert [of.owner_pid for of in state.all_labs(tmp_path)] == [os.getpid()]
    assert len(list(tmp_path.iterdir())) == 1


def test_no_labs_where_there_never_was_one(tmp_path: Path) -> None:
    assert list(state.all_labs(tmp_path / "nowhere")) == []


def test_labs_come_oldest_first(tmp_path: Path) -> None:
    for name, created in [("parmlab-aaaaaa", 3.0), ("parmlab-bbbbbb", 1.0), ("parmlab-cccccc", 2.0)]:
        state.write(a_lab(name).model_copy(update={"created": created}), tmp_path)
    assert [of.name[-1] for of in state.all_labs(tmp_path)] == ["b", "c", "a"]


def test_the_owner_lives_while_its_process_does() -> None:
    assert a_lab().owner_lives
    child = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    birth = state.process_birth(child.pid)
    assert birth is not None
    owned = a_lab().model_copy(update={"owner_pid": child.pid, "owner_birth": birth})
    assert owned.owner_lives
    child.kill()
    # Not reaped yet, but dead.
    os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)
    assert not owned.owner_lives
    child.wait()
    assert not owned.owner_lives


def test_a_pid_that_was_given_to_another_process_is_not_the_owner() -> None:
    ours = a_lab()
    assert not ours.model_copy(update={"owner_birth": ours.owner_birth - 1}).owner_lives


def test_a_process_name_with_brackets_does_not_confuse(tmp_path: Path) -> None:
    program = tmp_path / "a ) R (b"
    program.symlink_to("/bin/sleep")
    child = subprocess.Popen([str(program), "600"])
    try:
        mine, its = state.process_birth(os.getpid()), state.process_birth(child.pid)
        assert mine is not None
        assert its is not None
        assert its >= mine
    finally:
        processes.end(processes.tree(child.pid), grace_s=1)
        child.wait()


@pytest.mark.parametrize("text", ["{", "{}", '{"name": "x"}'])
def test_a_file_that_is_not_a_labs_is_refused_by_name(tmp_path: Path, text: str) -> None:
    path = tmp_path / f"{NAME}.json"
    path.write_text(text)
    with pytest.raises(NetlabError, match=f"{NAME}.json: not the state of a lab"):
        state.read(path)


def test_a_state_cannot_name_anything_but_a_lab(tmp_path: Path) -> None:
    path = state.write(a_lab(), tmp_path)
    changed = path.read_text().replace(f'"name": "{NAME}"', '"name": "../etc"')
    assert "../etc" in changed
    path.write_text(changed)
    with pytest.raises(NetlabError, match="expected a lab's name"):
        state.read(path)


def test_a_lab_that_has_ended(tmp_path: Path) -> None:
    with pytest.raises(NetlabError, match="no such lab"):
        state.read(tmp_path / f"{NAME}.json")


def test_the_current_lab_is_found_by_its_variable(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("PARM_NETLAB", raising=False)
    with pytest.raises(NetlabError, match="does not run in a lab"):
        lab.current()
    monkeypatch.setenv("PARM_NETLAB", str(state.write(a_lab(), tmp_path)))
    assert lab.current().name == NAME
    assert lab.current().settings.model_nodes == 2


def test_node_numbers_are_checked() -> None:
    here = lab.Lab(a_lab())
    for node in (-1, 3):
        with pytest.raises(NetlabError, match=f"expected 0 to 2, got {node}"):
            here.set_link(node, up=False)
    with pytest.raises(NetlabError, match="expected a model node, 1 to 2, got 0"):
        here.lose(0)
    with pytest.raises(ValueError, match="rate_mbit"):
        here.set_rate(1, 0)
