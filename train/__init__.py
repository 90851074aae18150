"""Trains the artefacts that replicas serve: deployed models and the parity models that stand in for them."""
