# The short list of words for this project. `make help` prints it; continuous integration uses the same words.

PYTHON ?= python3
TEST_PROCESSES ?= 2
ARGS ?=

# Taken literally, and handed over in the environment: a question may hold quotes, dollars and all else.
override GOAL := $(value GOAL)
override DOCS := $(value DOCS)
override MODEL := $(value MODEL)
export GOAL DOCS MODEL CONTEXT PYTHON

SHELL := /bin/sh
.DEFAULT_GOAL := help
BIN := .venv/bin
SYNCED := .venv/.synced
LOCAL_MODEL := .venv/.local-model
BROWSER_DRIVER := .venv/.browser

# A virtual environment names its own folder in many files, so one that was copied or moved has to be made anew.
ifneq ($(shell cat $(SYNCED) 2>/dev/null),$(shell pwd -P))
$(SYNCED): made-anew
endif

.PHONY: help run test check bench replay chaos nightly up down clean made-anew

help: ## Print this list
	@awk -F ':.*## ' '/^[a-z]+:.*## / { printf "  make %-8s %s\n", $$1, $$2 }' Makefile
	@echo
	@echo '  make run GOAL="What does the contract say about notice?" DOCS=path/to/folder'
	@echo '  make run MODEL=local         with a small language model on this machine'
	@echo '  make test MODEL=local        the tests that need that model'
	@echo '  make test BROWSER=1          the tests that need Chromium (on Debian: apt install chromium)'
	@echo '  make run MODEL=model.gguf    with a larger one; CONTEXT=16384 gives it more room'

run: $(if $(MODEL),$(LOCAL_MODEL),$(SYNCED)) ## Answer GOAL over the folder DOCS; alone, a question over the example documents
	@if [ -z "$$GOAL" ] && [ -z "$$DOCS" ]; then \
		GOAL=$$(cat examples/question.txt); DOCS=examples/harbour-ferries; \
	elif [ -z "$$GOAL" ]; then \
		echo 'Say what you want to know about these documents: make run GOAL="…" DOCS=…' >&2; exit 2; \
	fi; \
	case "$$DOCS" in "~/"*) DOCS="$$HOME/$${DOCS#??}" ;; esac; \
	set -- run $(ARGS) -- "$$GOAL"; \
	if [ -n "$$DOCS" ]; then shift; set -- run --docs "$$DOCS" "$$@"; fi; \
	if [ -n "$$MODEL" ]; then \
		case "$$MODEL" in "~/"*) MODEL="$$HOME/$${MODEL#??}" ;; esac; \
		exec $(BIN)/python -m activities.models.local_model --context "$${CONTEXT:-8192}" "$$MODEL" \
			-- $(BIN)/chargehand "$$@"; \
	else \
		exec $(BIN)/chargehand "$$@"; \
	fi

test: $(if $(MODEL),$(LOCAL_MODEL),$(if $(BROWSER),$(BROWSER_DRIVER),$(SYNCED))) ## Run all tests (ARGS="tests/unit -k ledger" to choose, TEST_PROCESSES=0 for one process)
	@$(BIN)/python -m pytest -q $(if $(MODEL),-m local_llm,-n $(TEST_PROCESSES) --dist worksteal $(if $(BROWSER),-m browser --dist loadfile tests/browser)) $(ARGS)

check: $(SYNCED) ## Check format, lint, types and the direction of imports
	@$(BIN)/ruff format --check .
	@$(BIN)/ruff check .
	@$(BIN)/basedpyright
	@$(BIN)/lint-imports

bench: $(SYNCED) ## Measure speed, size and growth; prints ratios
	@$(BIN)/python -m benchmarks $(ARGS)

replay: $(SYNCED) ## Replay the recorded histories against the present workflows
	@$(BIN)/python -m pytest -q tests/replay $(ARGS)

chaos: $(SYNCED) ## Kill, stop, cut off and starve what runs, a quarter of an hour long; writes docs/durability.md
	@$(BIN)/python -m chaos --write docs/durability.md $(ARGS)

nightly: $(SYNCED) ## Try the properties of ledger and sessions on twenty times as many examples, new ones each time
	@$(BIN)/python -m pytest -q -n $(TEST_PROCESSES) --timeout 0 --hypothesis-profile nightly \
		tests/simulation tests/unit/workflows/test_ledger.py $(ARGS)

up: ## Start Temporal, Postgres, the Web UI and a worker in containers
	@docker compose up --detach --build

down: ## Stop the containers; data stays in their volumes
	@docker compose down

clean: ## Remove the virtual environment and all caches; sessions in .chargehand stay
	@rm -rf .venv .pytest_cache .ruff_cache .hypothesis .import_linter_cache
	@find . -name __pycache__ -type d -prune -exec rm -rf {} +

$(SYNCED): uv.lock pyproject.toml client/pyproject.toml cli/pyproject.toml
	@sh bootstrap.sh

$(LOCAL_MODEL): $(SYNCED)
	@sh bootstrap.sh local-llm
	@touch $@

$(BROWSER_DRIVER): $(SYNCED)
	@sh bootstrap.sh browser
	@touch $@
