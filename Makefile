# Needs Go, git and a POSIX shell. The tools stand in go.tool.mod, pinned; the
# go command fetches and builds them once.

PACKAGES ?= ./...
RACE     ?=
SHORT    ?=
BENCH    ?= .
FUZZTIME ?= 5s
DURATION ?= 1m
SEED     ?= 0
BASE     ?= main

TOOL := go tool -modfile=go.tool.mod
BUF  := $(TOOL) buf
WITH := bin/with

.DEFAULT_GOAL := help

.PHONY: help
help: ## Show this list
	@awk 'BEGIN { FS = ":.*## " } /^[a-z-]+:.*## / { printf "  %-14s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

.PHONY: demo
demo: ## Show that no debit is doubled and none is lost under faults; needs Go alone
	go run ./ledgerdemo

.PHONY: demo-postgres
demo-postgres: with ## The same with three servers on PostgreSQL, and its sessions terminated
	$(WITH) sh -c 'exec go run ./ledgerdemo --store "$$RETRYSAFE_POSTGRES_URL"'

.PHONY: demo-redis
demo-redis: with ## Show what "at most one at a time" means: outcomes in Redis, the ledger in PostgreSQL
	$(WITH) sh -c 'exec go run ./ledgerdemo --store "$$RETRYSAFE_REDIS_URL" --ledger "$$RETRYSAFE_POSTGRES_URL"'

.PHONY: test
test: with ## Run all tests, with real PostgreSQL and Redis servers; RACE=1: with the race detector
	$(WITH) go test $(if $(RACE),-race) -timeout 20m $(PACKAGES)

.PHONY: torture
torture: with ## Torture each store for DURATION (1m) and check what clients saw; SEED: that of an earlier run
	go test -c -o bin/torture ./ledgerdemo/torture
	$(WITH) bin/torture -test.timeout 0 -torture.pairs -torture.duration $(DURATION) -torture.seed $(SEED)

.PHONY: bench
bench: with ## Hold speed to its limits, beside peers: the gates that match BENCH (all); SHORT=1: a quick look
	cd bench && go build -buildvcs=false -o ../bin/bench .
	$(WITH) -durable bin/bench -run '$(BENCH)' $(if $(SHORT),-short)

.PHONY: test-bench
test-bench: ## Test the module of the benchmarks, and simulate an outage of a server with 10,000 clients
	cd bench && go test ./...

.PHONY: fuzz
fuzz: with ## Fuzz each target for FUZZTIME (5s)
	$(WITH) ./.ci/fuzz $(FUZZTIME) $(PACKAGES)

.PHONY: generate
generate: ## Write gen/ anew from proto/
	$(BUF) generate

.PHONY: fmt
fmt: ## Format Go and proto files
	gofmt -w .
	$(BUF) format -w

.PHONY: lint
lint: lint-format lint-proto lint-go lint-modules ## Check format, contracts, generated code, Go code and modules; BASE: the branch whose contracts must not break

.PHONY: lint-format
lint-format:
	./.ci/format
	$(BUF) format -d --exit-code

.PHONY: lint-proto
lint-proto:
	$(BUF) lint
	./.ci/breaking '$(BASE)'
	./.ci/generated

.PHONY: lint-go
lint-go:
	go vet $(PACKAGES)
	$(TOOL) staticcheck $(PACKAGES)
	cd bench && go vet ./... && go tool -modfile=../go.tool.mod staticcheck ./...

.PHONY: lint-modules
lint-modules:
	go mod tidy -diff
	go mod verify
	cd bench && go mod tidy -diff

.PHONY: clean
clean: ## Remove what the targets above have built
	rm -rf bin

# A program rather than go run, which would not pass a signal on.
.PHONY: with
with:
	@go build -buildvcs=false -o $(WITH) ./internal/testserver/with
