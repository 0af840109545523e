# `make run` needs Go. `make test` brings what it needs: the packages of the system that are missing
# (as root, on Debian and its kin), a Python environment in .venv, and tools in .tools.

SHELL       := /bin/bash
PYTHON      ?= python3
FUZZTIME    ?= 10s
TESTTIMEOUT ?= 5m
# No suite is answered from a cache.
GOTESTFLAGS := -count=1 -timeout $(TESTTIMEOUT)

VENV         := .venv
VENV_DATA    := .venv-testdata
# A linter reads no newer Go than it was built with.
TOOLS        := $(CURDIR)/.tools/$(shell go env GOVERSION)
GOLANGCILINT := $(TOOLS)/golangci-lint
# The counts of a run go to DLX_COUNTS, where run-suites.sh adds them up.
GOTESTSUM    := $(TOOLS)/gotestsum --format pkgname --format-hide-empty-pkg --post-run-command scripts/count-tests.sh

# Where tests find the real NumPy and the real dlpack.h.
export DLX_PYTHON         := $(CURDIR)/$(VENV)/bin/python
export DLX_DLPACK_INCLUDE := $(CURDIR)/$(VENV)/dlpack-include

SUITES := test-format test-mod test-vet test-lint test-directions test-testdata \
	test-go test-nocgo test-race test-asan test-cross test-bench test-fuzz

.DEFAULT_GOAL := help
.PHONY: help run test bench lint fuzz setup system-packages testdata testdata-fetch clean $(SUITES)

help: ## Show this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-16s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

run: ## Carry a real tensor from one device to another, and verify it
	go run ./cmd/dlx handoff testdata/digits.npy --via cpu,cpu --verify
	go run ./cmd/dlx handoff testdata/digits.npy --via cpu,cpu --copy always --repeat 100 --verify

test: ## Set up all that is needed, then run every suite below
	@scripts/run-suites.sh $(SUITES)

bench: setup ## Measure, and print the table with the ratios
	go run -buildvcs=true ./cmd/dlx bench --out benchmarks/results/cpu.json

lint: test-lint test-directions ## Run the linters

fuzz: test-fuzz ## Fuzz every target, for FUZZTIME each (10s)

$(SUITES): setup

test-format: ## gofmt has nothing to change
	@unformatted=$$(find . -path './.*' -prune -o -name '*.go' -exec gofmt -l {} +) && \
		{ [ -z "$$unformatted" ] || { printf 'not formatted by gofmt:\n%s\n' "$$unformatted"; exit 1; }; }

test-mod: ## go.mod and go.sum are what the imports ask for
	go mod tidy -diff
	go mod verify

test-vet: ## go vet
	go vet ./...

test-lint: ## golangci-lint, with cgo and without, here and for the other systems
	$(GOLANGCILINT) run ./...
	CGO_ENABLED=0 $(GOLANGCILINT) run ./...
	GOOS=darwin GOARCH=arm64 CGO_ENABLED=0 $(GOLANGCILINT) run ./...
	GOOS=windows GOARCH=amd64 CGO_ENABLED=0 $(GOLANGCILINT) run ./...

test-directions: ## The linter refuses every forbidden import
	scripts/test-directions.sh $(GOLANGCILINT)

test-testdata: ## testdata is what its generator makes
	$(DLX_PYTHON) scripts/make_testdata.py --check

test-go: ## All tests
	$(GOTESTSUM) -- $(GOTESTFLAGS) ./...

test-nocgo: ## All tests, without cgo
	CGO_ENABLED=0 $(GOTESTSUM) -- $(GOTESTFLAGS) ./...

test-race: ## All tests, under the race detector
	CGO_ENABLED=1 $(GOTESTSUM) -- $(GOTESTFLAGS) -race ./...

# A request no machine can meet fails as it does without the sanitizer, which would end the program.
test-asan: export ASAN_OPTIONS := allocator_may_return_null=1:$(ASAN_OPTIONS)
test-asan: ## All tests, under the address sanitizer, where Go and the C compiler have it
	@if scripts/probe-asan.sh; then CGO_ENABLED=1 $(GOTESTSUM) -- $(GOTESTFLAGS) -asan ./...; fi

test-cross: ## Everything builds, and passes vet with its tests, on the other systems
	scripts/test-cross.sh darwin/arm64 windows/amd64 linux/arm64

test-bench: ## Every benchmark of go test runs once
	go test $(GOTESTFLAGS) -run '^$$' -bench . -benchtime 1x ./...

test-fuzz: ## Every fuzz target, for FUZZTIME each
	scripts/test-fuzz.sh $(FUZZTIME)

setup: system-packages $(VENV)/ready $(TOOLS)/ready ## Bring what the suites need

system-packages:
	@PYTHON=$(PYTHON) scripts/system-packages.sh

$(VENV)/ready: requirements.txt
	$(PYTHON) -m venv $(VENV)
	$(VENV)/bin/python -m pip install --quiet --requirement $<
	ln -sfn "$$($(VENV)/bin/python -c 'from tvm_ffi import libinfo; print(libinfo.find_dlpack_include_path())')" $(VENV)/dlpack-include
	touch $@

$(TOOLS)/ready: tools/go.mod tools/go.sum
	GOBIN=$(TOOLS) go -C tools install tool
	touch $@

testdata: $(VENV)/ready ## Derive testdata again
	$(DLX_PYTHON) scripts/make_testdata.py

testdata-fetch: requirements-testdata.txt ## Take the digits from scikit-learn again, and derive the rest
	$(PYTHON) -m venv $(VENV_DATA)
	$(VENV_DATA)/bin/python -m pip install --quiet --requirement $<
	$(VENV_DATA)/bin/python scripts/make_testdata.py --fetch

clean: ## Remove all that make brought or built
	rm -rf $(VENV) $(VENV_DATA) .tools .test
