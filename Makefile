# SPDX-FileCopyrightText: The Spokewire Authors
# SPDX-License-Identifier: Apache-2.0

# `make test` runs all tests; `make check` runs everything that a change must pass. Built programs
# are cached outside the source tree.

GO        ?= go
FUZZTIME  ?= 30s
# Processes that run a fuzz test, and the MiB of address space that each may allocate.
FUZZWORKERS ?= 2
FUZZMEMORY  ?= 3072
SEEDS     ?= 100000
RUNS      ?= 1000
# Random histories of each model of the rsync engine.
CHECKS    ?= 10000
BENCH     ?= .
BENCHTIME ?= 1s
VULNDB    ?= https://vuln.go.dev
# GOGC of the API servers. With Go's default they spend a sixth of their time on garbage collection;
# with 400 they need half as much memory again.
SERVERGC  ?= 400
# Number of watches of `make peers`. BENCHMARKS.md has the figures of 1000, which take four minutes.
WATCHES   ?= 20
# Programs and platforms of a release.
PROGRAMS  ?= hub agent work-apiserver
PLATFORMS ?= linux/amd64 linux/arm64
# The commits of `make dco`.
COMMITS   ?= origin/main..HEAD

# The modules of the tree. Users get only the first. Each nested module uses only its own go.mod.
NESTED  := internal/e2e internal/kube internal/maestro internal/maestro/ocmcommon internal/ocm internal/peers internal/tools internal/tools/lint internal/tools/sbom
MODULES := . $(NESTED)
export GOWORK = off

# PACKAGES is the number of packages that are tested at a time: two for each processor.
PACKAGES = $(shell echo $$((2 * $$(getconf _NPROCESSORS_ONLN))))

# TOOL is the folder of the built tools: $(TOOL)/golangci-lint. It is expanded only when a target
# needs a tool.
TOOL = $(shell internal/tools/build.sh --dir)
# LINT needs two fifths less processor time if garbage may reach 4 GB.
LINT = GOGC=400 GOMEMLIMIT=4000MiB $(TOOL)/golangci-lint run

# FINGERPRINT prints a checksum of each file of the tree.
FINGERPRINT = find . -name .git -prune -o -type f -exec cksum {} + | sort -k 3

.DEFAULT_GOAL := help
.PHONY: help kube ocm maestro check test test-fast bench peers fuzz generate generate-diff fmt vet lint apidiff vuln dco release cover tidy clean

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-14s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

kube: ## build kube-apiserver, kube-controller-manager, kubectl and etcd (once)
	@internal/kube/build.sh

ocm: ## build the work programs and the gRPC server of Open Cluster Management (once)
	@internal/ocm/build.sh

maestro: ## build the server of Maestro (once)
	@internal/maestro/build.sh

check: generate-diff fmt vet lint test ## run everything that a change must pass

# The programs of the end-to-end tests are built while tests of the SDK wait. At the lowest priority
# the builds do not exceed the time limits of these tests.
test: ## run all tests with the race detector: the SDK, then end to end on real servers
	{ for server in kube ocm maestro; do nice -n 19 internal/$$server/build.sh || exit; done; } & servers=$$!; \
	$(GO) test -race -vet=off -timeout 25m -p $(PACKAGES) ./...; status=$$?; \
	wait $$servers && exit $$status # half of the tests wait; make vet vets them
	programs=$$(mktemp -d) && trap 'rm -rf "$$programs"' EXIT && cd internal/e2e && \
	SPOKEWIRE_E2E_PROGRAMS="$$programs" KUBEBUILDER_ASSETS="$$(../kube/build.sh --dir)" GOGC=$(SERVERGC) \
	$(GO) test -race -vet=off -count=1 -p $(PACKAGES) -parallel 8 -timeout 40m ./... # most tests wait; -count=1, because the cache does not see the programs that they build
	KUBEBUILDER_ASSETS="$$(internal/kube/build.sh --dir)" \
	$(GO) test -vet=off ./interpreter/customization ./interpreter/lua ./cloudevents/work/restconfig # the race detector exceeds their limits of time and memory
	cd internal/e2e && $(GO) test ./interop # without the race detector: see the package doc
	cd internal/e2e && KUBEBUILDER_ASSETS="$$(../kube/build.sh --dir)" $(GO) test -run 'Speed$$' . # measurements
	cd internal/e2e && KUBEBUILDER_ASSETS="$$(../kube/build.sh --dir)" $(GO) test -count=1 ./hostile # other users must wait for less than a second

test-fast: ## run only the tests of the SDK, without the race detector
	$(GO) test ./...

bench: ## run the benchmarks (BENCH=pattern BENCHTIME=1s)
	$(GO) test -run '^$$' -bench '$(BENCH)' -benchtime $(BENCHTIME) -benchmem ./...

peers: kube ## measure the projects that BENCHMARKS.md compares with (WATCHES=20)
	cd internal/peers && KUBEBUILDER_ASSETS="$$(../kube/build.sh --dir)" $(GO) test -count=1 -timeout 20m -v . -args -watches $(WATCHES)

# Packages come before flags of the tests: the go command passes all words after an unknown flag to
# the tests. fuzz.sh lists the fuzz tests first, because the go command fuzzes one at a time.
# With 100,000 seeds on two idle processors, the simulations of works take about 45 minutes, those of
# the dynamic watcher 25, the rules ten, and the edits of objects with unknown fields five. The models
# of rsync take about ten with 10,000 checks. 1,000 runs of AppliedWork's campaign on a real API
# server take about 30.
fuzz: kube ## run simulations (SEEDS=100000 RUNS=1000 CHECKS=10000), remove each rule, fuzz (FUZZTIME=30s)
	$(GO) test ./cloudevents/work/internal/simulation -work.seeds $(SEEDS) -timeout 0 -v
	$(GO) test -tags spokewire_rules -run '^TestRemovedRules$$' -timeout 0 -v ./cloudevents/work ./appliedwork ./rsync ./dynamicwatcher
	$(GO) test ./dynamicwatcher -run '^TestSimulation$$' -dynamicwatcher.seeds $(SEEDS) -timeout 0 -v
	$(GO) test ./internal/jsontext -run '^TestUnknownFieldsStayWithTheirElement$$' -jsontext.seeds $(SEEDS) -timeout 0 -v
	$(GO) test ./interpreter -run '^TestUnknownFieldsStayWithTheirElement$$' -interpreter.seeds $(SEEDS) -timeout 0 -v
	$(GO) test ./rsync -run '^Test(RolloutModel|RandomRecovery)$$' -rapid.checks $(CHECKS) -timeout 0 -v
	cd internal/e2e && KUBEBUILDER_ASSETS="$$(../kube/build.sh --dir)" $(GO) test . -run '^TestAppliedWork$$/^(Campaign|Handover|Owners)$$' -appliedwork.seeds $(RUNS) -timeout 0 -v
	cd internal/e2e && KUBEBUILDER_ASSETS="$$(../kube/build.sh --dir)" $(GO) test -tags spokewire_rules -run '^TestAppliedWorkRemovedRules$$' -timeout 0 -v .
	@internal/tools/fuzz.sh "$(GO)" $(FUZZTIME) $(FUZZWORKERS) $(FUZZMEMORY) ./...

generate: ## write the generated files
	@internal/tools/build.sh controller-gen protogen protoc-gen-go protoc-gen-go-grpc
	PATH="$(TOOL):$$PATH" $(GO) generate ./...

# Compares files, not commits: run it before you commit.
generate-diff: ## write the generated files; fail if one was not up to date
	@before=$$(mktemp) && after=$$(mktemp) && trap 'rm -f "$$before" "$$after"' EXIT && \
	$(FINGERPRINT) >"$$before" && $(MAKE) -s generate && $(FINGERPRINT) >"$$after" && \
	if ! diff "$$before" "$$after"; then echo "these files were not up to date; they are now"; exit 1; fi

fmt: ## fail if gofmt would change a file
	@files=$$(gofmt -l .); if [ -n "$$files" ]; then echo "gofmt -w these:"; echo "$$files"; exit 1; fi

vet: ## run go vet on the SDK and the end-to-end tests
	$(GO) vet ./...
	cd internal/e2e && $(GO) vet ./...

lint: ## run golangci-lint on the SDK, the end-to-end tests and internal/peers
	@internal/tools/build.sh golangci-lint
	$(LINT) ./...
	cd internal/e2e && $(LINT) --config ../../.golangci.yml ./...
	cd internal/peers && $(LINT) --config ../../.golangci.yml ./...

apidiff: ## compare the exported API with that of the last release
	@internal/tools/build.sh apidiff
	@internal/tools/apidiff.sh "$(TOOL)/apidiff"

vuln: ## list known vulnerabilities that the SDK reaches (needs a network; VULNDB=https://vuln.go.dev)
	@internal/tools/build.sh govulncheck
	@internal/tools/vuln.sh "$(TOOL)/govulncheck" "$(VULNDB)"

dco: ## fail if a commit is not signed off (COMMITS=origin/main..HEAD)
	@internal/tools/dco.sh "$(COMMITS)"

# Flags of the environment would change the programs.
release: export GOFLAGS =
release: ## build the programs, SBOMs and checksums of a release (PROGRAMS= PLATFORMS=)
	@internal/tools/release.sh "$(GO)" "$(PROGRAMS)" "$(PLATFORMS)"

cover: ## write the test coverage of the SDK to coverage.html
	$(GO) test -coverpkg=./... -coverprofile=coverage.out ./...
	@$(GO) tool cover -html=coverage.out -o coverage.html
	@$(GO) tool cover -func=coverage.out | tail -1

tidy: ## run go mod tidy in each module
	@set -e; for module in $(MODULES); do echo "== $$module"; (cd $$module && $(GO) mod tidy); done

clean: ## remove written files from the tree; the caches stay
	rm -f coverage.out coverage.html *.test *.prof
	@echo "kept: $$(internal/kube/build.sh --dir) and $(TOOL)"
