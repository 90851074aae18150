"""Background traffic: random pairs of nodes exchange data through Ray's object stores; see README.md."""

from load_tests.shuffles.background import ShuffleError, Shuffles, start
from load_tests.shuffles.report import Finished, ShuffleReport
from load_tests.shuffles.settings import ShuffleSettings, load_settings

__all__ = [
    "Finished",
    "ShuffleError",
    "ShuffleReport",
    "ShuffleSettings",
    "Shuffles",
    "load_settings",
    "start",
]
