"""The demo's report: one HTML file that needs nothing but a browser."""

from load_tests.page.document import Report, render

__all__ = ["Report", "render"]
