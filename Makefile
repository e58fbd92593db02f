# The front door: one word for each task. `make help` lists them.
# The first command sets up .venv by itself; later ones reuse it.

PYTHON ?= $(shell for p in python3 python3.13 python3.12 python3.11; do \
  $$p -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null && echo $$p && break; done)
BIN := .venv/bin
READY := .venv/ready
SITE_READY := .venv/site/ready
ARGS ?=

.DEFAULT_GOAL := help
.PHONY: help test test-site site serve prove lint claims sync doctor list benchmark benchmark-grading gradescope clean

help: ## list the commands
	@grep -hE '^[a-z%-]+[^=]*:.*## ' $(MAKEFILE_LIST) | sed -E 's/^([^:]+):.*## /\1\t/' | sed "s/%/NN/" | awk -F'\t' '{printf "  make %-18s %s\n", $$1, $$2}'

lab-%: $(READY) ## run a lab's starter, as in `make lab-02` or `make lab-02 ARGS="--steps 50"`
	@$(BIN)/rankzero run $* $(ARGS)

notebook-%: $(READY) .venv/notebook ## open a lab's notebook in JupyterLab, as in `make notebook-02`
	@$(BIN)/jupyter lab notebooks/lab-$*-*.ipynb

test: lint ## check everything: style, types, pages, starters, notebooks (twenty minutes on two cores)
	@OMP_NUM_THREADS=1 $(BIN)/pytest -n auto $(ARGS)

prove: $(READY) ## prove the checks: every known-wrong solution on 20 random inputs, every changed line (many minutes)
	@OMP_NUM_THREADS=1 RANKZERO_SEEDS=20 $(BIN)/pytest -n auto tests/test_exercises.py tests/test_changes.py tests/test_grading_attacks.py $(ARGS)

test-site: $(SITE_READY) ## build the site and check it in a real browser, Chromium (minutes)
	@$(BIN)/rankzero site
	@OMP_NUM_THREADS=1 RANKZERO_SITE=site $(BIN)/pytest --override-ini addopts=-q -n auto tests/site $(ARGS)

lint: $(READY) ## check style and types only
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check --quiet . || { echo 'Some files are not formatted: run `.venv/bin/ruff format .`'; exit 1; }
	@$(BIN)/mypy
	@for lab in code/lab-*; do $(BIN)/mypy --no-error-summary $$lab/*.py tests/$${lab#code/}/*.py || exit 1; done

claims: $(READY) ## measure every number of the text again and write handbook/claims.md
	@$(BIN)/rankzero claims $(ARGS)

sync: $(READY) ## regenerate notebooks and the excerpts in pages from their sources
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

benchmark-grading: $(READY) .venv/benchmark ## measure how long grading takes, beside nbgrader (minutes)
	@$(BIN)/python benchmarks/grading.py $(ARGS)

gradescope: $(READY) ## make Gradescope's autograder, as in `make gradescope LAB=02`
	@$(BIN)/python launch/gradescope/make_zip.py $(LAB) $(ARGS)

clean: ## remove .venv, caches and the built site; runs/ is kept
	rm -rf .venv .mypy_cache .ruff_cache .pytest_cache code/rankzero.egg-info site

$(READY): requirements.txt pyproject.toml
	@test -n "$(PYTHON)" || { echo 'No Python 3.11 or newer was found: install one, or name it with `make PYTHON=/path/to/python3 ...`.'; exit 1; }
	@echo 'Setting up .venv with $(PYTHON) (once; torch is large, so this can take minutes)'
	@$(PYTHON) -m venv .venv || { echo 'Python cannot make a virtual environment: on Debian and Ubuntu, install python3-venv.'; exit 1; }
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check -e '.[test]'
	@touch $@

# The stamp is removed first and written last: an installation that is interrupted is done again.
SITE := code/rankzero/publish/site
$(SITE_READY): $(READY) $(SITE)/package-lock.json
	@echo 'Adding to .venv what the site is made with (once)'
	@rm -f $@
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check -e '.[site]'
	@mkdir -p $(@D) && cp $(SITE)/package.json $(SITE)/package-lock.json $(@D)
	@PATH="$(abspath $(BIN)):$$PATH" npm ci --prefix $(@D) --ignore-scripts --no-audit --no-fund --loglevel=error
	@touch $@

.venv/benchmark: $(READY)
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check -e '.[benchmark]'
	@touch $@

.venv/notebook: $(READY)
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check -e '.[notebook]'
	@touch $@
