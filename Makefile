# Everything runs in local environments that hold exactly the pinned requirements: .venv (product, then tests and linters),
# .venv-local (with local models), .venv-bench (with what the benchmarks compare).
PYTHON ?= python3
BIN := .venv/bin
INSTALL := -m pip install --quiet --no-compile --disable-pip-version-check -r

.PHONY: run test test-local lint bench bench-chunking bench-documents bench-peers bench-scale clean

.venv/.product: requirements.txt
	$(PYTHON) -m venv .venv
	$(BIN)/python $(INSTALL) requirements.txt
	$(BIN)/python -m pip uninstall --quiet --quiet --yes setuptools  # older Pythons bring it, nothing needs it
	touch $@

.venv/.dev: .venv/.product requirements-dev.txt
	$(BIN)/python $(INSTALL) requirements-dev.txt
	touch $@

.venv-local/.made: requirements.txt requirements-dev.txt requirements-local.txt
	$(PYTHON) -m venv .venv-local
	.venv-local/bin/python $(INSTALL) requirements-local.txt -r requirements-dev.txt
	touch $@

.venv-bench/.made: requirements.txt requirements-bench.txt
	$(PYTHON) -m venv .venv-bench
	.venv-bench/bin/python $(INSTALL) requirements-bench.txt
	touch $@

run: .venv/.product
	$(BIN)/python -m app

test: .venv/.dev
	$(BIN)/python -m pytest -n auto $(ARGS)

# The tests that need local models; `make test` skips them.
test-local: .venv-local/.made
	.venv-local/bin/python -m pytest --fail-on-skip tests/engine/providers/test_transformers.py tests/engine/providers/test_same_strategy.py

lint: .venv/.dev
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports

bench: bench-chunking bench-documents bench-peers

bench-chunking bench-documents bench-peers: .venv-bench/.made
	.venv-bench/bin/python -m benchmarks.$(subst bench-,,$@)

# 2,000 documents; takes a while. ARGS="--documents 200 --workers 2" for a smaller corpus on a Dask cluster.
bench-scale: .venv/.dev
	$(BIN)/python -m benchmarks.scale $(ARGS)

clean:
	rm -rf .venv .venv-local .venv-bench .pytest_cache .mypy_cache .ruff_cache .hypothesis .import_linter_cache
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
