# The commands of the project. `make` without a target prints them.
# They need Python 3.11 or later with venv. Other requirements are installed into .venv, once.
# Another Python needs a folder of its own: make test PYTHON=python3.12 VENV=.venv-3.12

PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
ROOMS := $(wildcard $(patsubst %,tests/benchmarks/%_*.py,context gateway output session tool tools turn))

# The tests start many programs. They begin faster with compiled modules, and buffer their output.
unexport PYTHONDONTWRITEBYTECODE PYTHONUNBUFFERED

.DEFAULT_GOAL := help
.PHONY: help demo test test-long check format reference grade course grade-peers mutants try-model test-real bench bench-readme bench-peers bench-rooms clean

help: ## print this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-12s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

demo: $(VENV)/.demo ## answer a question through all four stages, without a key and a network; write run.html
	@rm -f run.jsonl
	@$(BIN)/python examples/basic_usage.py --model offline:teacher --trace run.jsonl
	@$(BIN)/python -m llm_stages inspect run.jsonl --output '$(CURDIR)/run.html'

test: $(VENV)/.test ## run the tests, without a key and a network: about a minute
	@$(BIN)/python -m pytest -q -n auto

test-long: $(VENV)/.test ## run the long forms of random tests, and check generated files: two minutes
	@$(BIN)/python -m pytest -q -n auto -m long -o faulthandler_timeout=300

check: $(VENV)/.dev ## check format, lint and types, and run the tests: required for every change
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/mypy --explicit-package-bases examples
	$(BIN)/mypy --explicit-package-bases tests/conformance --exclude 'conformance/(test_|subjects/|peers/)'
	@$(MAKE) --no-print-directory test

grade: $(VENV)/.demo ## grade files of the course: make grade FILE=my_output.py [STEP=2] [HINT=1] [WATCH=1]
	@test -n "$(FILE)" || { echo "Name a file, such as: make grade FILE=my_output.py"; exit 2; }
	@$(BIN)/python tests/conformance $(STAGE) "$(FILE)" $(if $(STEP),--step $(STEP)) $(if $(HINT),--hint) $(if $(WATCH),--watch) $(if $(ALL),--all)

course: $(VENV)/.test ## write the generated files of the course: starters, known failures and differences
	@$(BIN)/python tests/conformance/generate.py

mutants: $(VENV)/.dev ## change the course and the packages in small ways, and check that a test notices: make mutants [ROOM=stage3_tools/run]
	@test -n "$(ROOM)" || $(BIN)/python tests/conformance/mutants.py
	@$(BIN)/python -m tests.mutants $(ROOM)

format: $(VENV)/.dev ## format the code
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

reference: $(VENV)/.test ## write the reference pages from the docstrings
	@$(BIN)/python docs/reference/generate.py

test-real: $(VENV)/.test ## run the tests that need more than Python; a skipped test states its reason
	@$(BIN)/python -m pytest -q -m real -rs -o faulthandler_timeout=600 tests/real tests/stage1_context

grade-peers: .bench/.graded ## grade other libraries with the conformance suite: downloads some 100 MB
	@.bench/graded/bin/python -m tests.conformance.peers

try-model: $(VENV)/.demo ## try a model with 30 tasks, and write a report: make try-model MODEL=provider:name [SERVER="its version"]
	@$(BIN)/python tests/try_model $(if $(MODEL),--model $(MODEL)) $(if $(REASONING),--reasoning $(REASONING)) $(if $(SERVER),--server "$(SERVER)")

bench: .bench/.ready ## compare the packages with loops written by hand: two minutes
	@.bench/base/bin/python tests/benchmarks/side_by_side

bench-readme: .bench/.ready ## repeat the comparison of the README: downloads some GB, takes ten minutes
	@.bench/base/bin/python tests/benchmarks/side_by_side --readme $(if $(STORE),--store)

bench-peers: .bench/.ready ## also compare them with other frameworks: downloads some GB, takes half an hour
	@.bench/base/bin/python tests/benchmarks/side_by_side --peers

bench-rooms: .bench/.ready ## measure single parts, each next to a comparable one
	@for each in $(ROOMS); do .bench/base/bin/python $$each || missed="$$missed $$each"; done; \
		test -z "$$missed" || { echo "Missed a bar:$$missed"; exit 1; }

clean: ## remove .venv, .bench and caches
	rm -rf .venv .venv-* .bench .mypy_cache .ruff_cache .pytest_cache .hypothesis

$(VENV)/.python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { echo "Python 3.11 or later is needed; $(PYTHON) is $$($(PYTHON) --version 2>&1). Select another one: make PYTHON=python3.12 …"; exit 1; }
	@$(PYTHON) -m venv $(VENV)
	@touch $@

$(VENV)/.demo: $(VENV)/.python pyproject.toml
	@echo 'Installing the requirements into $(VENV), once. This may take a minute …'
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable .
	@touch $@

$(VENV)/.test: $(VENV)/.python pyproject.toml
	@echo 'Installing the requirements into $(VENV), once. This may take a minute …'
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[test]'
	@touch $@ $(VENV)/.demo

.bench/.ready: $(VENV)/.python pyproject.toml
	@echo 'Installing the requirements of the benchmarks into .bench/base, once. This may take a minute …'
	@$(PYTHON) -m venv .bench/base
	@.bench/base/bin/python -m pip install --quiet --disable-pip-version-check --editable '.[bench]'
	@touch $@

.bench/.graded: $(VENV)/.python pyproject.toml
	@echo 'Installing other libraries into .bench/graded, once. This may take some minutes …'
	@$(PYTHON) -m venv .bench/graded
	@.bench/graded/bin/python -m pip install --quiet --disable-pip-version-check --editable '.[peers]'
	@touch $@

$(VENV)/.dev: $(VENV)/.python pyproject.toml
	@echo 'Installing the requirements into $(VENV), once. This may take a minute …'
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[dev]'
	@touch $@ $(VENV)/.test $(VENV)/.demo
