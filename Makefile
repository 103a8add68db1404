# SPDX-FileCopyrightText: The Spokewire Authors
# SPDX-License-Identifier: Apache-2.0

# What a newcomer needs is `make test`; what a change must pass is `make check`.
# Everything that is built on the way is cached outside the source tree.

GO        ?= go
FUZZTIME  ?= 30s
# The processes that run a fuzz test, and the address space in MiB that each may allocate.
FUZZWORKERS ?= 2
FUZZMEMORY  ?= 3072
SEEDS     ?= 100000
RUNS      ?= 1000
# The random histories of each model of the engine of rsync.
CHECKS    ?= 10000
BENCH     ?= .
BENCHTIME ?= 1s
VULNDB    ?= https://vuln.go.dev
# GOGC of the API servers, which else spend a sixth of their time on garbage. They take half as much memory again.
SERVERGC  ?= 400
# How many watches `make peers` measures others with. README.md has the figures of 1000, which take four minutes.
WATCHES   ?= 20

# The modules of the tree; the first is the one that users get. Each nested one is
# built with its own go.mod alone.
NESTED  := internal/e2e internal/kube internal/kube/etcd internal/peers internal/tools internal/tools/lint
MODULES := . $(NESTED)
export GOWORK = off

# PACKAGES is how many packages are tested at a time: two for each processor.
PACKAGES = $(shell echo $$((2 * $$(getconf _NPROCESSORS_ONLN))))

# TOOL runs a tool of internal/tools: $(TOOL)/golangci-lint. Lazy, because most verbs
# need none.
TOOL = $(shell internal/tools/build.sh --dir)
# LINT spends two fifths less of the processor's time where garbage may pile up to 4 GB.
LINT = GOGC=400 GOMEMLIMIT=4000MiB $(TOOL)/golangci-lint run

# FINGERPRINT prints a checksum of each file of the tree.
FINGERPRINT = find . -name .git -prune -o -type f -exec cksum {} + | sort -k 3

.DEFAULT_GOAL := help
.PHONY: help kube check test test-fast bench peers fuzz generate generate-diff fmt vet lint apidiff vuln cover tidy clean

help: ## say what each verb does
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-14s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

kube: ## build kube-apiserver, kube-controller-manager, kubectl and etcd, once
	@internal/kube/build.sh

check: generate-diff fmt vet lint test ## everything that a change must pass

test: kube ## all tests, with the race detector: the SDK, then end to end on real servers
	$(GO) test -race -vet=off -timeout 25m -p $(PACKAGES) ./... # half of them wait; make vet is for all
	programs=$$(mktemp -d) && trap 'rm -rf "$$programs"' EXIT && cd internal/e2e && \
	SPOKEWIRE_E2E_PROGRAMS="$$programs" KUBEBUILDER_ASSETS="$$(../kube/build.sh --dir)" GOGC=$(SERVERGC) \
	$(GO) test -race -vet=off -count=1 -p $(PACKAGES) -parallel 8 -timeout 40m ./... # mostly they wait; what they build is not seen by the cache
	$(GO) test -vet=off ./interpreter/customization ./interpreter/lua # limits of time and memory, which the race detector exceeds
	cd internal/e2e && $(GO) test ./interop # what the race detector must not look at: see its package doc
	cd internal/e2e && KUBEBUILDER_ASSETS="$$(../kube/build.sh --dir)" $(GO) test -run 'Speed$$' . # what is measured
	cd internal/e2e && KUBEBUILDER_ASSETS="$$(../kube/build.sh --dir)" $(GO) test -count=1 ./hostile # others must not wait for a second

test-fast: ## the tests of the SDK alone, without the race detector
	$(GO) test ./...

bench: ## all benchmarks (BENCH=pattern BENCHTIME=1s)
	$(GO) test -run '^$$' -bench '$(BENCH)' -benchtime $(BENCHTIME) -benchmem ./...

peers: kube ## measure the projects that README.md compares with (WATCHES=20)
	cd internal/peers && KUBEBUILDER_ASSETS="$$(../kube/build.sh --dir)" $(GO) test -count=1 -timeout 20m -v . -args -watches $(WATCHES)

# Packages come before flags of the tests: the go command takes what comes after one that it does not know for an argument of the tests.
# It fuzzes one function of one package at a time, so they are looked up first.
# With 100,000 seeds the simulations of works take about 45 minutes on two idle processors, those of the dynamic watcher
# 25, the rules ten, and the edits of objects with unknown fields five. The models of rsync take about ten with 10,000 checks. A thousand runs of AppliedWork's campaign on a real API server take about 30.
fuzz: kube ## each fuzz test for FUZZTIME (30s), SEEDS (100000) of the simulations and edits, RUNS (1000) of AppliedWork's, CHECKS (10000) of rsync's, and each rule removed
	$(GO) test ./cloudevents/work -run 'Simulation$$' -work.seeds $(SEEDS) -timeout 0 -v
	$(GO) test -tags spokewire_rules -run '^TestRemovedRules$$' -timeout 0 -v ./cloudevents/work ./appliedwork ./rsync ./dynamicwatcher
	$(GO) test ./dynamicwatcher -run '^TestSimulation$$' -dynamicwatcher.seeds $(SEEDS) -timeout 0 -v
	$(GO) test ./internal/rawjson -run '^TestUnknownFieldsStayWithTheirElement$$' -rawjson.seeds $(SEEDS) -timeout 0 -v
	$(GO) test ./interpreter -run '^TestUnknownFieldsStayWithTheirElement$$' -interpreter.seeds $(SEEDS) -timeout 0 -v
	$(GO) test ./rsync -run '^Test(RolloutModel|RandomRecovery)$$' -rapid.checks $(CHECKS) -timeout 0 -v
	cd internal/e2e && KUBEBUILDER_ASSETS="$$(../kube/build.sh --dir)" $(GO) test . -run '^TestAppliedWork$$/^(Campaign|Handover|Owners)$$' -appliedwork.seeds $(RUNS) -timeout 0 -v
	cd internal/e2e && KUBEBUILDER_ASSETS="$$(../kube/build.sh --dir)" $(GO) test -tags spokewire_rules -run '^TestAppliedWorkRemovedRules$$' -timeout 0 -v .
	@internal/tools/fuzz.sh "$(GO)" $(FUZZTIME) $(FUZZWORKERS) $(FUZZMEMORY) ./...

generate: ## write generated files again
	@internal/tools/build.sh controller-gen protogen protoc-gen-go protoc-gen-go-grpc
	PATH="$(TOOL):$$PATH" $(GO) generate ./...

# Compares files, not commits, so it can be run before one.
generate-diff: ## fail when a generated file is not up to date
	@before=$$(mktemp) && after=$$(mktemp) && trap 'rm -f "$$before" "$$after"' EXIT && \
	$(FINGERPRINT) >"$$before" && $(MAKE) -s generate && $(FINGERPRINT) >"$$after" && \
	if ! diff "$$before" "$$after"; then echo "these were not up to date; they are now"; exit 1; fi

fmt: ## fail when gofmt would change a file
	@files=$$(gofmt -l .); if [ -n "$$files" ]; then echo "gofmt -w these:"; echo "$$files"; exit 1; fi

vet: ## go vet on the SDK and on the end-to-end tests
	$(GO) vet ./...
	cd internal/e2e && $(GO) vet ./...

lint: ## golangci-lint on the SDK and on what tests it and others
	@internal/tools/build.sh golangci-lint
	$(LINT) ./...
	cd internal/e2e && $(LINT) --config ../../.golangci.yml ./...
	cd internal/peers && $(LINT) --config ../../.golangci.yml ./...

apidiff: ## compare the exported API with that of the last release
	@internal/tools/build.sh apidiff
	@internal/tools/apidiff.sh "$(TOOL)/apidiff"

vuln: ## look for known vulnerabilities in what the SDK calls (needs the network; VULNDB=https://vuln.go.dev)
	@internal/tools/build.sh govulncheck
	@internal/tools/vuln.sh "$(TOOL)/govulncheck" "$(VULNDB)"

cover: ## test coverage of the SDK, as coverage.html
	$(GO) test -coverpkg=./... -coverprofile=coverage.out ./...
	@$(GO) tool cover -html=coverage.out -o coverage.html
	@$(GO) tool cover -func=coverage.out | tail -1

tidy: ## go mod tidy in each module
	@set -e; for module in $(MODULES); do echo "== $$module"; (cd $$module && $(GO) mod tidy); done

clean: ## remove what the verbs wrote into the tree; the caches outside stay
	rm -f coverage.out coverage.html *.test *.prof
	@echo "kept: $$(internal/kube/build.sh --dir) and $(TOOL)"
