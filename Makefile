# All tasks of this repository. `make help` lists them.
#
#   make run PYTHON=python3.12     with another Python than python3; 3.11 or newer

PYTHON ?= python3
BIN := .venv/bin
PROVIDER := tests/browser/provider
REDOCLY := tests/redocly
CONFORMANCE := tests/mcp/conformance
FOREIGN := tests/bench/provider
FOREIGN_FILES := tests/integrations/foreign
ACTIVITYWATCH := tests/bridge/.venv
PYTHON_CLIENT := tests/clients/python/.venv
TYPESCRIPT_CLIENT := tests/clients/typescript
RUPTURES := tests/ruptures/.venv
POSTGRES17 := tests/postgres17/.venv
NODE_MODULES := $(addsuffix /node_modules,$(PROVIDER) $(REDOCLY) $(CONFORMANCE) $(TYPESCRIPT_CLIENT) $(FOREIGN))
PIP := $(BIN)/python -m pip --disable-pip-version-check
# The tests of one file run in one process, so that their shared fixtures are created once. Tests start hundreds of
# programs; keeping their bytecode, whatever the environment says, avoids compiling them each time.
PYTEST := PYTHONDONTWRITEBYTECODE= $(BIN)/pytest -n auto --dist loadfile --no-loadscope-reorder

# The stamp .venv/.run holds the directory of the environment. An environment that was moved, or whose Python is gone,
# is created again.
USABLE := $(shell test "$$(cat .venv/.run 2>/dev/null)" = "$(CURDIR)" && $(BIN)/python -c 'print("yes")' 2>/dev/null)
ifneq ($(USABLE),yes)
REMAKE := remake
endif

PROFILE ?= proof
# The bounded proof installs no foreign programs, which takes minutes, and runs no test of more than 20 s.
INSTALLED := gpsbabel promtool $(NODE_MODULES) $(PYTHON_CLIENT)/.run $(RUPTURES)/.run $(POSTGRES17)/.run \
  $(FOREIGN_FILES)/.run
MARKS ?= $(if $(filter bounded,$(PROFILE)),(hypothesis or proof) and not (long or foreign or provider),hypothesis or provider or foreign or proof or long)

.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
.PHONY: help run test test-reach test-fast test-oldest test-pooler test-replica check bench screenshots proof openapi settings lock chromium pgbouncer proxies systemd gpsbabel promtool remake

help: ## List all targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-12s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

run: .venv/.run ## Start everything on this machine, until Ctrl-C
	@export SVC_BUILD_COMMIT="$${SVC_BUILD_COMMIT:-$$(git rev-parse --short HEAD 2>/dev/null)}"; \
	  exec $(BIN)/svc up

test: .venv/.dev chromium proxies pgbouncer systemd $(ACTIVITYWATCH)/.run ## Run all tests
	@$(PYTEST)

test-reach: .venv/.dev chromium proxies pgbouncer systemd $(ACTIVITYWATCH)/.run ## Run the tests that the changes since BASE (HEAD) can reach
	@$(PYTEST) $$($(BIN)/python -m tests.reach $(BASE))

BASE ?= HEAD

test-fast: .venv/.dev pgbouncer $(ACTIVITYWATCH)/.run ## Run all tests except those with a browser or broken connections
	@$(PYTEST) --ignore tests/browser --ignore tests/faults

check: .venv/.dev ## Check format, lint and types
	@$(BIN)/ruff format --check .
	@$(BIN)/ruff check .
	@$(BIN)/mypy

bench: .venv/.dev $(if $(shell command -v npm),$(FOREIGN)/node_modules) ## Measure speed beside bare probes and raw sessions, one person beside another, imports beside their parser, a decade of one life, receivers beside ingest, pulls and days of the worker, every view, or an older version (OLD=commit)
ifdef OLD
	@$(BIN)/python -m tests.bench.versions $(OLD)
else
	@$(BIN)/python -m tests.bench
	@$(BIN)/python -m tests.bench.imports
	@$(BIN)/python -m tests.bench.decade --records=1000000
	@$(BIN)/python -m tests.bench.years
	@$(BIN)/python -m tests.bench.neighbours
	@$(BIN)/python -m tests.bench.receivers
	@$(BIN)/python -m tests.bench.pulls
	@$(BIN)/python -m tests.bench.summaries
	@$(BIN)/python -m tests.bench.views
	@$(BIN)/python -m tests.bench.people
	@$(BIN)/python -m tests.bench.capacity > docs/CAPACITY.md
endif

screenshots: .venv/.dev chromium ## Take pictures of every page into screenshots/
	@$(BIN)/python -m tests.browser.screenshots screenshots

proof: .venv/.dev chromium pgbouncer $(if $(filter bounded,$(PROFILE)),,$(INSTALLED)) ## Run properties with thousands of examples, long tests, and tests with foreign programs (PROFILE=bounded: 40 examples alone, in two minutes)
	@$(PYTEST) -m "$(MARKS)" --hypothesis-profile=$(PROFILE)


openapi: .venv/.dev ## Write docs/openapi.json again, the copy of the OpenAPI description
	@$(BIN)/python -m tests.endpoints.snapshot

settings: .venv/.dev ## Write deploy/svc.env.example again, the sample of all settings
	@$(BIN)/svc settings > deploy/svc.env.example

test-oldest: .venv/.dev ## Run the tests of SQL, endpoints, OAuth, pages, commands and tools on PostgreSQL 15
	@tests/oldest.sh $(ONLY)

POOLED := tests/sql tests/oauth tests/endpoints tests/ingest tests/worker

test-pooler: .venv/.dev pgbouncer ## Run the tests of SQL, OAuth, endpoints, ingest and the worker through PgBouncer
	@SVC_TEST_POOLER=1 $(PYTEST) $(POOLED)

test-replica: .venv/.dev ## Run the tests of endpoints and assistants with a streaming replica for long reads
	@SVC_TEST_REPLICA=1 $(PYTEST) tests/endpoints tests/mcp

ONLY ?= tests/sql tests/endpoints tests/ingest tests/timeline tests/oauth tests/people tests/pages tests/cli \
        tests/mcp/test_tools.py tests/mcp/test_arguments.py tests/mcp/test_answers.py

lock: .venv/.dev ## Pin the newest versions of all dependencies with their hashes
	@$(BIN)/uv pip compile $(UV_COMPILE) --upgrade pyproject.toml -o requirements.lock
	@$(BIN)/uv pip compile $(UV_COMPILE) --upgrade --extra dev pyproject.toml -c requirements.lock -o requirements-dev.lock
	@$(BIN)/uv pip compile $(UV_COMPILE) --upgrade tests/bridge/requirements.in -o tests/bridge/requirements.lock
	@$(BIN)/uv pip compile $(UV_COMPILE) --upgrade tests/clients/python/requirements.in \
	  -o tests/clients/python/requirements.lock
	@$(BIN)/uv pip compile $(UV_COMPILE) --upgrade tests/ruptures/requirements.in -o tests/ruptures/requirements.lock
	@$(BIN)/uv pip compile $(UV_COMPILE) --upgrade tests/postgres17/requirements.in -o tests/postgres17/requirements.lock

UV_COMPILE := --quiet --universal --python-version 3.11 --generate-hashes --no-header --no-annotate \
  --no-emit-find-links --no-emit-index-url

# Installing takes a while, so 'make run' prints first where the data will be.
.venv/.run: requirements.lock pyproject.toml $(REMAKE)
	$(if $(filter run,$(MAKECMDGOALS)),@$(SAY_DATA_DIR))
	@command -v $(PYTHON) >/dev/null || \
	  { echo "svc needs Python 3.11 or newer, and $(PYTHON) is not here: make run PYTHON=..." >&2; exit 1; }
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
	  { echo "svc needs Python 3.11 or newer, and $(PYTHON) is older: make run PYTHON=..." >&2; exit 1; }
	@$(PYTHON) -c 'import ensurepip, venv' 2>/dev/null || \
	  { echo "$(PYTHON) cannot create virtual environments; on Debian: apt install python3-venv" >&2; exit 1; }
	@echo "Creating the virtual environment .venv"
	@$(PYTHON) -m venv $(if $(REMAKE),--clear) .venv
	@echo "Installing dependencies"
	@$(PIP) install --require-hashes -r requirements.lock
	@$(PIP) install --quiet --no-build-isolation --no-deps -e .
	@# The user of a service may not write here, and without bytecode each of its processes would compile everything.
	@$(BIN)/python -m compileall -q authserver deploy resourceserver shared
	@echo "$(CURDIR)" > $@

SAY_DATA_DIR = case "$$SVC_DATA_DIR" in \
  /*) dir=$$SVC_DATA_DIR ;; \
  ?*) dir=$$PWD/$$SVC_DATA_DIR ;; \
  *) if [ "$$(id -u)" = 0 ]; then dir=/var/lib/svc; else dir=$$PWD/.data; fi ;; \
  esac; echo "Data directory: $$dir"

.venv/.dev: .venv/.run requirements-dev.lock
	@echo "Installing the dependencies of tests and checks"
	@# What is not imported needs no bytecode, and the rest is kept at its first import.
	@$(PIP) install --quiet --no-compile --require-hashes -r requirements-dev.lock
	@touch $@

# Foreign programs of Python, pinned with hashes, in environments of their own, since their dependencies may conflict
# with ours: ActivityWatch's server, a generator of clients with what its clients need, a library for change points,
# and PostgreSQL 17.
$(ACTIVITYWATCH)/.run: tests/bridge/requirements.lock
$(PYTHON_CLIENT)/.run: tests/clients/python/requirements.lock
$(RUPTURES)/.run: tests/ruptures/requirements.lock
$(POSTGRES17)/.run: tests/postgres17/requirements.lock
$(ACTIVITYWATCH)/.run $(PYTHON_CLIENT)/.run $(RUPTURES)/.run $(POSTGRES17)/.run: %/.run: .venv/.run
	@echo "Installing $*, for tests only"
	@$(BIN)/python -m venv --clear --without-pip $*
	@$(PIP) --python $* install --quiet --require-hashes -r $(filter %.lock,$^)
	@touch $@

# Files that others made, which the source packages of libraries contain; pinned like our dependencies, and not built.
$(FOREIGN_FILES)/.run: requirements.lock $(FOREIGN_FILES).lock .venv/.dev
	@mkdir -p $(@D)
	@sed -n '/^gpxpy==/,/[^\\]$$/p' $< > $(@D)/requirements.lock
	@$(PIP) download --quiet --require-hashes --no-deps --no-build-isolation --no-binary :all: \
	  --dest $(@D) -r $(@D)/requirements.lock -r $(FOREIGN_FILES).lock
	@touch $@

# Foreign programs, pinned with their hashes: a sign-in provider, a validator, a conformance suite, a generator of
# clients, and a provider that the bench measures beside ours.
$(NODE_MODULES): %/node_modules: %/package-lock.json
	@command -v npm >/dev/null || \
	  if [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null; then \
	    apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends nodejs npm; \
	  else \
	    echo "The proof needs Node.js: sudo apt-get install nodejs npm" >&2; exit 1; \
	  fi
	@npm ci --prefix $* --ignore-scripts --no-audit --no-fund --loglevel=error
	@touch $@

# Playwright drives the Chromium of the system's packages: the headless shell, which has no windows and takes half the
# time, or the whole browser on systems without that package.
INSTALL_PACKAGE := DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends
chromium:
	@command -v chromium-headless-shell >/dev/null || \
	  if [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null; then \
	    { apt-get update -qq && $(INSTALL_PACKAGE) chromium-headless-shell; } || \
	    command -v chromium >/dev/null || command -v chromium-browser >/dev/null || \
	    $(INSTALL_PACKAGE) chromium; \
	  elif ! command -v chromium >/dev/null && ! command -v chromium-browser >/dev/null; then \
	    echo "The tests need Chromium: sudo apt-get install chromium-headless-shell" >&2; exit 1; \
	  fi

# PgBouncer, a connection pooler, for tests; runlevel 1 keeps its package from starting a service.
pgbouncer:
	@PATH="$$PATH:/usr/sbin" command -v pgbouncer >/dev/null || \
	  if [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null; then \
	    apt-get update -qq && RUNLEVEL=1 $(INSTALL_PACKAGE) pgbouncer; \
	  else \
	    echo "The tests need PgBouncer: sudo apt-get install pgbouncer" >&2; exit 1; \
	  fi

# GPSBabel, which writes tracks in the formats of watches.
gpsbabel:
	@command -v gpsbabel >/dev/null || \
	  if [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null; then \
	    apt-get update -qq && $(INSTALL_PACKAGE) gpsbabel; \
	  else \
	    echo "The proof needs GPSBabel: sudo apt-get install gpsbabel" >&2; exit 1; \
	  fi

# promtool, which tries the alerts of deploy/monitoring; runlevel 1 keeps its package from starting Prometheus.
promtool:
	@command -v promtool >/dev/null || \
	  if [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null; then \
	    apt-get update -qq && RUNLEVEL=1 $(INSTALL_PACKAGE) prometheus; \
	  else \
	    echo "The proof needs promtool: sudo apt-get install prometheus" >&2; exit 1; \
	  fi

# Reverse proxies, which tests run with the configurations of deploy/proxy. Runlevel 1 keeps their packages from
# starting services.
proxies:
	@PATH="$$PATH:/usr/sbin"; { command -v nginx && command -v caddy; } >/dev/null || \
	  if [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null; then \
	    apt-get update -qq && RUNLEVEL=1 $(INSTALL_PACKAGE) nginx caddy; \
	  else \
	    echo "The tests need nginx and Caddy: sudo apt-get install nginx caddy" >&2; exit 1; \
	  fi

# Checks the units of deploy/systemd. Where it does not exist, as on macOS, these tests are skipped.
systemd:
	@command -v systemd-analyze >/dev/null || \
	  if [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null; then \
	    apt-get update -qq && $(INSTALL_PACKAGE) systemd; \
	  fi
