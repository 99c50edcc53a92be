# Everything a person types. `make up` and `make test` are the two that matter.
PYTHON ?= python3
VENV := .venv
RUN := $(VENV)/bin/python
UV := $(VENV)/bin/uv

.PHONY: up test check format lock schema install install-dev bench

up: install
	@exec $(RUN) manage.py up $(ARGS)

test: install-dev
	@$(RUN) -m tests.run $(ARGS)

check: install-dev
	$(VENV)/bin/ruff format --check .
	$(VENV)/bin/ruff check .
	$(VENV)/bin/lint-imports --no-cache
	$(VENV)/bin/mypy
	$(RUN) manage.py makemigrations --check --dry-run
	$(RUN) manage.py spectacular --validate --fail-on-warn | diff -u schema.yml -

format: install-dev
	$(VENV)/bin/ruff check --fix .
	$(VENV)/bin/ruff format .

schema: install-dev
	$(RUN) manage.py spectacular --validate --fail-on-warn --file schema.yml

bench: install-dev
	@$(RUN) -m benchmarks.decisions

install:
	@$(PYTHON) requirements/install.py base

install-dev:
	@$(PYTHON) requirements/install.py dev

COMPILE := $(UV) pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-emit-index-url --custom-compile-command 'make lock'
lock: install
	$(COMPILE) $(UPGRADE) requirements/bootstrap.in -o requirements/bootstrap.txt
	$(COMPILE) $(UPGRADE) pyproject.toml -o requirements/base.txt
	$(COMPILE) $(UPGRADE) pyproject.toml --group dev -c requirements/base.txt -o requirements/dev.txt
