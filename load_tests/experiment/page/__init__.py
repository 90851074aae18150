"""The report of an experiment: one HTML file that needs nothing but a browser."""

from load_tests.experiment.page.document import render

__all__ = ["render"]
