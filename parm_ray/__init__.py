"""Prediction serving on Ray Serve that keeps its tail latency with parity models."""

__version__ = "0.1.0"
