# Each target sets up what it needs in .venv, and is fast when nothing changed. `make help` lists them.
PYTHON ?= python3
BIN := .venv/bin
STAMP := .venv/.complete
SOURCES := components pipelines tests benchmarks official.py page_links.py release.py
# What the images are built from; a digest (python@sha256:...) pins it. REGISTRY is put before the launcher image's name.
BASE ?= python:3.11-slim-bookworm
BASE_DIGEST = $(if $(findstring @,$(BASE)),$(lastword $(subst @, ,$(BASE))))
REGISTRY ?= $(TFSTEPS_REGISTRY)
OFFICIAL ?= build/official
# Without bytecode on disk each of the processes that tests start compiles all that it imports: kfp in 2 s, not in 0.5.
unexport PYTHONDONTWRITEBYTECODE

# What `make python-versions` tests with: an interpreter, or a version that uv finds or downloads.
PYTHONS ?= $(or $(wildcard $(HOME)/.pyenv/versions/3.1[23].*/bin/python),3.12 3.13)
# The suites that the versions of the platform touch.
COMPAT := conformance job_crds gang preflight argo kfp_pods pipelines schedule

# Tests of all modules or pages at once: a change anywhere may fail them.
STRUCTURE := test_page_width.py test_words.py test_module_rules.py test_layers.py test_names_in_docs.py test_sizes.py test_imported_names.py test_system_names.py test_paths_in_pages.py test_unit_folders.py test_engine_words.py

# What `make check` tests; CI empties it, because its suites have these tests, too.
CHECKED ?= tests/golden tests/faults/test_mutations.py $(addprefix tests/unit/repository/,$(STRUCTURE))

.PHONY: help setup demo test test-unit test-for check docs format golden bench lock official release faults mutants soak unknown image cluster cluster-down compat python-versions browser clean
.DEFAULT_GOAL := help

help: ## this list
	@sed -n 's/^\([a-z-]*\):.*## \(.*\)/make \1\t\2/p' $(MAKEFILE_LIST) | expand -t 22

setup: $(STAMP) ## the virtual environment .venv, from requirements.lock

$(STAMP): requirements.lock pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
	  { echo 'tfsteps needs Python 3.11, 3.12 or 3.13: make PYTHON=python3.12 $(MAKECMDGOALS)'; exit 1; }
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info >= (3, 14))' || \
	  { echo 'TensorFlow has no wheel for Python 3.14, and local runs need it: make PYTHON=python3.13 $(MAKECMDGOALS)'; exit 1; }
	@echo 'Setting up .venv: about 130 packages, TensorFlow among them; a minute or two the first time.'
	@test -x $(BIN)/python || $(PYTHON) -m venv .venv
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check "uv==$$(sed -n 's/^uv==\([^ ]*\).*/\1/p' requirements.lock)"
	@VIRTUAL_ENV=.venv $(BIN)/uv pip install --no-deps --require-hashes -r requirements.lock
	@VIRTUAL_ENV=.venv $(BIN)/uv pip install --quiet --no-deps --no-build-isolation -e .
	@touch $@

demo: $(STAMP) ## the main job: a pipeline that trains a distributed model on this machine (ARGS=--tensorboard keeps TensorBoard up)
	@$(BIN)/python pipelines/mnist.py $(ARGS)
	@printf '%s\n' '' 'Next:' '  $(BIN)/tfsteps show latest           # its steps, jobs and replicas' \
	  '  $(BIN)/tfsteps report latest --open  # timeline, curves and logs in a browser' \
	  '  $(BIN)/tfsteps rerun latest -p examples=2000' \
	  '  $(BIN)/tfsteps init mine             # a job of your own: a program and a job file' \
	  '  $(BIN)/tfsteps run mine/job.yaml'

test: $(STAMP) browser ## all tests, side by side; ARGS: pytest alone, with these; CLUSTER=1: also those on a cluster, KUBECONFIG's or our own
ifdef CLUSTER
	@test -n "$$KUBECONFIG" || $(PYTHON) -m tests.cluster up
	@FAULTS=covering KUBECONFIG=$${KUBECONFIG:-$$($(PYTHON) -m tests.cluster kubeconfig)} $(BIN)/python -m tests.side_by_side --cluster $(ARGS)
else
	$(if $(ARGS),$(BIN)/pytest -m 'not cluster' $(ARGS),@$(BIN)/python -m tests.side_by_side)
endif

test-unit: $(STAMP) ## the fast tests, without a cluster: unit, wire, golden
	$(BIN)/pytest -q -n 4 --dist worksteal -m 'not cluster' tests/unit tests/wire tests/golden tests/faults $(ARGS)

test-for: $(STAMP) ## the tests that cover a module, without a cluster: make test-for FILE=components/tfsteps/masking.py
	@$(BIN)/python -m tests.covering $(FILE) $(ARGS)

check: $(STAMP) ## format, lint, types, layers, duplicates, documentation, golden and generated files
	$(BIN)/ruff format --check $(SOURCES)
	$(BIN)/ruff check $(SOURCES)
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/pylint --disable=all --enable=duplicate-code --score=n components/tfsteps
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict # with --quiet no warning would count
	$(if $(CHECKED),$(BIN)/pytest -q -n auto $(CHECKED))

docs: $(STAMP) ## serve the documentation on http://127.0.0.1:8000, and follow changes
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs serve --dev-addr 127.0.0.1:8000

format: $(STAMP) ## format the code
	$(BIN)/ruff format $(SOURCES)
	$(BIN)/ruff check --fix $(SOURCES)

golden: $(STAMP) ## update golden and generated files
	$(BIN)/pytest -q tests/golden --update-golden

bench: $(STAMP) ## measure; writes benchmarks/results.json
	$(BIN)/python -m benchmarks

faults: $(STAMP) ## the whole fault matrix, of which CI runs a part (a cluster; ten minutes); writes docs/operate/faults.md
	@test -n "$$KUBECONFIG" || $(PYTHON) -m tests.cluster up
	@KUBECONFIG=$${KUBECONFIG:-$$($(PYTHON) -m tests.cluster kubeconfig)} FAULTS=all $(BIN)/pytest -q tests/faults $(ARGS)

unknown: $(STAMP) ## each request of each scenario with each fault, of which CI runs a part (no cluster; an hour); writes docs/operate/faults-by-request.md
	@$(BIN)/python -m tests.unknown $(ARGS)

mutants: $(STAMP) ## run the rows of the fault matrix against launchers broken for them (a cluster; half an hour)
	$(BIN)/python -m tests.faults.mutants

soak: $(STAMP) ## 200 jobs under faults, and a judge of what they leave behind (a cluster; half an hour); writes docs/operate/soak.md
	@test -n "$$KUBECONFIG" || $(PYTHON) -m tests.cluster up
	@KUBECONFIG=$${KUBECONFIG:-$$($(PYTHON) -m tests.cluster kubeconfig)} $(BIN)/python -m tests.soak $(ARGS)

lock: $(STAMP) ## update requirements.lock from pyproject.toml, for Python 3.11 to 3.13
	$(BIN)/uv pip compile --quiet --universal --python-version 3.11 --no-header --no-annotate --generate-hashes \
	  --all-extras --group dev --override requirements.overrides --upgrade pyproject.toml -o requirements.lock
	@for version in 3.11 3.12 3.13; do $(BIN)/uv pip install --quiet --dry-run --python-version $$version --target build/lock \
	  --no-deps --require-hashes -r requirements.lock && echo "Python $$version can install it" || exit 1; done
	@$(MAKE) golden # what the launcher's image installs of it

official: $(STAMP) ## the components as kubeflow/pipelines-components takes them, into OFFICIAL: make official OWNERS=ada,grace OFFICIAL=../pipelines-components
	@$(BIN)/python official.py $(OFFICIAL) --owners '$(OWNERS)' --base '$(BASE)'

release: $(STAMP) ## what a release publishes, into dist/: wheel, sdist, the images' contexts and SBOMs, notes, checksums; twice the same
	@$(BIN)/python -c 'import sys; sys.exit(sys.version_info[:2] != (3, 11))' || \
	  { echo 'SBOMs list the packages for Python 3.11, that of the base image: make clean; make release PYTHON=python3.11'; exit 1; }
	@$(BIN)/python release.py $(ARGS)

image: $(STAMP) ## the images, by docker or podman: [REGISTRY/]tfsteps/launcher and tensorboard:<version>, with their digests; BASE is what they are built from
	@for tool in docker podman; do $$tool info >/dev/null 2>&1 && exit; done; \
	  echo 'error: neither docker nor podman can build here: run `docker info` or `podman info` to see why' >&2; exit 1
	@$(if $(BASE_DIGEST),,echo 'warning: BASE is $(BASE), a tag, which may name another image tomorrow: set BASE=$(BASE)@sha256:...' >&2)
	@rm -rf build/image; $(BIN)/python -m build --wheel --no-isolation --outdir build/image >/dev/null
	@cp images/launcher/requirements.txt build/image
	@cp images/tensorboard/requirements.txt build/image/requirements-tensorboard.txt
	@set -- $$(TFSTEPS_REGISTRY=$(REGISTRY) $(BIN)/python -c 'import tfsteps.image as i; print(i.__version__, i.IMAGE, i.TENSORBOARD_IMAGE)'); \
	  tool=$$(docker info >/dev/null 2>&1 && echo docker || echo podman); build="$$tool build --build-arg BASE=$(BASE) --build-arg VERSION=$$1$(if $(BASE_DIGEST), --label org.opencontainers.image.base.digest=$(BASE_DIGEST))"; \
	  $$build --build-arg REGISTRY=$(REGISTRY) --tag $$2 --file images/launcher/Dockerfile build/image && \
	  $$build --tag $$3 --file images/tensorboard/Dockerfile build/image && for image in $(BASE) $$2 $$3; do \
	  echo "$$image $$($$tool image inspect --format '{{.Id}}' $$image 2>/dev/null || echo 'is not stored here')"; done

cluster: ## start a real Kubernetes with all job operators on this machine (root); built once, a quarter to half an hour; PLATFORM=previous: older versions
	@$(PYTHON) -m tests.cluster up $(if $(PLATFORM),--platform $(PLATFORM))

cluster-down: ## stop it and remove every trace
	@$(PYTHON) -m tests.cluster down

compat: $(STAMP) ## on the previous platform, the suites that its versions touch (root; 20 minutes, and the build the first time)
	@$(PYTHON) -m tests.cluster up --platform previous
	@status=0; FAULTS=covering KUBECONFIG=$$($(PYTHON) -m tests.cluster kubeconfig) \
	  $(BIN)/python -m tests.side_by_side --cluster $(addprefix --suite ,$(COMPAT)) $(ARGS) || status=$$?; \
	  $(PYTHON) -m tests.cluster status | sed -n 1p; exit $$status

python-versions: $(STAMP) ## the unit and golden tests on the other versions of Python: PYTHONS
	@for python in $(PYTHONS); do folder=build/python/$$(echo $$python | tr / _); \
	  $(BIN)/uv venv --quiet --clear --python $$python $$folder && export VIRTUAL_ENV=$$folder && \
	  $(BIN)/uv pip install --quiet --no-deps --require-hashes -r requirements.lock && \
	  $(BIN)/uv pip install --quiet --no-deps --no-build-isolation -e . && \
	  $$folder/bin/python --version && $$folder/bin/python -m pytest -q -n auto tests/unit tests/golden || exit 1; done

browser: # headless Chromium for the report's tests: installed where that is possible, else those tests say that they are skipped
	@{ command -v chromium && command -v chromedriver; } >/dev/null 2>&1 || test "$$(id -u)" != 0 || ! command -v apt-get >/dev/null || \
	  { echo 'Installing Chromium for the browser tests.'; apt-get update -qq && apt-get install -y -qq chromium chromium-driver >/dev/null; }

clean: ## remove .venv and what was built
	rm -rf .venv build dist
