# Everything one needs from a terminal. `make help` lists it.
ifeq ($(origin PYTHON), undefined)
# asked once, and only where an environment is made
PYTHON = $(eval PYTHON := $$(shell console/run/which-python))$(PYTHON)
endif
BIN := .venv/bin
export DJANGO_SETTINGS_MODULE := console.site.settings
# what pytest made of the tests is kept: each worker would make it again
export PYTHONDONTWRITEBYTECODE :=
SCAN := .venv/scan/bin
# others' files, and texts that stand for secrets in tests' data and in the Java and Go programs
SEARCHED := . ':!static/vendor' ':!requirements' ':!docs/screens' ':!console/locale' ':!tests/data' ':!tests/interop' ':!.ci'
# twice the cores: quick tests wait for each other's threads and sockets more than they compute
TWICE = $(shell $(BIN)/python -c 'import os; print(2 * (os.cpu_count() or 1))')

.PHONY: help run cluster dist dashboards test test-slow check scan sbom audit bench interop interop-core soak screens reference format pins database-url redis-url needs interop-needs bench-needs

help:  ## list the targets
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /: /' | awk -F': ' '{printf "  make %-14s %s\n", $$1, $$2}'

run: .venv/.runtime  ## install, start everything and the demonstration; Ctrl-C stops it, again resumes
	@$(BIN)/python manage.py run

cluster: .venv/.runtime  ## the same with two brokers and two name services, in a directory of its own
	@ESCAPEMENT_VAR=$${ESCAPEMENT_VAR:-var/cluster} ESCAPEMENT_BROKERS=broker-a,broker-b ESCAPEMENT_NAMESRV_PORTS=9876,9877 \
	  ESCAPEMENT_NAMESRV_PORT=9976 $(BIN)/python manage.py run

dashboards: .venv/.spark  ## install what the dashboards need: DuckDB, PySpark, and Java for large logs where there is none
	@java -version >/dev/null 2>&1 || console/run/debian-packages openjdk-17-jre-headless

test: .venv/.dev .venv/.spark needs  ## the quick tests, most of all: two minutes or three
	$(BIN)/python -m pytest -n $(TWICE) --dist loadfile --no-loadscope-reorder -m "not slow and not interop and not soak" --ignore tests/house

test-slow: .venv/.dev .venv/.spark needs  ## the slow ones: browsers, Spark, workers, kills, power loss
	$(BIN)/python -m pytest -n auto --dist loadfile --no-loadscope-reorder -m "slow and not interop and not soak"

check: .venv/.dev .venv/.spark  ## format, lint, types, direction of imports, house rules
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/djangofmt --check templates
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/python -m pytest tests/house

# what goes to the other stream are its remarks on exceptions in lines that hold several expressions; the search ends
# with 3 where something explained moved to another line, which it notes in its list: each run has a copy for that
scan: .venv/.scan  ## bandit and a search for secrets: nothing but what is explained in its line
	$(SCAN)/bandit -q -r broker console spark manage.py hatch_build.py --severity-level medium 2>/dev/null
	git ls-files -z -- $(SEARCHED) | xargs -0 -P 2 -n 1200 sh -c 'cp .ci/secrets.json .venv/explained.$$$$ && \
	  $(SCAN)/detect-secrets-hook --baseline .venv/explained.$$$$ "$$@" || [ $$? -eq 3 ]' secrets
	@rm -f .venv/explained.*

sbom: .venv/.scan  ## what a console runs on, as CycloneDX JSON in dist/, from what is pinned
	@mkdir -p dist
	$(SCAN)/cyclonedx-py requirements requirements/runtime.txt --pyproject pyproject.toml --mc-type application \
	  --output-reproducible --of JSON -o dist/escapement.cdx.json

audit: .venv/.scan  ## known faults of what is pinned; asks pypi.org, so it is no part of the gate
	$(SCAN)/pip-audit --require-hashes --disable-pip -r requirements/runtime.txt

interop: .venv/.dev interop-needs  ## official Java and Go clients, and Apache RocketMQ on either side
	$(BIN)/python -m pytest -n 2 --dist loadfile --no-loadscope-reorder -m "interop and not soak" tests/interop

interop-core: export ESCAPEMENT_FAST := 1
interop-core: .venv/.dev interop-needs  ## of these what the gate runs: each client and each direction once, what is compiled included
	$(BIN)/python -m pytest -n 2 --dist loadfile --no-loadscope-reorder -m "core and not soak" tests/interop

dist: .venv/.dev needs  ## build wheel and source distribution into dist/, try them in empty environments
	rm -rf dist
	$(BIN)/uv build --quiet --out-dir dist
	$(BIN)/uv build --quiet --out-dir dist broker/fast
	DIST=dist $(BIN)/python -m pytest tests/package
	@ls -l dist

bench: .venv/.dev bench-needs  ## side by side with Apache RocketMQ, printed as ratios
	$(BIN)/python -m bench

reference: .venv/.dev  ## the reference of the API, from its docstrings, into build/reference
	$(BIN)/python -W error docs/reference.py build/reference

soak: .venv/.dev .venv/.scan  ## the long form of the crash and property tests
	$(BIN)/python -m pytest -m soak

screens: .venv/.dev needs  ## take the pictures of docs/screens again
	$(BIN)/python -m pytest -q tests/browser/screens.py

format: .venv/.dev  ## generate the synchronous clients, put code and templates into their form
	$(BIN)/python -P broker/client/_make_faces.py
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .
	$(BIN)/djangofmt templates
	for file in static/css/*.css; do $(BIN)/css-beautify -s 2 -n --space-around-combinator -r $$file; done

pins: .venv/.dev  ## compile requirements/*.in to pinned versions with hashes
	cd requirements && for name in runtime dev spark scan; do \
	  ../$(BIN)/uv pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-annotate \
	    --custom-compile-command "make pins" $$([ $$name = runtime ] || echo --constraint runtime.txt) \
	    $$name.in --output-file $$name.txt || exit 1; done

database-url: .venv/.runtime  ## print the address of the embedded PostgreSQL
	@$(BIN)/python manage.py run --print database-url

redis-url: .venv/.runtime  ## print the address of the embedded Valkey
	@$(BIN)/python manage.py run --print redis-url

needs:
	@console/run/debian-packages chromium-headless-shell fonts-noto-cjk gcc gettext libc6-dev nginx-light openjdk-17-jdk-headless prometheus \
	  redis-tools strace

bench-needs: interop-needs
	@console/run/debian-packages wrk

interop-needs:
	@console/run/debian-packages golang-go openjdk-17-jdk-headless maven redis-tools

$(BIN)/python:
	@$(PYTHON) -c 'import sys; sys.exit(0 if sys.version_info >= (3, 11) else "Python 3.11 or newer is needed: make PYTHON=python3.12 ...")'
	@$(PYTHON) -c 'import ensurepip' 2>/dev/null || console/run/debian-packages python3-venv
	@$(PYTHON) -m venv .venv

.venv/.runtime: requirements/runtime.txt | $(BIN)/python
	@echo "installing what is pinned in $<"
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --require-hashes -r $<
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation --editable .
	@touch $@

.venv/.spark: requirements/spark.txt .venv/.runtime
	@echo "installing what is pinned in $<"
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --require-hashes --use-pep517 -r $<
	@touch $@

.venv/.dev: requirements/dev.txt $(wildcard broker/fast/*.[ch]) broker/fast/pyproject.toml .venv/.runtime
	@echo "installing what is pinned in $<, and building broker/fast"
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --require-hashes -r $<
	@command -v gcc >/dev/null || console/run/debian-packages gcc libc6-dev
	@test -e "$$($(BIN)/python -c 'import sysconfig; print(sysconfig.get_path("include"))')/Python.h" || console/run/debian-packages python3-dev
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation ./broker/fast
	@touch $@

.venv/.scan: requirements/scan.txt | $(BIN)/python
	@echo "installing what is pinned in $<"
	@$(BIN)/python -m venv .venv/scan
	@.venv/scan/bin/python -m pip install --quiet --disable-pip-version-check --require-hashes -r $<
	@touch $@
