# The front door: one word for each task. `make help` lists them.
# The first command sets up .venv by itself; later ones reuse it and add only what they need.

PYTHON ?= $(shell for p in python3 python3.13 python3.12 python3.11; do \
  $$p -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null && echo $$p && break; done)
BIN := .venv/bin
ARGS ?=

# A stamp is written last, when its installation is complete.
READY := .venv/ready
TEST_READY := .venv/ready-test
NOTEBOOK_READY := .venv/ready-notebook
SYNC_READY := .venv/ready-sync
SITE_READY := .venv/site/ready
BENCHMARK_READY := .venv/ready-benchmark

.DEFAULT_GOAL := help
.PHONY: help test test-site site serve prove lint claims figures gpu sync doctor list benchmark benchmark-grading gradescope clean

help: ## list the commands
	@grep -hE '^[a-z%-]+[^=]*:.*## ' $(MAKEFILE_LIST) | sed -E 's/^([^:]+):.*## /\1\t/' | sed "s/%/NN/" | awk -F'\t' '{printf "  make %-18s %s\n", $$1, $$2}'

lab-%: $(READY) ## run a lab's starter, as in `make lab-02` or `make lab-02 ARGS="--steps 50"`
	@$(BIN)/rankzero run $* $(ARGS)

notebook-%: $(NOTEBOOK_READY) ## open a lab's notebook in JupyterLab, as in `make notebook-02`
	@$(BIN)/jupyter lab notebooks/lab-$*-*.ipynb

test: lint ## check everything at one seed: style, types, imports, labs, library (minutes)
	@OMP_NUM_THREADS=1 $(BIN)/pytest -n auto $(ARGS)

prove: $(TEST_READY) ## prove the checks: 20 seeds, every changed line, every attack, every claim (an hour)
	@OMP_NUM_THREADS=1 RANKZERO_SEEDS=20 $(BIN)/pytest -n auto -m "prove or not prove" tests notebooks solutions $(ARGS)

test-site: $(TEST_READY) $(SITE_READY) ## build the site and check it in a real browser, Chromium (minutes)
	@$(BIN)/rankzero site
	@OMP_NUM_THREADS=1 RANKZERO_SITE=site $(BIN)/pytest --override-ini addopts=-q -n auto tests/site $(ARGS)

lint: $(TEST_READY) ## check style, types and the import contract only
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check --quiet . || { echo 'Some files are not formatted: run `.venv/bin/ruff format .`'; exit 1; }
	@$(BIN)/lint-imports --no-logo
	@$(BIN)/mypy
	@for lab in code/lab-*; do $(BIN)/mypy --no-error-summary $$lab/*.py tests/$${lab#code/}/*.py || exit 1; done

claims: $(READY) ## measure every number of the text again and write handbook/claims.md
	@$(BIN)/rankzero claims $(ARGS)

figures: $(READY) ## draw the pictures of the pages again
	@$(BIN)/rankzero figures $(ARGS)

gpu: ## run and measure everything that needs a GPU; installs nothing
	@PYTHONPATH=code $(PYTHON) -m rankzero gpu $(ARGS)

sync: $(SYNC_READY) ## regenerate stubs, notebooks, excerpts and tables from their sources
	@$(BIN)/rankzero sync $(ARGS)

site: $(SITE_READY) ## build the site, handbook and labs and source, into site/
	@$(BIN)/rankzero site $(ARGS)

serve: $(SITE_READY) ## build the site, open it in a browser, and build it again as files change
	@$(BIN)/rankzero site --serve $(ARGS)

doctor: $(READY) ## say what this machine can run
	@$(BIN)/rankzero doctor

list: $(READY) ## list the labs
	@$(BIN)/rankzero list

benchmark: $(READY) ## measure what meter, log and evaluation cost a training run (minutes)
	@$(BIN)/python benchmarks/loop_overhead.py $(ARGS)

benchmark-grading: $(BENCHMARK_READY) ## measure how long grading takes, beside nbgrader (minutes)
	@$(BIN)/python benchmarks/grading.py $(ARGS)

gradescope: $(READY) ## make Gradescope's autograder, as in `make gradescope LAB=02`
	@$(BIN)/python launch/gradescope/make_zip.py $(LAB) $(ARGS)

clean: ## remove .venv, caches and the built site; runs/ is kept
	rm -rf .venv .mypy_cache .ruff_cache .pytest_cache .import_linter_cache code/rankzero.egg-info site

PIP := $(BIN)/python -m pip install --disable-pip-version-check

# Without a GPU, pip is asked for PyTorch's CPU build first. Where its configuration offers none, PyPI's build is taken.
$(READY): pyproject.toml
	@test -n "$(PYTHON)" || { echo 'No Python 3.11 or newer was found: install one, or name it with `make PYTHON=/path/to/python3 ...`.'; exit 1; }
	@echo 'Setting up .venv with $(PYTHON). This happens once and can take minutes: PyTorch is large.'
	@$(PYTHON) -m venv .venv || { echo 'Python cannot make a virtual environment: on Debian and Ubuntu, install python3-venv.'; exit 1; }
	@torch=$$(sed -n 's/^ *"\(torch==[0-9.]*\)",/\1/p' pyproject.toml); command -v nvidia-smi > /dev/null || [ "$$(uname -s)" != Linux ] \
	  || $(PIP) "$$torch+cpu" 2> /dev/null || echo "pip's configuration offers no CPU build of $$torch; taking the default one."
	@$(PIP) --editable .
	@touch $@

$(NOTEBOOK_READY) $(SYNC_READY) $(TEST_READY) $(BENCHMARK_READY): .venv/ready-%: $(READY)
	@echo 'Adding to .venv what this command needs (once).'
	@$(PIP) --editable '.[$*]'
	@touch $@

SITE := code/rankzero/publish/site
$(SITE_READY): $(READY) $(SITE)/package-lock.json
	@echo 'Adding to .venv what the site is made with (once).'
	@rm -f $@
	@$(PIP) --editable '.[site]'
	@mkdir -p $(@D) && cp $(SITE)/package.json $(SITE)/package-lock.json $(@D)
	@PATH="$(abspath $(BIN)):$$PATH" npm ci --prefix $(@D) --ignore-scripts --no-audit --no-fund --loglevel=error
	@touch $@
