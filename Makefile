# make test is what CI runs. Everything it needs is installed by name by tools/install.
GO ?= go
FUZZTIME ?= 10s

.PHONY: build test test-quick lint bench docs run fuzz tools

build:
	$(GO) build -trimpath -o weir ./cmd/weir

run: build
	./weir demo

# The last two are what the race detector makes too slow, or measures times.
test: tools lint
	$(GO) test -run 'Alloc' ./...
	$(GO) test -race -shuffle=on -timeout 12m ./...
	$(GO) test -timeout 12m ./waf/...
	$(GO) test -run 'Cost|Slow' ./app

# Without the real servers and the race detector, for the loop at the desk.
test-quick:
	$(GO) test -short ./...

lint:
	@unformatted=$$(gofmt -l $$(git ls-files '*.go')); test -z "$$unformatted" || { echo "gofmt would change:"; echo "$$unformatted"; exit 1; }
	$(GO) vet ./...
	$(GO) tool staticcheck ./...

# Ratios to peers, into bench/results; BENCH="-long" measures longer, see bench/README.md.
bench:
	cd bench && $(GO) run . $(BENCH)

docs:
	$(GO) run ./internal/docgen

fuzz:
	./tools/fuzz $(FUZZTIME)

tools:
	./tools/install
