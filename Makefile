# Everything runs in a local .venv that holds exactly the pinned requirements.
PYTHON ?= python3
BIN := .venv/bin

.PHONY: run test lint bench bench-chunking bench-documents bench-peers clean

.venv/.product: requirements.txt
	$(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --no-compile --disable-pip-version-check -r requirements.txt
	$(BIN)/python -m pip uninstall --quiet --quiet --yes setuptools  # older Pythons bring it, nothing needs it
	touch $@

.venv/.dev: .venv/.product requirements-dev.txt
	$(BIN)/python -m pip install --quiet --no-compile --disable-pip-version-check -r requirements-dev.txt
	touch $@

run: .venv/.product
	$(BIN)/python -m app

test: .venv/.dev
	$(BIN)/python -m pytest -n auto $(ARGS)

lint: .venv/.dev
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports

bench: bench-chunking bench-documents

bench-chunking bench-documents bench-peers: .venv/.dev
	$(BIN)/python -m benchmarks.$(subst bench-,,$@)

clean:
	rm -rf .venv .pytest_cache .mypy_cache .ruff_cache .hypothesis .import_linter_cache
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
