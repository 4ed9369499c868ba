# SPDX-License-Identifier: GPL-3.0-or-later
# SPDX-FileCopyrightText: 2026 gpuops.nvidia contributors

SHELL := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c
.DEFAULT_GOAL := help
PYTHON_ANY := $(shell command -v python3 || command -v python)
# The oldest dependencies have an environment of their own, so that nobody's .venv changes (scripts/bootstrap.py).
VENV := $(if $(filter oldest,$(GPUOPS_DEPENDENCIES)),.venv-oldest,.venv)
BIN := $(VENV)/bin
LAB := $(BIN)/python -m lab
export ANSIBLE_COLLECTIONS_PATH := $(CURDIR)/$(VENV)/share
export PYTEST_ADDOPTS := -o "pythonpath=$(VENV)/share ."
export ANSIBLE_HOME := $(CURDIR)/build/ansible
export PATH := $(CURDIR)/$(BIN):$(PATH)
# Where this is set, as in many container images, each process would compile all of the plugins, tests and labs again.
unexport PYTHONDONTWRITEBYTECODE

##@ Start here

help: ## List the targets
	@awk 'BEGIN {FS = ":.*## "} /^##@/ {printf "\n%s\n", substr($$0, 5)} \
	  /^[a-z][a-z-]*:.*## / {printf "  %-15s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

setup: ## Make .venv with the pinned tools and collections (a second run does nothing)
	@$(PYTHON_ANY) scripts/bootstrap.py

demo: setup ## Bring up a lab and two hosts, take them to verified GPUs with site.yml and show the fleet
	@$(LAB) cluster up
	@KUBECONFIG=$$($(LAB) cluster kubeconfig) scripts/demo.sh

test: setup ## Run every check and the everyday tests, and print the coverage of the plugins and the time of each stage
	@scripts/stages.sh check-and-tools unit-and-oldest lab-and-hosts

quick: setup ## Run the quick checks, and the unit tests of the rooms that differ from main (BASE=HEAD~3: from a commit)
	@$(MAKE) --no-print-directory -j2 --output-sync ruff codespell mypy
	$(BIN)/pytest -q --numprocesses=2 --dist=loadfile $$($(BIN)/python scripts/quick.py $(or $(BASE),main))

##@ The lab

lab-up: setup ## Start the lab (LAB_ARGS="--nodes 8", --fleet mixed, ...)
	@$(LAB) cluster up $(LAB_ARGS)

lab-status: setup ## Show what runs
	@$(LAB) cluster status

lab-down: setup ## Take down the lab and the hosts of the demo
	@$(LAB) cluster down
	@$(LAB) hosts down --name demo

lab-tools: setup ## Build the control plane, kwok and helm into the cache
	@$(LAB) cluster tools

##@ Test hosts

host-tools: setup ## Install what the test hosts and the tests of pages need, as root, or say what is missing
	@$(LAB) hosts tools
	@$(LAB) vm tools
	@$(LAB) browser tools
	@$(LAB) images tools

host-vm: setup host-tools ## Run the molecule scenario on a virtual machine (about 10 minutes)
	$(BIN)/molecule test --scenario-name host-vm

host-containers: setup host-tools ## Run the molecule scenario on container hosts
	$(BIN)/molecule test --scenario-name host-containers

##@ Checks, cheap ones first

# The checks and the builds of the lab's tools have nothing to do with each other.
check-and-tools:
	@$(MAKE) --no-print-directory -j2 --output-sync check lab-tools host-tools

QUICK_CHECKS := ruff codespell vulture mypy yamllint reuse changelog-lint
check: $(QUICK_CHECKS) docs-lint ansible-lint docs sanity import-check ## Run all checks

ruff: setup ## Check the style and the format of Python
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

codespell: setup ## Find misspellings in all files
	$(BIN)/codespell

vulture: setup ## Find dead code in the plugins and scripts
	$(BIN)/vulture

mypy: setup ## Check the types of the plugins, strictly
	$(BIN)/mypy -p ansible_collections.gpuops.nvidia.plugins

yamllint: setup ## Check the style of YAML
	$(BIN)/yamllint --strict .

reuse: setup ## Check that every file has a licence and a copyright line
	$(BIN)/reuse lint --quiet

changelog-lint: setup ## Check the changelog fragments
	$(BIN)/antsibull-changelog lint

prose: setup ## Count the sentences that say what does not happen, and fail above 2 % of the documentation for users
	$(BIN)/python scripts/prose.py

docs-lint: setup ## Check the documentation of plugins and roles, and the role READMEs
	scripts/docs_lint.sh
	$(BIN)/python scripts/role_readmes.py --check

ansible-lint: setup ## Check the style of Ansible content, with the profile production
	$(BIN)/ansible-lint --offline

docs: setup ## Build the documentation; warnings are errors
	scripts/docs.sh

# ruff, mypy, yamllint and antsibull-changelog look for what these four look for, each in an environment of its own that
# takes longer to make than the check. pylint takes as long as all other checks together.
LOOKED_FOR := pylint pep8 yamllint changelog
sanity: setup ## Run ansible-test sanity but what other checks look for, without any ignore entry
	scripts/sanity.sh $(LOOKED_FOR:%=--skip-test %)

sanity-all: setup ## Run all of ansible-test sanity, as each night
	scripts/sanity.sh

import-check: setup ## Build the collection and check it as Galaxy does
	scripts/import_check.sh

##@ Tests

# Two processes, each of which collects its own half of the tests: workers of pytest-xdist collect all of them, and their
# controller keeps a third process busy. The code that computes, in module_utils, has as many tests as all the rest.
TIMES := $(if $(STRICT_TIMES),--strict-times)
UNIT := $(BIN)/pytest -q $(TIMES) --cov --cov-report= --inline-snapshot=disable
ROOMS := tests/unit/plugins/module_utils
unit: setup ## Run the tests that need no cluster, and print the coverage of the plugins
	@mkdir --parents build/coverage
	@$(MAKE) --no-print-directory -j2 --output-sync --keep-going unit-rooms unit-rest
	@$(BIN)/coverage combine --quiet build/coverage/data.rooms build/coverage/data.rest
	$(BIN)/coverage report

unit-rooms unit-rest: export COVERAGE_FILE = build/coverage/data.$(@:unit-%=%)
unit-rooms:
	$(UNIT) $(ROOMS)

unit-rest:
	$(UNIT) tests/unit --ignore=$(ROOMS) $(UNIT_LESS)

# inline-snapshot counts each test whose snapshot it rewrites as an error.
wording: setup ## Write new wording of messages into the snapshots of the unit tests; then read the diff
	-$(BIN)/pytest -q tests/unit --inline-snapshot=create,fix

# Four files run at a time (tests/conftest.py chooses them), each process with its own lab and hosts. Most of them wait
# for something most of the time. A small control plane takes a fifth less of a processor if Go collects garbage less
# often and uses one thread.
LAB_TESTS := GOGC=400 GOMAXPROCS=1 $(BIN)/pytest $(TIMES) --durations=25 --numprocesses=4 --dist=loadfile --no-loadscope-reorder
lab-and-hosts: setup lab-tools host-tools ## Run the everyday tests on labs and container hosts
	$(LAB_TESTS) --cov --cov-append tests/integration tests/roles tests/lab

# Installing the oldest dependencies and the one lab of their tests leave processors idle, which the unit tests use.
unit-and-oldest:
	@$(MAKE) --no-print-directory -j2 --output-sync --keep-going unit test-oldest

# The oldest supported version of every dependency, of Python and of Helm.
OLDEST := GPUOPS_DEPENDENCIES=oldest GPUOPS_ANSIBLE_CORE= PYTHON= $(MAKE) --no-print-directory
test-oldest: ## Run a short way through the lab with the oldest dependencies: connections, site.yml to a ready stack and back
	@$(OLDEST) setup lab-tools short-way

unit-oldest: ## Run the unit tests with the oldest dependencies
	@$(OLDEST) unit UNIT_LESS="--ignore=tests/unit/test_walls.py --ignore=tests/unit/test_docs.py"

short-way:
	$(BIN)/pytest -q --numprocesses=2 --dist=loadfile \
	  tests/unit/plugins/modules/test_clusterpolicy.py tests/unit/plugins/module_utils/_cluster/connection \
	  tests/integration/test_connection.py \
	  tests/integration/test_site.py::test_create tests/integration/test_site.py::test_remove

integration: setup lab-tools ## Run the tests on the lab
	$(BIN)/pytest tests/lab tests/integration

# Every case of what the everyday suite shows once: permissions, AWX, the report's page, operator lines, kills. A file is
# run as a whole, because its tests share a lab.
test-wide: export GPUOPS_WIDE := 1
test-wide: setup lab-tools host-tools ## Run the wide tier: each file that has more cases than the everyday suite shows
	$(LAB_TESTS) $$(grep --recursive --files-with-matches --include='test_*.py' 'mark\.wide' tests)

# What make test leaves out, too: virtual machines, several releases of Debian with its real packages, a build of the driver's
# modules, the molecule scenarios on hosts, kills in the middle of changes that take minutes. Downloads are kept in
# ~/.cache/gpuops-hosts/downloads.
test-deep: export GPUOPS_DEEP := 1
test-deep: setup lab-tools host-tools ## Run the deep tier: virtual machines, real packages, module builds (about an hour)
	$(BIN)/pytest -m deep --durations=0 --numprocesses=3 --dist=loadfile --no-loadscope-reorder \
	  tests/integration tests/deep tests/roles tests/lab
	$(BIN)/molecule test --scenario-name host-vm

molecule: setup lab-tools ## Run the molecule scenario on the lab
	$(BIN)/molecule test

mutation: setup ## Measure how many changes of the logic the unit tests notice (MUTATION="FILE..." for some files, SAMPLE=40)
	@test -x build/mutation/venv/bin/pip || $(BIN)/python -m venv build/mutation/venv
	@build/mutation/venv/bin/pip --quiet install --no-deps --require-hashes --requirement requirements/mutation.txt
	@build/mutation/venv/bin/python scripts/mutation.py $(if $(SAMPLE),--sample $(SAMPLE)) $(MUTATION)

bench: setup lab-tools ## Run the benchmarks; each prints one JSON line
	$(BIN)/python -m benchmarks

##@ Releases (RELEASING.md)

release: setup ## Prepare a release in the working tree (VERSION=1.2.3)
	@$(BIN)/python scripts/release.py prepare "$(VERSION)"

release-check: setup ## Check that the tree is the release of this version (VERSION=1.2.3)
	@$(BIN)/python scripts/release.py check "$(VERSION)"

sbom: setup ## Write the bill of materials of build/archive beside it, in CycloneDX's format
	@$(BIN)/python scripts/sbom.py build/archive/*.tar.gz

# Only the workflow Release has an identity: GitHub's, which names the workflow and the tag.
sign: ## Sign build/archive and its bill of materials with sigstore
	$(PYTHON_ANY) -m venv build/sign
	build/sign/bin/python -m pip install --quiet --no-deps --require-hashes --requirement requirements/release.txt
	build/sign/bin/python -m sigstore sign build/archive/*.tar.gz build/archive/*.cdx.json

publish: setup ## Publish build/archive to Galaxy, with the token in GALAXY_TOKEN
	@$(BIN)/ansible-galaxy collection publish --token "$$GALAXY_TOKEN" build/archive/*.tar.gz

# Only the workflow Documentation runs it.
docs-publish: ## Publish build/docs/html as a version of the site (VERSION=main, or VERSION=1.2.3)
	@$(PYTHON_ANY) scripts/publish_docs.py "$(VERSION)"

##@ Housekeeping

lock: ## Resolve requirements/*.in into requirements/*.txt, with hashes
	$(PYTHON_ANY) -m venv build/uv && build/uv/bin/pip --quiet install uv
	for name in dev importer mutation oldest go release; do \
	  build/uv/bin/uv pip compile --quiet --universal --python-version 3.11 --no-header --generate-hashes --upgrade \
	    requirements/$$name.in -o requirements/$$name.txt; \
	done

format: setup ## Format Python
	$(BIN)/ruff check --fix . && $(BIN)/ruff format .

clean: ## Remove everything that the targets made, except the lab's tools in the user's cache
	rm -rf .venv .venv-oldest build docs/_build

.PHONY: help setup demo test lab-up lab-status lab-down lab-tools host-tools host-vm host-containers check ruff \
	codespell vulture mypy yamllint reuse changelog-lint docs-lint ansible-lint docs prose sanity import-check sanity-all unit wording test-oldest \
	quick check-and-tools lab-and-hosts unit-rooms unit-rest unit-and-oldest unit-oldest short-way integration test-wide test-deep molecule mutation bench release release-check sbom sign publish docs-publish lock format clean
