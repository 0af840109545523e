# `make run` needs Go. `make test` installs what it needs: missing system packages (as root, on Debian and
# derived systems), a Python environment in .venv, and tools in .tools.
#
# Variables: TAGS, the backends to build in addition to the CPU's (TAGS= is none); DRIVERS, a command that
# chooses the drivers (DRIVERS= uses those of the system, which find its GPUs).

SHELL       := /bin/bash
PYTHON      ?= python3
FUZZTIME    ?= 5s
TESTTIMEOUT ?= 25m
TAGS        ?= $(shell scripts/tags.sh)
DRIVERS     ?= scripts/software-drivers.sh
# test-lint and test-cross run vet. Tests of devices mostly wait, so more packages than processors are tested at once.
GOTESTHOW   := -vet=off -p $(shell echo $$(( $$(getconf _NPROCESSORS_ONLN) * 2 )))
# No suite uses cached results.
GOTESTFLAGS := -count=1 -timeout $(TESTTIMEOUT) $(GOTESTHOW)

VENV         := .venv
VENV_DATA    := .venv-testdata
VENV_MODULES := .venv-modules
VENV_DOCKER  := .venv-docker
VENV_TRITON  := .venv-triton
# A linter cannot read newer Go than it was built with.
TOOLS        := $(CURDIR)/.tools/$(shell go env GOVERSION)
GOLANGCILINT := $(TOOLS)/golangci-lint
# Cached results of another checkout name files that are not in this one.
export GOLANGCI_LINT_CACHE := $(CURDIR)/.cache/golangci-lint
# Each run appends its counts to the file DLX_COUNTS, and run-suites.sh adds them up.
GOTESTSUM    := $(TOOLS)/gotestsum --format pkgname --format-hide-empty-pkg --post-run-command $(CURDIR)/scripts/count-tests.sh

# Where tests find the real NumPy, the real dlpack.h, and the compiler and the assembler of CUDA's kernels.
export DLX_PYTHON         := $(CURDIR)/$(VENV)/bin/python
export DLX_DLPACK_INCLUDE := $(CURDIR)/$(VENV)/dlpack-include
export DLX_CUDA_TOOLS     := $(CURDIR)/$(VENV)/cuda-tools
# And the libraries that the modules below interop open.
export DLX_ONNXRUNTIME_LIBRARY := $(CURDIR)/$(VENV_MODULES)/libonnxruntime.so
export DLX_PJRT_PLUGIN         := $(CURDIR)/$(VENV_MODULES)/pjrt_c_api_cpu_plugin.so
# And the Python that has Triton's server and client.
export DLX_TRITON_PYTHON       := $(CURDIR)/$(VENV_TRITON)/bin/python

# Where the C compiler finds cuda.h: first ours, which includes the real one, and that after the folders that the
# caller names, and before /usr/local/cuda, which cu adds. Go compiles everything again for every other order of
# CGO_CFLAGS: README and scripts have the same one.
OUR_CUDA_H   := -I$(CURDIR)/backends/cuda/include
REAL_CUDA_H  := -I$(CURDIR)/$(VENV)/cuda-include
CGO_CFLAGS   ?= -g -O2
export CGO_CFLAGS := $(OUR_CUDA_H) $(filter-out $(OUR_CUDA_H) $(REAL_CUDA_H),$(CGO_CFLAGS)) $(REAL_CUDA_H)

export TAGS
ifeq ($(TAGS),)
export DLX_WITHOUT_DRIVERS := 1
endif

# The simulated drivers of CUDA and HIP, on Linux.
SIMULATOR := $(if $(filter 1,$(DLX_WITHOUT_DRIVERS)),,$(if $(filter Linux,$(shell uname -s)),gpusim))
SIMULATED_HIP := $(and $(SIMULATOR),$(findstring rocm,$(TAGS)))
CARD      := $(and $(SIMULATOR),$(findstring cuda,$(TAGS)))
# Other versions of cuda.h, for the backend for CUDA, which is for Linux.
HEADERS   := $(and $(filter Linux,$(shell uname -s)),$(findstring cuda,$(TAGS)))
# A second driver for Vulkan, on Linux.
VULKAN    := $(and $(SIMULATOR),$(findstring vulkan,$(TAGS)))
# CUDA's backend also has assembly for arm64, as core has. An emulator runs it, with the simulated driver.
EMULATED  := $(and $(CARD),$(filter x86_64,$(shell uname -m)))

GPUSIM       := .cache/gpusim/libcuda.so.1
GPUSIM_HIP   := .cache/gpusim/libamdhip64.so
GPUSIM_ARM64 := .cache/gpusim/arm64/libcuda.so.1
CC_ARM64     := aarch64-linux-gnu-gcc
REAL_DRIVERS := .cache/cuda-drivers
METAL_HEADERS := .cache/metal-headers
SWIFTSHADER := .cache/swiftshader
NEWER := .cache/drivers
UCX := .cache/ucx
AXE         := .cache/axe
EMULATOR     := qemu-aarch64 -L /usr/aarch64-linux-gnu

KEEP := $(CURDIR)/.cache/keep-libraries.so
# The modules below interop; see the script.
MODULES_ENVIRONMENT := GOLANGCILINT="$(GOLANGCILINT)" GOTESTSUM="$(GOTESTSUM)" GOTESTFLAGS="$(GOTESTFLAGS)" \
	DRIVERS="$(DRIVERS)" TAGS="$(TAGS)" KEEP="$(KEEP)"
MODULES_TEST := $(MODULES_ENVIRONMENT) scripts/test-modules.sh
export DLX_MODULES_PYTHON := $(CURDIR)/$(VENV_MODULES)/bin/python

# The C shared library is for Linux.
LIBDLX       := .cache/libdlx
# Without OpenGL, whose bindings take 100 s of processor time to compile once more for a shared library. test-libdlx has it.
LIBDLX_TAGS   = $(shell echo "$(TAGS)" | tr , '\n' | grep -vx gl | paste -sd ,)

LINUX         := $(filter Linux,$(shell uname -s))
# Each module below interop is a suite.
MODULE_SUITES := $(patsubst interop/%/go.mod,test-module-%,$(wildcard interop/*/go.mod))
# What every change must pass, and what make test adds: one build of everything, short.
BASIC_SUITES := test-format test-mod test-api test-table test-testdata $(if $(TAGS),test-start)
QUICK_SUITES := quick-lint quick-go quick-nocgo quick-race quick-mutants quick-modules \
	$(if $(LINUX),quick-libdlx quick-python) $(if $(VULKAN),quick-newer-drivers)
# What only make test-all runs. scripts/deep-suites.txt says which paths need them.
DEEP         := test-lint test-directions test-go test-nocgo $(MODULE_SUITES) test-soak test-mutants \
	test-card test-headers test-drivers test-swiftshader test-newer-drivers test-remote test-kills test-metal test-race test-asan test-cross test-arm64 \
	test-report test-libdlx test-python test-interop test-dpnp test-docker test-bench test-fuzz
# What this system, or a build with these tags, does not have.
NOT_HERE     := $(if $(CARD),,test-card) $(if $(HEADERS),,test-headers test-drivers) $(if $(VULKAN),,test-swiftshader test-newer-drivers) \
	$(if $(EMULATED),,test-arm64) $(if $(SIMULATOR),,test-report) $(if $(LINUX),,test-libdlx test-python test-interop test-dpnp) \
	$(if $(and $(LINUX),$(findstring ucx,$(TAGS))),,test-remote test-kills)
export NOT_HERE
export DEEP_SUITES := $(filter-out $(NOT_HERE),$(DEEP))
SUITES := $(BASIC_SUITES) $(QUICK_SUITES) $(DEEP) test-modules

.DEFAULT_GOAL := help
.PHONY: help run test test-all test-changed test-ci check test-backend bench bench-loaders bench-triton lint fuzz soak setup gpusim libdlx interop-opencv gpu-kit mac-kit system-packages testdata testdata-fetch interop bench-interop bench-peers bench-share bench-planted docker-real newer-drivers bench-scale clean $(SUITES)

help: ## Show this list
	@awk -F ':.*## ' '/^[a-z0-9-]+:.*## / { printf "  make %-16s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

run: ## Move a tensor from one device to another, and verify it
	go run ./cmd/dlx move testdata/digits.npy --via cpu,cpu --verify
	go run ./cmd/dlx move testdata/digits.npy --via cpu,cpu --copy always --repeat 100 --verify

test: ## Set up everything that is needed, then test what users rely on: 18 minutes from nothing, then 8
	@scripts/run-suites.sh $(BASIC_SUITES) $(QUICK_SUITES)

test-all: ## Run every suite: an hour and more
	@scripts/run-suites.sh $(BASIC_SUITES) $(DEEP_SUITES)

# BASE is a commit; changes that are not committed count, too.
BASE ?= HEAD
test-changed: ## Run make test, then the deep suites that the changes since BASE need: make test-changed BASE=main
	@deep=$$(scripts/deep-suites.sh "$(BASE)") && scripts/run-suites.sh $(BASIC_SUITES) $(QUICK_SUITES) $$deep

test-ci: ## Run make test, then as many deep suites as fit into CI_MINUTES (45), those that the newest commits need first
	@deep=$$(scripts/deep-suites.sh --ci) && scripts/run-suites.sh $(BASIC_SUITES) $(QUICK_SUITES) --until $(CI_MINUTES) $$deep
CI_MINUTES ?= 45

# Go's test cache skips packages that a change cannot affect.
check: setup ## Run before a commit: format, lint of the changed packages, and the quick tests of what the change affects
	@$(MAKE) --no-print-directory test-format test-table
	$(QUICK) $(MODULES_ENVIRONMENT) GOTESTHOW="$(GOTESTHOW)" scripts/check.sh

test-backend: setup ## Test one backend, built alone: make test-backend B=vulkan
	@[ -d "backends/$(B)" ] && [ -n "$(B)" ] || { echo "B must name a folder in backends: make test-backend B=vulkan"; exit 2; }
	$(DRIVERS) go test -count=1 -tags "$(filter-out cpu,$(B))" ./backends/$(B)/...
	DLX_THOROUGH=1 $(DRIVERS) go test -count=1 -short -race -tags "$(filter-out cpu,$(B))" ./backends/$(B)/...

# Two runs, so that the figures of the host do not depend on the drivers. Both programs are built first: results
# name the state of the tree, which the first results change.
bench: setup ## Measure, and print the tables with the ratios: the host, then the other devices
	go build -buildvcs=true -o .cache/ ./cmd/dlx
	go build -buildvcs=true -tags "$(TAGS)" -o .cache/dlx-tags ./cmd/dlx
	.cache/dlx bench -t call/ -t dlpack/ -t core/ -t memory/ -t stream/ -t copy/ \
		--out benchmarks/results/cpu.json
	$(DRIVERS) .cache/dlx-tags bench -t '*_ce*' -t '*_sm*' -t device_local_copy -t strided -t many -t latency -t streams \
		-t alloc -t wait_lateness -t exchange -t handoff -t signal_to_wait -t file_to_device \
		--out benchmarks/results/$(if $(DRIVERS),software-drivers,system-drivers).json

# Other programs on the same machine, each installed where that is possible; PEER is a list of some, SHORT=1 only tries them.
bench-peers: export PYTHON := $(PYTHON)
bench-peers: export DRIVERS := $(DRIVERS)
bench-peers: setup ## Measure dlx beside other programs and libraries, and write benchmarks/lab/peers.md: PEER=clpeak for one
	scripts/peers.sh $(if $(PEER),-peer $(PEER)) $(if $(SHORT),-short)

bench-share: export PYTHON := $(PYTHON)
bench-share: setup ## Measure dlx.share beside what else passes memory to another process, and write benchmarks/lab/share.md
	scripts/peers.sh share

# Between machines there is no shared memory.
bench-scale: setup ## Measure what connections and offers of package remote cost, and write docs/scale.md
	UCX_TLS=tcp,self DLX_REMOTE_MODEL=measure go test -count=1 -tags "$(TAGS)" -run '^TestMeasureModel$$' ./remote

# Not one of the suites: OpenCV's packages are 150 MB, and gocv takes a minute of processor time to compile.
interop-opencv: export DLX_OPENCV := 1
interop-opencv: setup ## Test the adapter for OpenCV, interop/opencv
	cd interop/opencv && CGO_ENABLED=1 go vet ./... && \
		CGO_ENABLED=1 $(abspath $(TOOLS))/gotestsum --format pkgname -- $(GOTESTFLAGS) ./...

# Not one of the suites: it needs root and bootstraps Debian. IMAGES=all takes minutes more, most of them for OpenGL's
# bindings, without which DOCKER_TAGS=cuda,opencl,rocm,vulkan builds it.
IMAGES ?= cpu
docker-real: ## Build IMAGES of docker/Dockerfile without a registry, with buildah, and run them (as root)
	scripts/docker-real.sh $(IMAGES)

lint: test-lint test-directions ## Run the linters
	$(MODULES_TEST) lint

fuzz: test-fuzz ## Fuzz every target, for FUZZTIME each (5s)

# Random programs, see internal/testing/soak: the number of steps, the time of a second run that measures what the
# process holds, and the seed, which is the time by default.
SOAK_STEPS ?= 1000000
SOAK_TIME  ?= 15m
SOAK_SEED  ?= $(shell date +%s)
soak: setup ## Run SOAK_STEPS steps of random programs on all devices, then for SOAK_TIME with a table of what is held
	DLX_SOAK_STEPS=$(SOAK_STEPS) DLX_SOAK_SEED=$(SOAK_SEED) DLX_SOAK_TIME=$(SOAK_TIME) DLX_SOAK_MUTANTS=all $(DRIVERS) \
		go test -count=1 -timeout 0 -v -run 'TestPrograms|TestFlat|TestMutants' ./internal/testing/soak

$(SUITES): setup

# In GOFLAGS, so that programs that tests build have the tags too.
soak quick-go quick-mutants quick-newer-drivers test-go test-soak test-mutants test-card test-race test-asan test-bench test-swiftshader test-newer-drivers: private export GOFLAGS += -tags=$(TAGS)
# Nothing that is fuzzed needs OpenGL, whose bindings would be compiled once more for the fuzzer.
test-fuzz: private export GOFLAGS += -tags=$(LIBDLX_TAGS)
# The Khronos validation layer checks every use of Vulkan; see vulkan.New.
test-go test-swiftshader test-newer-drivers: export DLX_VULKAN_VALIDATION := 1
# Short tests of deep suites leave out less than those of make test: see coretest.Quick.
test-modules $(MODULE_SUITES) test-card test-headers test-swiftshader test-newer-drivers test-race test-asan: export DLX_THOROUGH := 1
# The simulated drivers run work that no call waits for after 1 ms instead of 5, and have 256 MiB of memory. Quick tests then
# sleep less; a missing wait is found a little less often.
QUICK := DLX_GPUSIM_LATEST=1000 DLX_GPUSIM_MEMORY=268435456

test-format: ## All files are formatted by gofmt
	@unformatted=$$(find . -path './.*' -prune -o -name '*.go' -exec gofmt -l {} +) && \
		{ [ -z "$$unformatted" ] || { printf 'not formatted by gofmt:\n%s\n' "$$unformatted"; exit 1; }; }

test-mod: ## go.mod and go.sum match the imports
	go mod tidy -diff
	go mod verify

test-api: ## The public API is compatible with that of the last tag, or CHANGELOG.md says that it is not
	scripts/test-api.sh $(TOOLS)/apidiff

# The folders with files for builds without cgo only. Those of other modules are linted with their module.
NESTED = $(dir $(wildcard interop/*/go.mod))
UNCGO  = $(filter-out $(addprefix ./,$(NESTED)),$(sort $(dir $(shell grep -rlE '^//go:build .*!.*cgo' --include='*.go' .))))

# go vet is one of the linters.
test-lint: ## golangci-lint, with the tags, without cgo, and for macOS; the simulator's C
	$(if $(SIMULATOR),CFLAGS=-Werror internal/testing/gpusim/build.sh .cache/gpusim/lint.so)
	$(if $(SIMULATED_HIP),CFLAGS=-Werror internal/testing/gpusim/build.sh .cache/gpusim/lint-hip.so)
	$(GOLANGCILINT) run --build-tags "$(TAGS)" ./...
	CGO_ENABLED=0 $(GOLANGCILINT) run $(UNCGO)
	GOOS=darwin GOARCH=arm64 CGO_ENABLED=0 $(GOLANGCILINT) run --build-tags metal ./backends/metal/...

test-directions: ## The linter refuses every forbidden import
	scripts/test-directions.sh $(GOLANGCILINT)

test-testdata: ## testdata equals the output of its generator
	$(DLX_PYTHON) scripts/make_testdata.py --check

test-table: ## scripts/deep-suites.txt names every deep suite, and nothing else
	scripts/deep-suites.sh --check $(DEEP)

quick-lint: ## golangci-lint, with the tags
	$(GOLANGCILINT) run --build-tags "$(TAGS)" ./...

# Drivers stay loaded: the loader of Vulkan unloads lavapipe with each instance, and loading it, with LLVM, was half of the
# processor time of Vulkan's tests. test-go unloads them.
quick-go: $(if $(LINUX),$(KEEP)) ## The quick tests of all packages, with the tags, on all drivers; random programs among them
	CGO_ENABLED=1 $(QUICK) $(DRIVERS) $(GOTESTSUM) -- $(GOTESTFLAGS) -short $(if $(LINUX),-exec "env LD_PRELOAD=$(KEEP)") ./...

# go list compiles every package and links nothing: go build links all 22 programs, which took 10 s of processor time for each
# system. The command has most packages; test-cross links the others. test-cross also has macOS, for which seven files are that
# Linux and Windows do not share.
COMPILE := go list -export ./... >/dev/null && go build -o /dev/null ./cmd/dlx

# Other packages are the same in both builds, or have fewer files.
quick-nocgo: ## Everything compiles without tags, with and without cgo, and for Windows; the quick tests of packages with files for builds without cgo
	export CGO_ENABLED=1 && $(COMPILE)
	export CGO_ENABLED=0 && $(COMPILE)
	export CGO_ENABLED=0 GOOS=windows && $(COMPILE)
	CGO_ENABLED=0 $(GOTESTSUM) -- $(GOTESTFLAGS) -short $(UNCGO)

# Packages whose concurrency is written by hand, over the fakes of their drivers. test-race has all. None has files for the
# tag ucx, which remote needs.
HAMMERED := ./core ./core/coretest ./core/dlpack ./stream ./exchange/... ./share ./internal/doctor ./backends/cpu \
	./backends/internal/blockpool ./backends/internal/reaper ./backends/internal/relay ./backends/internal/devicebase \
	./backends/internal/cudalike ./backends/internal/cmdqueue ./backends/metal/internal/engine
quick-race: ## The quick tests of what has goroutines, on fakes of drivers and over UCX, under the race detector
	CGO_ENABLED=1 $(GOTESTSUM) -- $(GOTESTFLAGS) -short -race $(if $(findstring ucx,$(TAGS)),-tags ucx ./remote) $(HAMMERED)

# One mutant for each of stream, core and exchange.
FEW_MUTANTS := a writer does not wait for readers,a failed write is forgotten,what is to be copied is shared where it is open
quick-mutants: ## The random programs find three of their mutants
	DLX_SOAK_MUTANTS="$(FEW_MUTANTS)" CGO_ENABLED=1 $(QUICK) $(DRIVERS) $(GOTESTSUM) -- $(GOTESTFLAGS) -run TestMutants ./internal/testing/soak

quick-modules: $(VENV_MODULES)/ready ## The quick tests of interop/gonum and interop/arrow
	CGO_ENABLED=1 MODULES="interop/gonum interop/arrow" $(MODULES_TEST) quick

# test-soak has all of internal/testing/soak.
test-go: ## All tests of the build with the tags, on all drivers
	CGO_ENABLED=1 $(DRIVERS) $(GOTESTSUM) -- $(GOTESTFLAGS) $$(go list ./... | grep -v /internal/testing/soak$$)

test-nocgo: ## All tests of the build without tags, without cgo; with cgo, it passes vet
	CGO_ENABLED=1 go vet ./...
	CGO_ENABLED=0 $(GOTESTSUM) -- $(GOTESTFLAGS) $(if $(findstring rocm,$(TAGS)),$$(go list ./... | grep -v /backends/internal/gpucopy$$),./...)

# MODULES=interop/gonum tests one of them.
test-modules: $(KEEP) $(VENV_MODULES)/ready ## The modules below interop: tidy, lint, tests, race detector, address sanitizer, other systems
	CGO_ENABLED=1 $(MODULES_TEST)

# Triton's server is for Linux.
test-modules test-module-triton: $(if $(LINUX),$(VENV_TRITON)/ready)

$(MODULE_SUITES): test-module-%: $(KEEP) $(VENV_MODULES)/ready
	CGO_ENABLED=1 MODULES=interop/$* $(MODULES_TEST)

test-soak: ## 50,000 steps of random programs on all devices
	DLX_SOAK_STEPS=50000 CGO_ENABLED=1 $(DRIVERS) $(GOTESTSUM) -- $(GOTESTFLAGS) -timeout 30m ./internal/testing/soak

test-mutants: ## The random programs and some tests find each of the mutants in internal/testing/soak
	DLX_SOAK_MUTANTS=all CGO_ENABLED=1 $(DRIVERS) $(GOTESTSUM) -- $(GOTESTFLAGS) -timeout 60m -run TestMutants ./internal/testing/soak

test-start: ## A program with every backend starts where there is no driver, and says so
	scripts/test-start.sh "$(TAGS)"

# The simulated driver of CUDA gives tensors on a device.
interop bench-interop test-interop: export DLX_TAGS := $(if $(CARD),cuda)
interop bench-interop test-interop: export PYTHON := $(PYTHON)
interop: setup ## Try all of Python's frameworks with dlx, and write docs/interop.md
	$(DRIVERS) scripts/interop.sh full

# LOADERS has flags, such as LOADERS="--to cpu,vulkan:0,opencl:0 --rounds 3".
bench-loaders: export DLX_TAGS := $(TAGS)
bench-loaders: export PYTHON := $(PYTHON)
bench-loaders: setup ## Measure dlx load beside reading alone and beside Python's loaders of safetensors files
	$(DRIVERS) scripts/bench-loaders.sh $(LOADERS)

# PLANTED has flags of dlx bench, such as PLANTED="--rounds 60".
bench-planted: setup ## Find out which losses of 10 % dlx bench --against finds on this machine
	$(DRIVERS) scripts/bench-planted.sh $(PLANTED)

# TRITON has flags, such as TRITON="-rounds 11 -bytes 1048576".
bench-triton: $(VENV_TRITON)/ready ## Measure requests to Triton's server beside its client for Python
	cd interop/triton && go run ./internal/bench -out $(CURDIR)/benchmarks/results/triton-$$(uname -s | tr '[:upper:]' '[:lower:]')-$$(uname -m)-$$(getconf _NPROCESSORS_ONLN)cpu.json $(TRITON)

bench-interop: setup ## Measure the exchange of tensors with Python's frameworks
	$(DRIVERS) scripts/interop.sh bench

test-interop: ## Python's frameworks that install quickly take tensors of dlx, and dlx takes theirs
	$(DRIVERS) scripts/interop.sh quick

# dpnp needs 2.9 GB of packages, so this is a suite of its own.
test-dpnp: export PYTHON := $(PYTHON)
test-dpnp: ## dpnp's arrays of SYCL and tensors of dlx on oneapi:0 are exchanged without a copy
	scripts/interop.sh dpnp

# What make gpu-kit packs must pass on a machine with one GPU and no driver of another API.
test-card: export DLX_CUDA_LIBRARY := $(CURDIR)/$(GPUSIM)
test-card: export DLX_GPUSIM_AS_CARD := 1
test-card: export DLX_GPUSIM_DEVICES := 1
test-card: export DLX_WITHOUT_DRIVERS := 1
test-card: ## CUDA's tests as they run on one GPU, without the simulator's controls
	VK_DRIVER_FILES=/nonexistent VK_ICD_FILENAMES=/nonexistent OCL_ICD_VENDORS=/nonexistent \
	__EGL_VENDOR_LIBRARY_FILENAMES=/nonexistent CGO_ENABLED=1 \
		$(GOTESTSUM) -- $(GOTESTFLAGS) -short ./backends/cuda ./interop/gl ./exchange

test-headers: $(VENV)/headers/ready ## CUDA's backend builds and works with the cuda.h of CUDA 12.0, 12.4, 12.9, 13.0 and 13.5
	scripts/test-headers.sh

# Not in setup: these packages are not free software, and nothing needs them but this suite.
test-drivers: ## NVIDIA's own libraries of several drivers load, where Debian's packages of them can be had
	scripts/fetch-drivers.sh $(REAL_DRIVERS)
	scripts/test-drivers.sh $(REAL_DRIVERS)

# Not in setup: nothing needs it but this suite. The driver stays loaded, because each time that it is loaded it takes keys
# of POSIX threads and never gives them back; without the 1,024th, it aborts.
test-swiftshader: export DLX_VULKAN_DRIVER := swiftshader
test-swiftshader: $(KEEP) ## The tests of Vulkan and WebGPU, and of exchange with them, on a second driver, SwiftShader, where its npm package can be had
	scripts/fetch-swiftshader.sh $(SWIFTSHADER)
	@if [ -f $(SWIFTSHADER)/why ]; then \
		echo "skipped: no SwiftShader: $$(cat $(SWIFTSHADER)/why)"; echo "0 0 1" >>"$${DLX_COUNTS:-/dev/null}"; \
	else \
		CGO_ENABLED=1 $(DRIVERS) $(GOTESTSUM) -- $(GOTESTFLAGS) -short -exec "env LD_PRELOAD=$(KEEP)" ./backends/vulkan ./backends/webgpu ./examples/cudavulkan ./examples/renderer && \
		CGO_ENABLED=1 $(DRIVERS) $(GOTESTSUM) -- $(GOTESTFLAGS) -short -run '^(TestEveryPair.*|TestATimeline.*|Test.*Binary.*)$$/(vulkan|webgpu)' ./exchange && \
		CGO_ENABLED=1 $(DRIVERS) $(GOTESTSUM) -- $(GOTESTFLAGS) -short -run Binary ./share; fi

# What is there is not fetched again. run-suites.sh begins this while other suites run.
newer-drivers:
	scripts/fetch-newer-drivers.sh $(NEWER) mesa intel pocl6 $(if $(SIMULATED_HIP),hip57)

# Not in setup: nothing needs them but these suites. Where one cannot be had, the tests that need it are skipped.
quick-newer-drivers test-newer-drivers: export DLX_VULKAN_DRIVER := mesa25
quick-newer-drivers test-newer-drivers: export DLX_OPENCL_DRIVER := intel
test-newer-drivers: export DLX_GL_DRIVER := mesa25
SKIPPED_DRIVERS = @for driver in mesa intel pocl6; do if [ -f $(NEWER)/$$driver/why ]; then \
	echo "skipped: no driver $$driver: $$(cat $(NEWER)/$$driver/why)"; echo "0 0 1" >>"$${DLX_COUNTS:-/dev/null}"; fi; done
ON_POCL6 = DLX_OPENCL_DRIVER=pocl6 CGO_ENABLED=1 $(DRIVERS) $(GOTESTSUM) -- $(GOTESTFLAGS) -short -ldflags "$$(cat $(NEWER)/pocl6/ldflags)"
FEW_CASES := ^TestConformance$$/^(order|dlpack)$$
quick-newer-drivers: newer-drivers ## Some cases of the conformance suite on lavapipe of Mesa 25, Intel's OpenCL and PoCL 6, and the start of HIP 5.7, where these can be had
	$(SKIPPED_DRIVERS)
	CGO_ENABLED=1 $(QUICK) $(DRIVERS) $(GOTESTSUM) -- $(GOTESTFLAGS) -short -run '$(FEW_CASES)' ./backends/vulkan ./backends/opencl ./backends/oneapi
	if [ -f $(NEWER)/pocl6/ready ]; then $(QUICK) $(ON_POCL6) -run '$(FEW_CASES)' ./backends/oneapi; fi
	$(if $(SIMULATED_HIP),scripts/test-hip.sh $(NEWER) hip57)

test-newer-drivers: ## The tests of Vulkan, WebGPU, OpenGL, OpenCL, oneAPI, exchange, random programs and the command, and those of every device of connections, files and benchmarks, on lavapipe of Mesa 25, Intel's OpenCL and PoCL 6, those of ROCm with HIP 5.7 and 6.4, where these can be had
	scripts/fetch-newer-drivers.sh $(NEWER) mesa intel pocl6 $(if $(SIMULATED_HIP),hip57 hip64)
	$(SKIPPED_DRIVERS)
	CGO_ENABLED=1 $(DRIVERS) $(GOTESTSUM) -- $(GOTESTFLAGS) -short ./backends/vulkan ./backends/webgpu ./backends/gl ./backends/opencl ./backends/oneapi ./backends/internal/clcore ./exchange ./internal/testing/soak
	CGO_ENABLED=1 $(DRIVERS) $(GOTESTSUM) -- $(GOTESTFLAGS) -short -run OneAPI ./cmd/dlx
	CGO_ENABLED=1 $(DRIVERS) $(GOTESTSUM) -- $(GOTESTFLAGS) -short -run 'EveryDevice|RealBackends' ./share ./remote ./tensorfile ./benchmarks
	if [ -f $(NEWER)/pocl6/ready ]; then $(ON_POCL6) ./backends/opencl ./backends/oneapi ./backends/internal/clcore; fi
	$(if $(SIMULATED_HIP),scripts/test-hip.sh $(NEWER))

# Not in setup: nothing needs the other versions but this suite. Versions that cannot be had are skipped.
test-remote: ## All tests of package remote with the system's UCX and with UCX 1.22, quick ones with others, over TCP and shared memory
	scripts/fetch-ucx.sh $(UCX)
	GOTESTSUM="$(GOTESTSUM)" GOTESTFLAGS="$(GOTESTFLAGS)" DRIVERS="$(DRIVERS)" scripts/test-remote.sh $(UCX)

# The other tests are those of test-remote, where each repeats less. Between machines there is no shared memory.
test-kills: export DLX_THOROUGH := 1
test-kills: export UCX_TLS := tcp,self
test-kills: ## Package remote where 1,250 processes are killed, links are cut and peers never read; a million small tensors; 1,000 connections
	CGO_ENABLED=1 $(GOTESTSUM) -- $(GOTESTFLAGS) -timeout 30m -tags "$(TAGS)" -run '^Test(Killed.*|AStoppedProcess|ACut.*|Networks.*|BadNetwork|NobodyReceives|ASilentPeer|TheLastRequestCounts|VeryMany.*|ManyConnections)$$' ./remote

# A module of its own, so that programs that use dlx do not get what drives the browser. setup installs the browser where
# it installs drivers, and the npm package that checks accessibility is fetched here.
test-report: ## The pages of dlx bench, devices and plan in a real browser, and their accessibility
	scripts/fetch-axe.sh $(AXE)
	cd cmd/dlx/internal/report/browsertest && go mod tidy -diff && $(GOLANGCILINT) run && \
		DLX_AXE=$(CURDIR)/$(AXE) $(GOTESTSUM) -- $(GOTESTFLAGS) ./...

# On Linux a library in C stands for Metal and for the runtime of Objective-C.
# On arm64 purego's callbacks write 128 bytes below the stack pointer, as macOS allows and Linux does not: there a signal of
# Go's scheduler overwrites them. So on the emulated processor the scheduler sends none, and cgo keeps others off that stack.
test-metal: export DLX_METAL_HEADERS := $(CURDIR)/$(METAL_HEADERS)
test-metal: $(METAL_HEADERS)/ready ## The calls of Metal agree with Apple's headers and with the processors' rules; the kit for a Mac
	CGO_ENABLED=0 $(GOTESTSUM) -- $(GOTESTFLAGS) ./backends/metal/internal/objc
	$(if $(EMULATED),GODEBUG=asyncpreemptoff=1 CC=$(CC_ARM64) GOARCH=arm64 CGO_ENABLED=1 $(GOTESTSUM) -- $(GOTESTFLAGS) -exec "$(EMULATOR)" -skip TestHeaders ./backends/metal/internal/objc)
	scripts/test-mac-kit.sh

# The rest computes plans, or shows one goroutine's use of what the others test.
RACE = $(GOTESTSUM) -- $(GOTESTFLAGS) -short -race -gcflags=github.com/dlx-go/dlx/...=-d=checkptr=2
test-race: export GOEXPERIMENT := cgocheck2
test-race: ## Tests of what has goroutines, under the race detector, and with all that Go can check of pointers that C gets
	CGO_ENABLED=1 $(DRIVERS) $(RACE) $$(go list ./... | grep -vE '/(gpucopy|copyplan|examples)(/|$$)')
	DLX_SOAK_MODES=plain,collector CGO_ENABLED=1 $(DRIVERS) $(RACE) -run TestPrograms ./internal/testing/soak

# allocator_may_return_null: an impossible allocation fails, as without the sanitizer, instead of ending the program.
# use_sigaltstack: LLVM, in a driver, gives threads signal stacks, which the sanitizer would take for its own and free.
# intercept_tls_get_addr: the sanitizer takes dynamic TLS at offset 16 of a page for that of glibc 2.19, and crashes
# when it checks for leaks.
test-asan test-modules $(MODULE_SUITES): export ASAN_OPTIONS := allocator_may_return_null=1:use_sigaltstack=0:verify_asan_link_order=0:intercept_tls_get_addr=0:$(ASAN_OPTIONS)
test-asan test-modules $(MODULE_SUITES): export LSAN_OPTIONS := suppressions=$(CURDIR)/scripts/lsan-suppressions.txt:print_suppressions=0:$(LSAN_OPTIONS)
# The packages that are left out have neither C nor unsafe pointers.
test-asan: $(KEEP) ## Tests of what has C or pointers, under the address sanitizer, where Go and the C compiler have it
	@if scripts/probe-asan.sh; then \
		CGO_ENABLED=1 $(DRIVERS) $(GOTESTSUM) -- $(GOTESTFLAGS) -short -asan -exec "env LD_PRELOAD=$(KEEP)" \
			$$(go list ./... | grep -vE '/(cmd|examples|benchmarks|backends/all|backends/backendtest|gpucopy|copyplan)(/|$$)'); fi

$(KEEP): scripts/keep-libraries.c | system-packages
	mkdir -p $(@D)
	$$(go env CC) -shared -fPIC -o $@ $<

test-cross: ## Everything builds and passes vet, tests included, without cgo and for the other systems
	scripts/test-cross.sh "$(TAGS)" linux/amd64 linux/arm64 darwin/arm64 windows/amd64

# Only these tests: others start processes from their own binary, which would need the emulator too.
test-arm64: $(GPUSIM_ARM64) ## The conformance of CUDA's backend, and core's assembly, on an emulated arm64 processor
	CC="$(CC_ARM64)" GOARCH=arm64 CGO_ENABLED=1 CGO_LDFLAGS=-Wl,--no-warn-search-mismatch \
	DLX_CUDA_LIBRARY=$(CURDIR)/$(GPUSIM_ARM64) $(GOTESTSUM) -- $(GOTESTFLAGS) -tags cuda \
		-exec "$(EMULATOR)" -run '^TestConformance$$' ./backends/cuda
	CGO_ENABLED=0 GOARCH=arm64 $(GOTESTSUM) -- $(GOTESTFLAGS) -exec qemu-aarch64 ./core/float

quick-libdlx test-libdlx: export DLX_LIBDLX := $(CURDIR)/$(LIBDLX)
quick-libdlx: export TAGS := $(LIBDLX_TAGS)
test-libdlx: export TAGS := $(TAGS)
quick-libdlx: ## The quick tests of the C shared library: programs in C, C++ and Rust, its symbols, its ABI since the last tag
	$(DRIVERS) scripts/build-libdlx.sh $(LIBDLX) "$$TAGS"
	$(QUICK) $(DRIVERS) $(GOTESTSUM) -- $(GOTESTFLAGS) -short ./cmd/libdlx

test-libdlx: ## The C shared library: programs in C, C++ and Rust, its symbols, its ABI since the last tag
	$(DRIVERS) scripts/build-libdlx.sh $(LIBDLX) "$$TAGS"
	$(DRIVERS) $(GOTESTSUM) -- $(GOTESTFLAGS) ./cmd/libdlx

# Only packages with benchmarks are linked.
test-bench: ## Every benchmark of go test runs once
	$(DRIVERS) go test $(GOTESTFLAGS) -run '^$$' -bench . -benchtime 1x \
		$$(go list -f '{{range .TestGoFiles}}{{$$.Dir}}/{{.}} {{end}}{{range .XTestGoFiles}}{{$$.Dir}}/{{.}} {{end}}' ./... | xargs grep -l '^func Benchmark' | sed 's,/[^/]*$$,,' | sort -u)

# With the tags of quick-libdlx, so that only the library is linked again.
quick-python test-python: export DLX_TAGS = $(LIBDLX_TAGS)
quick-python: ## The Python package: its wheel, with one CPython
	$(QUICK) $(DRIVERS) env PYTHON=$(PYTHON) scripts/test-python.sh quick

test-python: ## The Python package: its wheel, with every CPython that is found
	$(DRIVERS) env PYTHON=$(PYTHON) scripts/test-python.sh

test-docker: $(VENV_DOCKER)/ready ## The Dockerfile, the compose files and the Kubernetes example are valid; nothing is built
	scripts/test-docker.sh $(VENV_DOCKER)

$(VENV_DOCKER)/ready: requirements-docker.txt | system-packages
	$(PYTHON) -m venv $(VENV_DOCKER)
	$(VENV_DOCKER)/bin/python -m pip install --quiet --requirement $<
	touch $@

test-fuzz: ## Every fuzz target, for FUZZTIME each
	$(DRIVERS) scripts/test-fuzz.sh $(FUZZTIME)

setup: system-packages $(VENV)/ready $(TOOLS)/ready $(SIMULATOR) ## Install what the suites need

system-packages:
	@PYTHON=$(PYTHON) scripts/system-packages.sh

$(VENV)/ready: requirements.txt
	$(PYTHON) -m venv $(VENV)
	$(VENV)/bin/python -m pip install --quiet --requirement $<
	ln -sfn "$$($(VENV)/bin/python -c 'from tvm_ffi import libinfo; print(libinfo.find_dlpack_include_path())')" $(VENV)/dlpack-include
	ln -sfn "$$($(VENV)/bin/python -c 'import sysconfig; print(sysconfig.get_path("purelib"))')/nvidia" $(VENV)/cuda-tools
	ln -sfn cuda-tools/cuda_runtime/include $(VENV)/cuda-include
	ln -sfn "$$($(VENV)/bin/python -c 'import sysconfig; print(sysconfig.get_path("purelib"))')/wgpu/resources" $(VENV)/webgpu
	touch $@

# What the tests of the modules load.
$(VENV_MODULES)/ready: requirements-modules.txt | system-packages
	$(PYTHON) -m venv $(VENV_MODULES)
	$(VENV_MODULES)/bin/python -m pip install --quiet --requirement $<
	packages="$$($(VENV_MODULES)/bin/python -c 'import sysconfig; print(sysconfig.get_path("purelib"))')" && \
		ln -sfn "$$packages"/onnxruntime/capi/libonnxruntime.so.* $(VENV_MODULES)/libonnxruntime.so && \
		ln -sfn "$$packages"/xla_plugins/xla_cpu_pjrt/xla_cpu_pjrt.so $(VENV_MODULES)/pjrt_c_api_cpu_plugin.so
	touch $@

# The Python backend finds its stub, one for each version of Python, beside its library.
$(VENV_TRITON)/ready: requirements-triton.txt | system-packages
	$(PYTHON) -m venv $(VENV_TRITON)
	$(VENV_TRITON)/bin/python -m pip install --quiet --no-deps --requirement $<
	set -- $$($(VENV_TRITON)/bin/python -c 'import sys, sysconfig; print(sysconfig.get_path("purelib"), "%d.%d" % sys.version_info[:2])') && \
		ln -sfn ../../python_backend_stubs/$$2/triton_python_backend_stub $$1/pytriton/tritonserver/backends/python/
	touch $@

# A folder for each version, since pip installs only one version of a package into a folder.
$(VENV)/headers/ready: requirements-headers.txt | $(VENV)/ready
	rm -rf $(@D)
	for package in $$(sed 's/#.*//' $<); do \
		$(VENV)/bin/python -m pip install --quiet --no-deps --target $(@D)/$${package#*==} $$package || exit; \
	done
	touch $@

gpusim: $(GPUSIM) $(if $(SIMULATED_HIP),$(GPUSIM_HIP)) ## Build the simulated drivers: CUDA's, and with the tag rocm HIP's library

$(GPUSIM_HIP): $(wildcard internal/testing/gpusim/src/hip/*) internal/testing/gpusim/hip.map backends/internal/gpucopy/gather.cu $(wildcard backends/internal/gpuconvert/convert*.[chi]*)
$(GPUSIM) $(GPUSIM_HIP): internal/testing/gpusim/build.sh $(wildcard internal/testing/gpusim/*/*.[ch]) backends/cuda/include/cuda.h $(VENV)/ready | system-packages
	mkdir -p $(@D)
	internal/testing/gpusim/build.sh $@

$(GPUSIM_ARM64): $(GPUSIM)
	mkdir -p $(@D)
	CC="$(CC_ARM64)" internal/testing/gpusim/build.sh $@

libdlx: setup ## Build the C shared library, its header and its file for pkg-config into dist
	scripts/build-libdlx.sh dist "$(TAGS)"

gpu-kit: setup ## Build the kit that tests dlx on a machine with a GPU and without Go
	scripts/gpu-kit.sh

mac-kit: ## Build the kit that tests dlx on a Mac, without Go
	GOFLAGS=-trimpath scripts/mac-kit.sh

$(METAL_HEADERS)/ready: scripts/metal-headers.sh requirements-metal.txt tools/metal-headers/Cargo.lock | $(VENV)/ready
	$< $(@D)

$(TOOLS)/ready: tools/go.mod tools/go.sum
	CGO_ENABLED=0 GOBIN=$(TOOLS) go -C tools install tool
	touch $@

testdata: $(VENV)/ready ## Generate testdata again
	$(DLX_PYTHON) scripts/make_testdata.py

testdata-fetch: requirements-testdata.txt ## Fetch the digits from scikit-learn again, and generate the rest
	$(PYTHON) -m venv $(VENV_DATA)
	$(VENV_DATA)/bin/python -m pip install --quiet --requirement $<
	$(VENV_DATA)/bin/python scripts/make_testdata.py --fetch

clean: ## Remove everything that make installed or built
	rm -rf $(VENV) $(VENV_DATA) $(VENV_MODULES) $(VENV_DOCKER) $(VENV_TRITON) .venv-python .venv-interop .venv-interop-mxnet .venv-peers .tools .test .cache dist python/build python/dist
