# The commands of this project. `make help` lists them; continuous integration uses the same ones.

PYTHON ?= python3
TEST_PROCESSES ?= 3
ARGS ?=

# Taken literally and passed in the environment: a question may contain quotes, dollars and anything else.
override GOAL := $(value GOAL)
override DOCS := $(value DOCS)
override GATE := $(value GATE)

# The environment is .venv. If PYTHON names another version than .venv's, it is .venv-3.13 or so, beside it.
ENVIRONMENT := .venv
ifneq ($(origin PYTHON),file)
chosen := $(shell '$(PYTHON)' -c 'import sys; print("%d.%d" % sys.version_info[:2])' 2>/dev/null)
installed := $(shell sed -n 's/^version[_info]* = \([0-9]*\.[0-9]*\).*/\1/p' .venv/pyvenv.cfg 2>/dev/null)
ifeq ($(chosen),)
$(error PYTHON=$(PYTHON) does not run)
endif
ifneq ($(filter-out $(chosen),$(installed)),)
ENVIRONMENT := .venv-$(chosen)
endif
endif
export GOAL DOCS GATE PYTHON ENVIRONMENT
# Otherwise each of the hundreds of processes that tests start compiles what it imports anew.
unexport PYTHONDONTWRITEBYTECODE

SHELL := /bin/sh
.DEFAULT_GOAL := help
BIN := $(ENVIRONMENT)/bin
# What runs; each group and extra of pyproject.toml adds to it, and leaves a file of its name.
SYNCED := $(ENVIRONMENT)/.synced
GROUP := $(ENVIRONMENT)/.group-
# The tests that need nothing but the group `dev`; pyproject.toml leaves the slow ones out.
ALL_TESTS := -m 'not nightly and not local_llm and not browser and not typescript and not agentdojo and not container'
EXTRA := $(ENVIRONMENT)/.extra-

# A virtual environment contains its own path in many files, so one that was copied or moved is recreated.
ifneq ($(shell cat $(SYNCED) 2>/dev/null),$(shell pwd -P))
$(SYNCED): recreated
endif

.SECONDARY:
.PHONY: help run test check docs docs-images bench load eval replay chaos nightly sbom release audit up down clean recreated

help: ## List the commands
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-11s %s\n", $$1, $$2 }' Makefile
	@echo
	@echo '  make run GOAL="What does the contract say about notice?" DOCS=path/to/folder'
	@echo '  make run EXTRAS="charts s3"  with optional dependencies:' \
		$$(sed -n '/^\[project.opt/,/^$$/s/^\([a-z0-9-]*\) = .*/\1/p' pyproject.toml)
	@echo '  make test ALL=1              the slow tests too: processes, killed ones, wide parameters; what .ci/run runs'
	@echo '  make test MODEL=local        the tests that need a small language model on this machine'
	@echo '  make test PYTHON=python3.13  the tests on another Python, in an environment of its own'
	@echo '  make test BROWSER=1          the tests that need Chromium (on Debian: apt install chromium)'
	@echo '  make test TYPESCRIPT=1       the tests that need npm: examples/typescript, generators of clients'
	@echo '  make test CONTAINER=1        the worker in a container, by Docker or podman'

run: $(SYNCED) $(EXTRAS:%=$(EXTRA)%) ## Answer GOAL over the folder DOCS; without both, the example question
	@if [ -z "$$GOAL" ] && [ -z "$$DOCS" ]; then \
		GOAL=$$(cat examples/question.txt); DOCS=examples/harbour-ferries; \
	elif [ -z "$$GOAL" ]; then \
		echo 'Ask a question about these documents: make run GOAL="…" DOCS=…' >&2; exit 2; \
	fi; \
	case "$$DOCS" in "~/"*) DOCS="$$HOME/$${DOCS#??}" ;; esac; \
	set -- run $(ARGS) -- "$$GOAL"; \
	if [ -n "$$DOCS" ]; then shift; set -- run --docs "$$DOCS" "$$@"; fi; \
	trap : INT; \
	$(BIN)/chargehand "$$@"; \
	code=$$?; \
	if [ $$code -eq 3 ]; then \
		echo "chargehand run: exit code 3, a report with gaps." >&2; code=0; \
	elif [ $$code -ne 0 ]; then \
		echo "chargehand run: exit code $$code. (make ends with 2 whatever the code; $(BIN)/chargehand run ends with it.)" >&2; \
	fi; \
	exit $$code

test: $(GROUP)dev $(if $(MODEL),$(GROUP)local-llm) $(if $(BROWSER),$(GROUP)browser) ## Run the fast tests (ALL=1 runs all, ARGS="tests/unit -k ledger" selects, TEST_PROCESSES=0 uses one process)
	@$(if $(TYPESCRIPT),for folder in examples/typescript tests/acceptance/generators; do \
		npm ci --prefix $$folder --silent --ignore-scripts --no-audit --no-fund || exit; done; npm test --prefix examples/typescript --silent)
	@$(BIN)/python -m pytest -q $(if $(TYPESCRIPT),-m typescript tests/acceptance/test_typescript.py,$(if $(MODEL),-m local_llm,-n $(TEST_PROCESSES) --dist worksteal $(if $(ALL),$(ALL_TESTS)) $(if $(BROWSER),-m 'browser and not nightly' -n 2 --dist loadfile tests/browser)$(if $(CONTAINER),-m container -n 0 tests/containers))) $(ARGS)

check: $(GROUP)dev $(GROUP)docs ## Check format, lint, types, import direction and sizes
	@$(BIN)/ruff format --check .
	@$(BIN)/ruff check .
	@$(BIN)/basedpyright
	@$(BIN)/lint-imports
	@$(BIN)/python .ci/house.py
	@$(BIN)/python .ci/schemas.py

docs: $(GROUP)docs ## Build the documentation site in build/docs; a broken link fails
	@$(BIN)/typer chargehand_cli.main utils docs --name chargehand --title 'Command line' \
		--output docs/reference/cli.md >/dev/null
	@PYTHONPATH=. $(BIN)/sphinx-build -q -W --keep-going -b html docs build/docs
	@echo 'build/docs/index.html'

docs-images: $(GROUP)dev $(GROUP)browser ## Take the pictures in docs/images anew; needs Chromium
	@PYTHONPATH=. $(BIN)/python docs/screenshots.py

bench: $(GROUP)dev ## Measure speed beside hand-written workflows; ARGS="growth limits" measures others
	@$(BIN)/python -m benchmarks $(ARGS)

load: $(GROUP)dev ## Load beyond and below the capacity, through faults, for a quarter of an hour
	@$(BIN)/python -m benchmarks.load $(ARGS)

eval: $(GROUP)dev ## Score answers on tapes, an oracle and the configured models; GATE=FILE fails if something is worse
	@$(BIN)/python -m benchmarks.evaluation $${GATE:+--gate "$$GATE"} $(ARGS)

replay: $(GROUP)dev ## Replay the recorded histories on the current workflows
	@$(BIN)/python -m pytest -q tests/replay $(ARGS)

chaos: $(GROUP)dev ## Inject faults for a quarter of an hour; write docs/durability.md
	@$(BIN)/python -m chaos --write docs/durability.md $(ARGS)

nightly: $(GROUP)dev $(GROUP)agentdojo $(GROUP)browser ## Run the longest tests, far more random examples and hostile inputs; write docs/security-tests.md
	@$(BIN)/python -m pytest -q -n $(TEST_PROCESSES) --dist worksteal -m 'nightly and not browser' --ignore tests/simulation $(ARGS)
	@$(BIN)/python -m pytest -q -n 2 --dist loadfile -m 'nightly and browser' tests/browser $(ARGS)
	@$(BIN)/python -m pytest -q -n $(TEST_PROCESSES) --timeout 0 --hypothesis-profile nightly -m '' \
		tests/simulation tests/unit/workflows/test_estimates.py plugins/src/chargehand_plugins/extractive/tests/test_figures.py $(ARGS)
	@$(BIN)/python -m tests.security --processes $(TEST_PROCESSES) --write docs/security-tests.md

sbom: $(GROUP)dev ## Write build/sbom.cdx.json: what runs, by CycloneDX, with hashes and licences
	@mkdir -p build
	@$(BIN)/uv export --quiet --locked --all-extras --format cyclonedx1.5 --output-file build/sbom.cdx.json
	@UV_PROJECT_ENVIRONMENT=build/sbom-environment $(BIN)/uv sync --quiet --locked --all-extras
	@build/sbom-environment/bin/python .ci/sbom.py build/sbom.cdx.json Dockerfile
	@rm -rf build/sbom-environment

release: $(GROUP)dev ## Build, try and sign what is published, into dist/ (SIGN=KEY signs, DRY=1 needs no tag)
	@BIN=$(BIN) SIGN=$(SIGN) DRY=$(DRY) .ci/release

audit: $(GROUP)dev ## Ask the OSV database for known vulnerabilities of all dependencies; needs the network
	@$(BIN)/uv audit --locked

up: ## Start Temporal, Postgres, the Web UI and a worker in containers
	@docker compose up --detach --build

down: ## Stop the containers; volumes keep their data
	@docker compose down

clean: ## Remove virtual environments and caches; keep the sessions in .chargehand
	@rm -rf .venv .venv-* .pytest_cache .ruff_cache .hypothesis .import_linter_cache
	@find . -name __pycache__ -type d -prune -exec rm -rf {} +

$(SYNCED): uv.lock pyproject.toml client/pyproject.toml cli/pyproject.toml deploy/worker/pyproject.toml plugins/pyproject.toml
	@sh bootstrap.sh

$(GROUP)%: $(SYNCED)
	@sh bootstrap.sh --group $*
	@touch $@

$(EXTRA)%: $(SYNCED)
	@sh bootstrap.sh --extra $*
	@touch $@
