# Everything runs in .venv, made on first use. `make` alone explains itself.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready

.DEFAULT_GOAL := help
.PHONY: help install lint test test-slow demo train small-tables kernels path-bench soak accuracy clean

help: ## show this list
	@echo "parm_ray: prediction serving on Ray Serve that keeps its tail latency with parity models"
	@echo
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | awk -F ':.*## ' '{printf "  make %-12s %s\n", $$1, $$2}'
	@echo
	@echo "First run of any of them creates $(VENV) and installs everything into it."

$(READY): pyproject.toml constraints.txt
	$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 10) and "Python 3.10 or newer is needed, this is " + sys.version)'
	$(PYTHON) -m venv $(VENV)
	$(BIN)/pip install --quiet --constraint constraints.txt --editable '.[dev]'
	@touch $@

install: $(READY) ## create .venv and install the package with all extras

lint: $(READY) ## format, lint, types, import arrows
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports

test: lint ## lint, then every test that runs anywhere (a real Serve application included)
	$(BIN)/python -m pytest

test-slow: $(READY) ## the tests that take minutes
	$(BIN)/python -m pytest -m slow

train: $(READY) ## train the demo's models (cached)
	$(BIN)/python -m train.run --recipe demo

small-tables: $(READY) ## MLP and LeNet-5, two data sets, three seeds, every code; a quarter of an hour
	$(BIN)/python -m train.several

demo: train ## train, serve, load, stall, kill; writes out/demo/index.html and results.json
	$(BIN)/python -m load_tests.demo --out out/demo

kernels: $(READY) ## time the codes' kernels
	$(BIN)/python -m load_tests.kernels

path-bench: train ## the coded path against a plain Serve ingress
	$(BIN)/python -m load_tests.path_bench

soak: train ## 100,000 queries with random stalls; memory and leftovers
	$(BIN)/python -m load_tests.soak

CONFIG ?= serve_configs/coded_k2.yaml
QUERIES ?= 1000
accuracy: train ## accuracy over HTTP under forced losses (CONFIG=, QUERIES=)
	$(BIN)/python -m load_tests.accuracy --config $(CONFIG) --queries $(QUERIES)

clean: ## remove what make made, artefacts included
	rm -rf $(VENV) artifacts out .pytest_cache .mypy_cache .ruff_cache .hypothesis
