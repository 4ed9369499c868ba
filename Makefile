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

##@ Start here

help: ## List the targets
	@awk 'BEGIN {FS = ":.*## "} /^##@/ {printf "\n%s\n", substr($$0, 5)} \
	  /^[a-z][a-z-]*:.*## / {printf "  %-15s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

setup: ## Make .venv with the pinned tools and collections (a second run does nothing)
	@$(PYTHON_ANY) scripts/bootstrap.py

demo: setup ## Bring up a lab and two hosts, take them to verified GPUs with site.yml and show the fleet
	@$(LAB) cluster up
	@KUBECONFIG=$$($(LAB) cluster kubeconfig) scripts/demo.sh

# The lab's tools are built in the background during the checks. Four test files run at a time (tests/conftest.py chooses
# them), each process with its own lab and hosts. Most of them wait for something most of the time.
test: setup ## Run every check and every test, and print the coverage of the plugins
	@trap 'kill $$(jobs -p) 2> /dev/null || true' EXIT; \
	  $(MAKE) --no-print-directory lab-tools & \
	  $(MAKE) --no-print-directory check host-tools; wait $$!
	@$(MAKE) --no-print-directory test-oldest
	$(BIN)/pytest --cov --durations=25 --numprocesses=4 --dist=loadfile --no-loadscope-reorder \
	  tests/integration tests/roles tests/lab tests/unit

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

host-vm: setup host-tools ## Run the molecule scenario on a virtual machine (about 10 minutes)
	$(BIN)/molecule test --scenario-name host-vm

host-containers: setup host-tools ## Run the molecule scenario on container hosts
	$(BIN)/molecule test --scenario-name host-containers

##@ Checks, cheap ones first

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

docs-lint: setup ## Check the documentation of plugins and roles, and the role READMEs
	scripts/docs_lint.sh
	$(BIN)/python scripts/role_readmes.py --check

ansible-lint: setup ## Check the style of Ansible content, with the profile production
	$(BIN)/ansible-lint --offline

docs: setup ## Build the documentation; warnings are errors
	scripts/docs.sh

sanity: setup ## Run ansible-test sanity, without any ignore entry
	scripts/sanity.sh

import-check: setup ## Build the collection and check it as Galaxy does
	scripts/import_check.sh

##@ Tests

unit: setup ## Run the tests that need no cluster, and print the coverage of the plugins
	$(BIN)/pytest tests/unit --cov

# A short way through the lab: every kind of connection, and site.yml to a ready stack and back.
test-oldest: export GPUOPS_DEPENDENCIES := oldest
test-oldest: export GPUOPS_ANSIBLE_CORE :=
test-oldest: export PYTHON :=
test-oldest: ## Run the unit tests and a short way through the lab with the oldest supported version of everything
	@$(MAKE) --no-print-directory setup lab-tools short-way

# Tests of the sources' own order have nothing to do with dependencies.
short-way:
	$(BIN)/pytest -q --numprocesses=2 --dist=loadfile --ignore=tests/unit/test_walls.py --ignore=tests/unit/test_docs.py \
	  tests/unit tests/integration/test_connection.py \
	  tests/integration/test_site.py::test_create tests/integration/test_site.py::test_remove

integration: setup lab-tools ## Run the tests on the lab
	$(BIN)/pytest tests/lab tests/integration

# What make test leaves out: virtual machines, several releases of Debian with its real packages, a build of the driver's
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
	codespell vulture mypy yamllint reuse changelog-lint docs-lint ansible-lint docs sanity import-check unit test-oldest \
	short-way integration test-deep molecule mutation bench release release-check sbom sign publish lock format clean
