# Two commands from a fresh clone: `make demo` sets up and runs the main job, `make test` sets up and runs the tests.
# CPU build of torch by default; for CUDA: make demo TORCH=torch
PYTHON ?= python3
TORCH ?= torch==2.13.0
BIN := .venv/bin
# timm asks for torchvision, whose newest build would replace a CPU torch: this pair imports and runs with any.
TIMM := torchvision==0.16.2 timm==1.0.30
PIP := $(BIN)/python -m pip install --quiet -c constraints.txt
PYTEST := $(BIN)/python -m pytest -q -n auto --dist worksteal

.PHONY: help demo check fast test static types layers js coverage docs tables bench audit lint clean
help: ## list the targets
	@grep -E '^[a-z]+:.*## ' Makefile | awk -F ':.*## ' '{ printf "  make %-9s %s\n", $$1, $$2 }'

demo: .venv/.installed ## set up and run the main job: predict classifiers, label sample photos
	$(BIN)/unseen demo

check: .venv/.installed-dev ## before every commit, in a minute or so: lint, types, layers and the fast tests
	$(MAKE) --jobs 2 static fast

fast: .venv/.installed-dev ## the tests that are not marked slow
	$(PYTEST) -m "not slow" --hypothesis-profile quick

test: static ## all tests, in parallel
	sh tools/get-chromium.sh
	$(PYTEST)

static: .venv/.installed-dev layers types js ## lint, format, types and layers, without tests
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

layers: .venv/.installed-dev ## does every package import only from those below it?
	$(BIN)/lint-imports

js: ## lint, types and unit tests of the page's JavaScript, if node is here
	sh tools/check-js.sh

types: .venv/.installed-dev ## the type checker, over src/
	$(BIN)/basedpyright

coverage: .venv/.installed-dev ## which lines no test runs; files below 80 % are worth a look
	$(PYTEST) --cov --cov-report=term-missing:skip-covered

docs: .venv/.installed-dev ## the documents and the API reference, as a site in site/
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict

tables: .venv/.installed ## tables of README and docs, from the pages of results and from the code
	$(BIN)/python tools/write_tables.py

bench: .venv/.installed-dev ## how fast this machine does the heavy work, and against what: a few minutes
	for name in stage1 score finetune serve; do $(BIN)/python benchmarks/$$name.py || exit 1; done

.venv/.installed: pyproject.toml constraints.txt
	$(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --upgrade pip
	$(PIP) "$(TORCH)"
	$(PIP) -e ".[web]"
	touch $@

.venv/.installed-dev: .venv/.installed
	$(PIP) -e ".[dev]"
	$(PIP) huggingface_hub pyyaml
	$(BIN)/python -m pip install --quiet --no-deps $(TIMM)
	touch $@

audit: .venv/.installed ## are there known weaknesses in the versions of constraints.txt? Asks a public database
	$(BIN)/python -m pip install --quiet pip-audit
	$(BIN)/pip-audit --strict --requirement constraints.txt --no-deps --disable-pip

lint: .venv/.installed-dev ## mend what ruff can mend, and format
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

clean: ## remove .venv and site
	rm -rf .venv site
