# Everything there is to run. `make` alone prints the targets.
# Each needs only Python 3.11 or later with venv; what it needs besides, it installs into .venv, once.

PYTHON ?= python3
BIN := .venv/bin
ROOMS := $(wildcard $(patsubst %,tests/benchmarks/%_*.py,context gateway output session tool tools turn))

.DEFAULT_GOAL := help
.PHONY: help demo test check format reference test-real bench bench-peers bench-rooms clean

help: ## print this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-12s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

demo: .venv/.demo ## answer a question through all four stages, with no key and no network
	@$(BIN)/python examples/basic_usage.py --model offline:teacher

test: .venv/.test ## run the tests (no network, no key)
	@$(BIN)/python -m pytest -q -n auto

check: .venv/.dev ## format check, lint, types, tests: what must pass before a change is handed in
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/mypy --explicit-package-bases examples
	@$(MAKE) --no-print-directory test

format: .venv/.dev ## format the code
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

reference: .venv/.test ## write the reference pages from the docstrings
	@$(BIN)/python docs/reference/generate.py

test-real: .venv/.test ## run the tests that need more than Python; each says why if it is skipped
	@$(BIN)/python -m pytest -q -m real -rs tests/real tests/stage1_context

bench: .bench/.ready ## measure the whole beside loops written by hand: two minutes
	@.bench/base/bin/python tests/benchmarks/side_by_side

bench-peers: .bench/.ready ## the same, beside other frameworks too: some GB the first time, and half an hour
	@.bench/base/bin/python tests/benchmarks/side_by_side --peers

bench-rooms: .bench/.ready ## measure one thing after the other, each beside what it is like
	@for each in $(ROOMS); do .bench/base/bin/python $$each || missed="$$missed $$each"; done; \
		test -z "$$missed" || { echo "Missed a bar:$$missed"; exit 1; }

clean: ## remove .venv, .bench and caches
	rm -rf .venv .bench .mypy_cache .ruff_cache .pytest_cache .hypothesis

.venv/.python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { echo "Python 3.11 or later is needed; $(PYTHON) is $$($(PYTHON) --version 2>&1). Say which one: make PYTHON=python3.12 …"; exit 1; }
	@$(PYTHON) -m venv .venv
	@touch $@

.venv/.demo: .venv/.python pyproject.toml
	@echo 'Installing what this needs into .venv, once; it may take a minute …'
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable .
	@touch $@

.venv/.test: .venv/.python pyproject.toml
	@echo 'Installing what this needs into .venv, once; it may take a minute …'
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[test]'
	@touch $@ .venv/.demo

.bench/.ready: .venv/.python pyproject.toml
	@echo 'Installing what the benchmarks need into .bench/base, once; it may take a minute …'
	@$(PYTHON) -m venv .bench/base
	@.bench/base/bin/python -m pip install --quiet --disable-pip-version-check --editable '.[bench]'
	@touch $@

.venv/.dev: .venv/.python pyproject.toml
	@echo 'Installing what this needs into .venv, once; it may take a minute …'
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[dev]'
	@touch $@ .venv/.test .venv/.demo
