# Two commands from a fresh clone: `make demo` sets up and runs the main job, `make test` sets up and runs the tests.
# CPU build of torch by default; for CUDA: make demo TORCH=torch
PYTHON ?= python3
TORCH ?= torch==2.13.0
BIN := .venv/bin
# timm asks for torchvision, whose newest build would replace a CPU torch: this pair imports and runs with any.
TIMM := torchvision==0.16.2 timm==1.0.30
PYTEST := $(BIN)/python -m pytest -q -n auto --dist worksteal

.PHONY: demo check test static types layers coverage lint clean
demo: .venv/.installed
	$(BIN)/unseen demo

# Before every commit, in a minute or so; `make test` is all there is.
check: static
	$(PYTEST) -m "not slow"

test: static
	sh tools/get-chromium.sh
	$(PYTEST)

static: .venv/.installed-dev layers types
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

layers: .venv/.installed-dev
	$(BIN)/lint-imports

types: .venv/.installed-dev
	if grep -q '^.tool.pyright' pyproject.toml; then $(BIN)/pyright; fi

# What no test runs, line by line; files below 80 % are worth a look.
coverage: .venv/.installed-dev
	$(PYTEST) --cov --cov-report=term-missing:skip-covered

.venv/.installed: pyproject.toml
	$(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --upgrade pip
	$(BIN)/python -m pip install --quiet "$(TORCH)"
	$(BIN)/python -m pip install --quiet -e ".[web]"
	touch $@

.venv/.installed-dev: .venv/.installed
	$(BIN)/python -m pip install --quiet -e ".[dev]"
	$(BIN)/python -m pip install --quiet huggingface_hub pyyaml
	$(BIN)/python -m pip install --quiet --no-deps $(TIMM)
	touch $@

lint: .venv/.installed-dev
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

clean:
	rm -rf .venv
