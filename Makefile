# Everything there is to run. `make` alone prints the targets.
# Each needs only Python 3.11 or later with venv; what it needs besides, it installs into .venv, once.

PYTHON ?= python3
BIN := .venv/bin

.DEFAULT_GOAL := help
.PHONY: help demo test check format test-real bench clean

help: ## print this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-10s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

demo: .venv/.demo ## answer a question through all four stages, with no key and no network
	@$(BIN)/python examples/basic_usage.py --model offline:teacher

test: .venv/.test ## run the tests (no network, no key)
	@$(BIN)/python -m pytest -q

check: .venv/.dev ## format check, lint, types, tests: what must pass before a change is handed in
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/mypy --explicit-package-bases examples
	@$(MAKE) --no-print-directory test

format: .venv/.dev ## format the code
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

test-real: .venv/.test ## run the tests that need more than Python; each says why if it is skipped
	@$(BIN)/python -m pytest -q -m real -rs tests/real tests/stage1_context

bench: .venv/.bench ## measure, and print the figures
	@$(BIN)/python tests/benchmarks/import_time.py
	@$(BIN)/python tests/benchmarks/gateway_chat.py
	@$(BIN)/python tests/benchmarks/gateway_at_once.py
	@$(BIN)/python tests/benchmarks/gateway_stream.py
	@$(BIN)/python tests/benchmarks/gateway_memory.py
	@$(BIN)/python tests/benchmarks/context_growth.py
	@$(BIN)/python tests/benchmarks/context_trim.py
	@$(BIN)/python tests/benchmarks/context_memory.py
	@$(BIN)/python tests/benchmarks/output_repair.py
	@$(BIN)/python tests/benchmarks/output_linear.py
	@$(BIN)/python tests/benchmarks/schema_check.py
	@$(BIN)/python tests/benchmarks/tool_call.py
	@$(BIN)/python tests/benchmarks/tools_parallel.py
	@$(BIN)/python tests/benchmarks/loop_turn.py

clean: ## remove .venv and caches
	rm -rf .venv .mypy_cache .ruff_cache .pytest_cache .hypothesis

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

.venv/.bench: .venv/.python pyproject.toml
	@echo 'Installing what this needs into .venv, once; it may take a minute …'
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[test,bench]'
	@touch $@ .venv/.test .venv/.demo

.venv/.dev: .venv/.python pyproject.toml
	@echo 'Installing what this needs into .venv, once; it may take a minute …'
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[dev]'
	@touch $@ .venv/.test .venv/.demo
