# Two commands on a fresh machine: `make demo` and `make test`. Each makes the virtual environment
# if it is missing. A machine without a GPU can save the CUDA download:
#   make demo TORCH="torch --index-url https://download.pytorch.org/whl/cpu"
PYTHON ?= python3
TORCH ?= torch==2.13.0
BIN := .venv/bin
export OMP_NUM_THREADS ?= 1

.DEFAULT_GOAL := help
.PHONY: help demo test lint types imports unit docs verl swift bench wheel clean

help: ## show this list
	@grep -hE '^[a-z]+:.*##' $(MAKEFILE_LIST) | awk -F':.*## ' '{printf "  make %-8s %s\n", $$1, $$2}'

demo: .venv/ready ## train small, diagnose, write a report (one to three minutes after the installation)
	$(BIN)/buttress demo

test: lint types imports unit docs wheel ## everything that CI checks

lint: .venv/dev ## formatting and lint
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .

types: .venv/dev ## static types
	$(BIN)/pyrefly check --python-interpreter-path $(BIN)/python

imports: .venv/dev ## imports go one way
	$(BIN)/lint-imports

unit: .venv/dev ## all tests
	$(BIN)/python -m pytest -n 2 --doctest-modules --ignore=tests/hooks_verl --ignore=tests/hooks_swift --ignore=tests/logs/data

docs: .venv/dev ## the documentation, warnings are errors
	$(BIN)/sphinx-build -W --keep-going -q docs docs/_build

verl: .venv-verl/ready ## the verl plugin, in an environment of its own (verl and TRL pin different transformers)
	RAY_AUTH_MODE=disabled .venv-verl/bin/python -m pytest -p no:cacheprovider tests/hooks_verl

swift: .venv-swift/ready ## the ms-swift plugin in real runs, in an environment of its own
	.venv-swift/bin/python -m pytest -p no:cacheprovider tests/hooks_swift

bench: .venv/dev ## speed, as ratios measured side by side
	$(BIN)/python -m benchmarks

wheel: .venv/dev ## build the wheel and try it in an environment of its own
	rm -rf dist build/wheel-venv
	$(BIN)/python -m build --wheel --outdir dist . >/dev/null
	$(PYTHON) -m venv build/wheel-venv
	build/wheel-venv/bin/pip install -q dist/*.whl
	cd build && wheel-venv/bin/buttress diagnose ../tests/logs/data/verl_v1 --fail-on never --html report.html

clean: ## remove what the targets made
	rm -rf .venv .venv-verl .venv-swift dist build buttress-demo .pytest_cache .ruff_cache .hypothesis

.venv/ready: pyproject.toml
	@echo "installing torch and TRL into .venv: some minutes without a word"
	$(PYTHON) -m venv .venv
	$(BIN)/python -m pip install -q --upgrade pip
	$(BIN)/python -m pip install -q $(TORCH)
	$(BIN)/python -m pip install -q -e '.[trl]'
	touch $@

.venv/dev: .venv/ready
	$(BIN)/python -m pip install -q --group dev
	touch $@

.venv-verl/ready: pyproject.toml
	$(PYTHON) -m venv .venv-verl
	.venv-verl/bin/python -m pip install -q --upgrade pip
	.venv-verl/bin/python -m pip install -q $(TORCH)
	.venv-verl/bin/python -m pip install -q -e '.[verl]' pytest hypothesis
	touch $@

.venv-swift/ready: pyproject.toml
	$(PYTHON) -m venv .venv-swift
	.venv-swift/bin/python -m pip install -q --upgrade pip
	.venv-swift/bin/python -m pip install -q $(TORCH)
	.venv-swift/bin/python -m pip install -q -e '.[swift]' pytest hypothesis
	touch $@
