# make test is what CI runs. Everything it needs is installed by name by tools/install.
GO ?= go
FUZZTIME ?= 10s

# Tests that are one goroutine's work of minutes under the race detector, which they skip: run without it.
LONG = TestBoundedMemory|TestCountersAreBounded|TestUnderWayIsBounded|TestAttacksOnCost

.PHONY: build test test-quick timed lint bench docs run fuzz tools

build:
	$(GO) build -trimpath -o weir ./cmd/weir

run: build
	./weir demo

test: tools lint
	$(GO) test -run 'Alloc' ./...
	$(GO) test -race -shuffle=on -timeout 12m ./...
	$(GO) test -timeout 10m ./waf/...
	$(GO) test -timeout 10m -run '^($(LONG))$$' ./app ./replay

# Without the real servers and the race detector, for the loop at the desk.
test-quick:
	$(GO) test -short ./...

# What is promised of times and loads, by the clock: only on a machine with nothing else to do.
timed: tools
	WEIR_TIMED=1 $(GO) test -count=1 -p 1 -timeout 15m $$(git grep -l 'weir/internal/timed"' -- '*.go' | xargs dirname | sort -u | sed 's|^|./|') ./waf/crs ./waf/fast

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
