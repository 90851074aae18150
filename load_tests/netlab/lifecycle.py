"""The beginning and the end of a lab, whatever the end is: done, an exception, a signal, or a dead owner."""

from __future__ import annotations

import os
import shutil
import signal
import tempfile
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from types import FrameType

from load_tests.netlab import kernel, layout, members, network, ray_nodes, state
from load_tests.netlab.kernel import NetlabError
from load_tests.netlab.lab import Lab
from load_tests.netlab.settings import LabSettings
from load_tests.netlab.state import LabState

# Unix sockets live under the temp dir and their paths are limited to 107 bytes; Ray uses up to 70.
LONGEST_TEMP_DIR = 30
# How long the lab's processes may take to end by themselves, in seconds.
GRACE_S = 3.0

_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


@contextmanager
def start(
    settings: LabSettings | None = None,
    *,
    cwd: Path | None = None,
    say: Callable[[str], None] = lambda words: None,
) -> Iterator[Lab]:
    """Start a lab, and remove it however the block is left: SIGTERM and SIGHUP raise SystemExit in it.

    cwd: where replicas run (default: where this process does). say: is told each step. Labs of dead
    owners are removed first. Raises NetlabUnavailable where there can be no lab, NetlabError if it did
    not start; a lab takes about 5 seconds a node.
    """
    kernel.require()
    try:
        clean()
    except NetlabError as error:
        # Somebody else's remains are in nobody's way: names are never used twice.
        say(f"not everything of dead owners could be removed: {error}")
    plan = LabSettings() if settings is None else settings
    name = layout.new_name()
    lab_state = LabState.of_this_process(name, temp_dir(name), plan)
    with _signals_as_exceptions():
        file = state.write(lab_state)
        try:
            lab_state.temp_dir.mkdir(mode=0o700)
            say(f"building the network of {name}")
            network.build(lab_state.layout, plan)
            env = ray_nodes.environment(lab_state.layout, plan, file, os.environ)
            where = (cwd or Path.cwd()).resolve()
            ray_nodes.RayNodes(lab_state.layout, plan, lab_state.temp_dir, where, env).start(say)
            yield Lab(lab_state)
        finally:
            with _signals_held_back():
                # Whoever listened may be gone (SIGHUP); the lab has to go all the same.
                with suppress(OSError):
                    say(f"removing {name}")
                remove(lab_state)


def remove(lab_state: LabState, *, grace_s: float = GRACE_S) -> None:
    """End a lab's processes and remove all there is of it. Repeatable.

    Raises NetlabError if something resists; then the state file stays, for `clean`.
    """
    members.end(lab_state.layout.namespaces, grace_s=grace_s)
    network.remove(lab_state.layout)
    # The name is part of the path: a damaged file does not make root delete something else.
    if lab_state.temp_dir.name == lab_state.name:
        shutil.rmtree(lab_state.temp_dir, ignore_errors=True)
    state.forget(lab_state)


def clean() -> list[str]:
    """Remove every lab whose owner is dead, never another; return their names."""
    removed = []
    for lab_state in list(state.all_labs()):
        if not lab_state.owner_lives:
            remove(lab_state, grace_s=0.0)
            removed.append(lab_state.name)
    return removed


def temp_dir(name: str) -> Path:
    """Where a lab of this name has its files: the usual place, unless that is too long for sockets."""
    usual = Path(tempfile.gettempdir()) / name
    return usual if len(str(usual)) <= LONGEST_TEMP_DIR else Path("/tmp") / name


@contextmanager
def _signals_as_exceptions() -> Iterator[None]:
    """Signals that would end this process without a word raise SystemExit instead, if nobody handles them.

    Only the main thread may ask for that; in another one its owner has to see to signals.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def leave(number: int, frame: FrameType | None) -> None:
        raise SystemExit(128 + number)

    taken = [number for number in _SIGNALS if signal.getsignal(number) is signal.SIG_DFL]
    for number in taken:
        signal.signal(number, leave)
    try:
        yield
    finally:
        for number in taken:
            signal.signal(number, signal.SIG_DFL)


@contextmanager
def _signals_held_back() -> Iterator[None]:
    """Signals wait until the block is done, then do what they would have done before.

    By handlers, not by a mask: the threads of numerical libraries have no mask, and would take them.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    waiting: list[int] = []
    before = {number: signal.getsignal(number) for number in _SIGNALS}
    for number in _SIGNALS:
        signal.signal(number, lambda received, frame: waiting.append(received))
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
        if waiting:
            signal.raise_signal(waiting[0])
