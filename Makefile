# Needs Go, git and a POSIX shell. Tools stand in go.tool.mod, pinned; the go
# command fetches them once.

TOOL     := go tool -modfile=go.tool.mod
PKGS     := ./...
RACE     ?=
FUZZTIME ?= 5s
BASE     ?= main

.DEFAULT_GOAL := help

.PHONY: help
help: ## Show this list
	@awk 'BEGIN {FS = ":.*## "} /^[a-z-]+:.*## / {printf "  %-14s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

.PHONY: demo
demo: ## Show that no debit is doubled and none is lost, with faults; needs Go alone
	go run ./ledgerdemo

.PHONY: test
test: ## Run all tests, with real PostgreSQL and Redis servers; RACE=1 for the race detector
	go run ./internal/testserver/with go test $(if $(RACE),-race) -timeout 20m $(PKGS)

.PHONY: bench
bench: ## Run all benchmarks
	go run ./internal/testserver/with go test -run '^$$' -bench . -benchmem $(PKGS)

.PHONY: fuzz
fuzz: ## Fuzz each target for FUZZTIME (5s)
	FUZZTIME=$(FUZZTIME) ./.ci/fuzz

.PHONY: generate
generate: ## Write gen/ anew from proto/
	$(TOOL) buf generate

.PHONY: lint
lint: fmt-check vet staticcheck buf-lint buf-breaking generate-check mod-check ## Run all checks that need no server

.PHONY: fmt
fmt: ## Format Go and proto files
	gofmt -w $$(git ls-files '*.go' ':!gen')
	$(TOOL) buf format -w

.PHONY: fmt-check
fmt-check:
	@unformatted=$$(gofmt -l $$(git ls-files '*.go')); \
	if [ -n "$$unformatted" ]; then printf 'not formatted, run make fmt:\n%s\n' "$$unformatted"; exit 1; fi
	$(TOOL) buf format -d --exit-code

.PHONY: vet
vet:
	go vet $(PKGS)

.PHONY: staticcheck
staticcheck:
	$(TOOL) staticcheck $(PKGS)

.PHONY: buf-lint
buf-lint:
	$(TOOL) buf lint

.PHONY: buf-breaking
buf-breaking:
	./.ci/breaking $(BASE)

.PHONY: generate-check
generate-check:
	./.ci/generated

.PHONY: mod-check
mod-check:
	go mod tidy -diff
	go mod verify
