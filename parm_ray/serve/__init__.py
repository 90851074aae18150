"""Thin Ray shells: the application builder, the deployments, the protocol."""
