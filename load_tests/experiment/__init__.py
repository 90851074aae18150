"""Experiments: run directories, result rows, comparisons, the report."""
