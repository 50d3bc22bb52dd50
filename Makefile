# Two commands on a machine with Python 3.11 and nothing else set up: `make demo` and `make test`.
PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
PIP_INSTALL := $(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt

.PHONY: demo test pytest lint format benchmark docs clean

demo: $(VENV)/.demo-ready
	$(BIN)/crowdwise demo --out crowdwise-demo

# Linters, which use one core, run beside the tests, and both to their end.
test: $(VENV)/.test-ready
	$(MAKE) --jobs 2 --keep-going pytest lint

# A process for each core, one thread in each; the tests of a file stay together, as they share what is costly to make,
# and files are dealt in the order of tests/conftest.py, the longest first. Bytecode is kept, whatever the machine's habit:
# hundreds of processes are started, and each would compile the package anew.
pytest: $(VENV)/.test-ready
	PYTHONDONTWRITEBYTECODE= OMP_NUM_THREADS=1 $(BIN)/python -m pytest -n auto --dist loadfile --no-loadscope-reorder

lint: $(VENV)/.test-ready
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/mypy
	$(BIN)/lint-imports

format: $(VENV)/.test-ready
	$(BIN)/ruff check --fix
	$(BIN)/ruff format

benchmark: $(VENV)/.test-ready
	$(PIP_INSTALL) crowd-kit
	$(BIN)/python benchmarks/aggregation.py
	$(BIN)/python benchmarks/first_run.py
	$(BIN)/python benchmarks/reading.py
	$(BIN)/python benchmarks/accuracy.py

docs: $(VENV)/.test-ready
	$(BIN)/python docs/make.py

clean:
	rm -rf $(VENV) crowdwise-demo

$(BIN)/python:
	$(PYTHON) -m venv $(VENV)

$(VENV)/.demo-ready: pyproject.toml constraints.txt | $(BIN)/python
	$(PIP_INSTALL) --editable ".[learn,report,campaign]"
	touch $@

$(VENV)/.test-ready: pyproject.toml constraints.txt | $(BIN)/python
	$(PIP_INSTALL) --editable ".[dev,learn,report,campaign,cluster]"
	touch $@ $(VENV)/.demo-ready
