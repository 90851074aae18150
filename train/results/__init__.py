"""Results of training: what the command prints, and the committed files the tables are made of."""

from train.results.artefacts import Artefact, artefact_of, table_of
from train.results.rows import Row, over_seeds
from train.results.store import COMMITTED, Hardware, Results, commit, load, load_all, update

__all__ = [
    "COMMITTED",
    "Artefact",
    "Hardware",
    "Results",
    "Row",
    "artefact_of",
    "commit",
    "load",
    "load_all",
    "over_seeds",
    "table_of",
    "update",
]
