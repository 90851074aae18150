"""Netlab: a Ray cluster of several nodes on one machine, each behind a link of its own whose rate is limited.

`with netlab.start(settings) as lab:` is the whole of it; see README.md in this folder.
"""

from load_tests.netlab.kernel import NetlabError, NetlabUnavailable, unavailable
from load_tests.netlab.lab import Lab, LabCluster, current
from load_tests.netlab.lifecycle import clean, start
from load_tests.netlab.network import Traffic
from load_tests.netlab.settings import LabSettings, LinkSettings, NodeOverride, RayNodeSettings, load_settings

__all__ = [
    "Lab",
    "LabCluster",
    "LabSettings",
    "LinkSettings",
    "NetlabError",
    "NetlabUnavailable",
    "NodeOverride",
    "RayNodeSettings",
    "Traffic",
    "clean",
    "current",
    "load_settings",
    "start",
    "unavailable",
]
