"""Artefacts and the predictors they become."""
