"""Commands to the kernel: `ip`, `tc`, `nsenter`. And whether this machine can have a lab at all."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from load_tests.cluster import ClusterError
from load_tests.netlab import layout

NAMESPACES = Path("/run/netns")
# Program -> the package that usually has it.
PROGRAMS = {"ip": "iproute2", "tc": "iproute2", "nsenter": "util-linux"}

_PROBE = ("probe0", "type", "veth", "peer", "name", "probe1")


class NetlabError(ClusterError):
    """A lab could not be started, changed or removed; the message says which command failed and why."""


class NetlabUnavailable(NetlabError):
    """This machine, or this user, cannot have a lab. One sentence says what is missing."""


def call(*command: str) -> str:
    """Run a command of some milliseconds and return what it printed. Raises NetlabError if it fails."""
    # In a session of its own, so that a Ctrl-C on the terminal does not reach it halfway.
    done = subprocess.run(command, capture_output=True, text=True, start_new_session=True, check=False)
    if done.returncode:
        raise NetlabError(f"`{' '.join(command)}` ended with status {done.returncode}: {done.stderr.strip()}")
    return done.stdout


def ask(*command: str) -> Any:
    """The same for a command that prints JSON."""
    return json.loads(call(*command) or "[]")


def inside(namespace: str, command: Sequence[str]) -> list[str]:
    """The command, to be run inside a network namespace. The process keeps its pid.

    Not `ip netns exec`: that also mounts a /sys of its own, without the control groups from which Ray
    reads how much memory there is.
    """
    return ["nsenter", f"--net={NAMESPACES / namespace}", "--", *command]


def exists(namespace: str) -> bool:
    """Whether a network namespace of this name exists."""
    return (NAMESPACES / namespace).exists()


def unavailable() -> str | None:
    """One sentence that says why there can be no lab here; None if there can.

    Tries it: makes a namespace with a veth pair and a token bucket, and removes it.
    """
    if os.geteuid() != 0:
        return "A netlab needs root: only root may make network namespaces."
    for program, package in PROGRAMS.items():
        if shutil.which(program) is None:
            return f"A netlab needs the program `{program}`; install the package {package}."
    namespace = f"{layout.new_name()}-probe"
    steps = {
        "network namespaces": ("ip", "netns", "add", namespace),
        "veth pairs": ("ip", "-n", namespace, "link", "add", "name", *_PROBE),
        "bridges": ("ip", "-n", namespace, "link", "add", "name", "br0", "type", "bridge"),
        "the token bucket filter (tc tbf)": (
            *("tc", "-n", namespace, "qdisc", "add", "dev", "probe0"),
            *("root", "tbf", "rate", "1mbit", "burst", "32kb", "latency", "50ms"),
        ),
    }
    try:
        for what, command in steps.items():
            try:
                call(*command)
            except NetlabError as error:
                return f"A netlab needs {what}, which this kernel or container refuses: {error}."
    finally:
        if exists(namespace):
            call("ip", "netns", "delete", namespace)
    return None


def require() -> None:
    """Raises NetlabUnavailable where `unavailable` gives a reason."""
    if reason := unavailable():
        raise NetlabUnavailable(reason)
