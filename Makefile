# The front door: one word for each task. `make help` lists them.
# The first command sets up .venv by itself; later ones reuse it and add only what they need.

PYTHON ?= $(shell for p in python3 python3.13 python3.12 python3.11; do \
  $$p -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null && echo $$p && break; done)
BIN := .venv/bin
ARGS ?=

# A stamp is written last, when its installation is complete.
READY := .venv/ready
TEST_READY := .venv/ready-test
PROVE_READY := .venv/ready-prove
NOTEBOOK_READY := .venv/ready-notebook
SYNC_READY := .venv/ready-sync
SITE_READY := .venv/site/ready
BENCHMARK_READY := .venv/ready-benchmark

.DEFAULT_GOAL := help
.PHONY: help test test-site site serve prove style lint claims figures gpu sync doctor list benchmark benchmark-grading gradescope clean

help: ## list the commands
	@grep -hE '^[a-z%-]+[^=]*:.*## ' $(MAKEFILE_LIST) | sed -E 's/^([^:]+):.*## /\1\t/' | sed "s/%/NN/" | awk -F'\t' '{printf "  make %-18s %s\n", $$1, $$2}'

lab-%: $(READY) ## run a lab's starter: make lab-02 ARGS="--steps 50"
	@$(BIN)/rankzero run $* $(ARGS)

notebook-%: $(NOTEBOOK_READY) ## open a lab's notebook in JupyterLab: make notebook-02
	@$(BIN)/jupyter lab $(if $(filter 0,$(shell id -u)),--allow-root) notebooks/lab-$*-*.ipynb

# Deterministic tests run beside each other. Real ones (signals, ports, ranks, wall time) run one at a time after them,
# and once more if they fail; a pass at the second try is reported. Exit code 5 means that ARGS chose no test of a kind.
REAL := --override-ini addopts="-q --import-mode=importlib --strict-markers" --reruns 1

test: $(TEST_READY) ## check style, imports, labs, library (minutes)
	@export OMP_NUM_THREADS=1; \
	$(BIN)/pytest -n auto $(ARGS); parallel=$$?; \
	$(BIN)/pytest $(REAL) -m "real and not prove" --ignore=tests/site $(ARGS); serial=$$?; \
	[ $$parallel = 0 ] && [ $$serial = 5 ] && exit 0; [ $$parallel = 5 ] && exit $$serial; \
	[ $$parallel = 0 ] && exit $$serial; exit $$parallel

prove: $(PROVE_READY) $(SITE_READY) ## prove the checks: 20 seeds, attacks, claims (an hour)
	@export OMP_NUM_THREADS=1 RANKZERO_SEEDS=20; \
	$(BIN)/pytest -n auto -m "not real" tests notebooks solutions $(ARGS); parallel=$$?; \
	$(BIN)/pytest $(REAL) -m real --ignore=tests/site tests $(ARGS); serial=$$?; \
	$(BIN)/rankzero site && $(SITE_TESTS) $(ARGS) && [ $$parallel = 0 ] && [ $$serial = 0 ]

# A browser can lose a key or a frame on a busy machine, so these tests are run once more if they fail, as real ones.
SITE_TESTS = OMP_NUM_THREADS=1 RANKZERO_SITE=site $(BIN)/pytest --override-ini addopts=-q --reruns 1 -n auto tests/site

test-site: $(TEST_READY) $(SITE_READY) ## build the site and check it in Chromium (minutes)
	@$(BIN)/rankzero site
	@$(SITE_TESTS) -m "not prove" $(ARGS)

style: $(TEST_READY) ## check style and the import contract only (seconds)
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check --quiet . || { echo 'Some files are not formatted: run `.venv/bin/ruff format .`'; exit 1; }
	@$(BIN)/lint-imports --no-logo

lint: style ## check style, the import contract and types (minutes)
	@$(BIN)/mypy
	@for lab in $$($(BIN)/python -c 'from rankzero.curriculum import *; print(*(lab.folder for lab in all_labs()))'); do $(BIN)/mypy --no-error-summary $$lab/*.py tests/$${lab##*/}/*.py || exit 1; done

claims: $(READY) ## measure every number again for handbook/claims.md
	@$(BIN)/rankzero claims $(ARGS)

figures: $(READY) ## draw the pictures of the pages again
	@$(BIN)/rankzero figures $(ARGS)

gpu: ## run and measure what needs a GPU; install nothing
	@PYTHONPATH=code $(PYTHON) -m rankzero gpu $(ARGS)

sync: $(SYNC_READY) ## write generated files again from their sources
	@$(BIN)/rankzero sync $(ARGS)

site: $(SITE_READY) ## build the site from pages and source, into site/
	@$(BIN)/rankzero site $(ARGS)

serve: $(SITE_READY) ## show the site in a browser, and follow changed files
	@$(BIN)/rankzero site --serve $(ARGS)

doctor: $(READY) ## say what this machine can run
	@$(BIN)/rankzero doctor

list: $(READY) ## list the labs
	@$(BIN)/rankzero list

benchmark: $(READY) ## measure what meter, log and evaluation cost (minutes)
	@$(BIN)/python benchmarks/loop_overhead.py $(ARGS)

benchmark-grading: $(BENCHMARK_READY) ## measure how long grading takes (minutes)
	@$(BIN)/python benchmarks/grading.py $(ARGS)

gradescope: $(READY) ## make Gradescope's autograder: make gradescope LAB=02
	@test -n "$(LAB)" || { echo 'Which lab? For example: make gradescope LAB=02'; exit 1; }
	@$(BIN)/python launch/gradescope/make_zip.py $(LAB) $(ARGS)

clean: ## remove .venv, caches and the built site; runs/ is kept
	rm -rf .venv .mypy_cache .ruff_cache .pytest_cache .import_linter_cache code/rankzero.egg-info site

PIP := $(BIN)/python -m pip install --disable-pip-version-check

# PyTorch first, with pip's progress bars: it is most of the download. Without a GPU, pip is asked for the CPU build, and
# PyPI's build is taken where pip's configuration offers none.
$(READY): pyproject.toml
	@test -n "$(PYTHON)" || { echo 'No Python 3.11 or newer was found: install one, or name it with `make PYTHON=/path/to/python3 ...`.'; exit 1; }
	@echo 'Setting up .venv with $(PYTHON), once. This can take minutes: PyTorch is large.'
	@$(PYTHON) -m venv .venv || { echo 'Python cannot make a virtual environment: on Debian and Ubuntu, install python3-venv.'; exit 1; }
	@torch=$$(sed -n 's/^ *"\(torch==[0-9.]*\)",/\1/p' pyproject.toml); \
	  if command -v nvidia-smi > /dev/null || [ "$$(uname -s)" != Linux ]; then $(PIP) "$$torch"; \
	  elif ! $(PIP) "$$torch+cpu" 2> /dev/null; then echo "pip's configuration offers no CPU build of $$torch; taking the default one."; $(PIP) "$$torch"; fi
	@echo 'Installing the other libraries.'
	@$(PIP) --quiet --editable .
	@touch $@

$(NOTEBOOK_READY) $(SYNC_READY) $(TEST_READY) $(PROVE_READY) $(BENCHMARK_READY): .venv/ready-%: $(READY)
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
