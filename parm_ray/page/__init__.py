"""Drawings for self-contained pages: no script, no network, readable light and dark."""
