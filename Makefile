# make test is what CI runs. Everything it needs is installed by name by tools/install.
GO ?= go
FUZZTIME ?= 10s

.PHONY: build test test-quick manifests lint bench docs run fuzz tools

build:
	$(GO) build -trimpath -o weir ./cmd/weir

run: build
	./weir demo

test: tools lint
	$(GO) test -run 'Alloc' ./...
	$(GO) test -race -shuffle=on -timeout 12m ./...
	$(MAKE) manifests

# The Helm chart and the compose file, judged in a module of its own. Built as the image is, to share what is compiled.
manifests:
	cd deploy/manifests && CGO_ENABLED=0 $(GO) test -trimpath ./...

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
