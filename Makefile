# make test is what CI runs. Everything it needs is installed by name by tools/install.
GO ?= go
FUZZTIME ?= 10s

# What the race detector says nothing of runs without: where allocations are counted, and what is one goroutine's work
# of many seconds under it (internal/racing).
SKIPPED = git grep -hB1 'racing.Skip(t)' -- '*_test.go' | grep -oE '\bTest\w+' | paste -sd'|'
WITHOUT = $$(git grep -lE '^func Test\w*Alloc|racing.Skip\(t\)' -- '*_test.go' ':!bench' | xargs dirname | sort -u | sed 's|^|./|')

# As the Dockerfile builds. All is, but for the race detector, so that it is compiled once, and before the test of the
# Dockerfile, whose time is bounded.
IMAGE = CGO_ENABLED=0 GOFLAGS="-trimpath -tags=timetzdata,grpcnotrace -buildvcs=false"

.PHONY: build test test-quick timed soak manifests h2spec lint bench docs run fuzz tools vuln workflows release

build:
	$(GO) build -trimpath -o weir ./cmd/weir

run: build
	./weir demo

# Four packages at a time, since many wait for real servers; the program that they run is linked before they ask for
# it all at once (internal/proctest). Without tables for debuggers, which take a quarter of the
# linker's time, and without the vetting that lint has done.
test: tools lint
	$(IMAGE) $(GO) build -o /dev/null ./cmd/weir
	$(IMAGE) ./tools/test -vet=off -ldflags=-w -run="Alloc|^($$($(SKIPPED)))$$" $(WITHOUT)
	$(IMAGE) $(GO) run -ldflags=-w ./cmd/weir version
	./tools/test -race -shuffle=on -p=4 -vet=off -ldflags=-w -timeout=12m ./...
	$(MAKE) manifests

# The Helm chart and the compose file, judged in a module of its own. Built as the image is, to share what is compiled.
manifests:
	cd deploy/manifests && $(IMAGE) $(GO) test ./...

# h2spec against a real process, strict cases included: half a minute of mostly waiting.
h2spec:
	cd hostile/h2spec && $(GO) vet ./... && $(GO) test -count=1 ./...

# Without the real servers and the race detector, for the loop at the desk.
test-quick:
	$(GO) test -short ./...

# Half an hour, or SOAK=5m, at half of what the machine can do, under reloads and outages of Redis; SOAK_SEED=N repeats
# their moments. On a machine with nothing else to do.
soak: tools
	SOAK=$(or $(SOAK),30m) $(GO) test -count=1 -v -timeout 0 -run '^TestSoak$$' ./soak

# What is promised of times and loads, by the clock: only on a machine with nothing else to do.
timed: tools
	WEIR_TIMED=1 $(GO) test -count=1 -p 1 -timeout 15m $$(git grep -l 'weir/internal/timed"' -- '*.go' | xargs dirname | sort -u | sed 's|^|./|') ./waf/crs ./waf/fast

lint:
	@unformatted=$$(gofmt -l $$(git ls-files '*.go')); test -z "$$unformatted" || { echo "gofmt would change:"; echo "$$unformatted"; exit 1; }
	$(IMAGE) $(GO) vet ./...
	$(IMAGE) $(GO) tool staticcheck ./...
	cd bench && $(IMAGE) $(GO) vet ./... && $(IMAGE) $(GO) test ./report

# Ratios to peers, into bench/results and docs/benchmarks.md; BENCH="-long" measures longer, see bench/README.md.
bench:
	cd bench && $(GO) run . $(BENCH)

docs:
	$(GO) run ./internal/docgen

fuzz:
	./tools/fuzz $(FUZZTIME)

tools:
	./tools/install

# Known vulnerabilities that the code reaches. Asks the Go vulnerability database; VULNDB=file:///… asks a copy.
vuln:
	$(GO) run golang.org/x/vuln/cmd/govulncheck@v1.9.0 $(if $(VULNDB),-db $(VULNDB)) ./...

workflows:
	$(GO) run github.com/rhysd/actionlint/cmd/actionlint@v1.7.12

release:
	./tools/release
