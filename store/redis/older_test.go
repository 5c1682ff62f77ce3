package redis

import (
	"encoding/hex"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/weirgate/weir"
	"github.com/weirgate/weir/internal/redistest"
)

// older has what an older version, commit 21c2705, wrote for [written]: a key and its bytes in each line.
const older = "testdata/older.txt"

// written has one limit of each algorithm whose counters outlive a request.
func written() []*weir.Limit { return every(20, time.Hour)[:5] }

// write charges each limit 7 and, a while later, 5.
func write(t *testing.T, b *lab) {
	for _, n := range []int64{7, 5} {
		for _, l := range written() {
			b.takeAll(t, opTake, []weir.Hit{hitOn(l, "client", n)})
		}
		b.now += 60_000_000
	}
}

// Old and new replicas share a Redis during an upgrade: both write the same keys and bytes. Where that has to
// change, what is below must still be read, and a release in between must read both.
func TestAnOlderVersionReadsWhatIsWritten(t *testing.T) {
	server := redistest.Start(t)
	b := openLab(t, server.URL())
	write(t, b)
	var lines []string
	for _, l := range written() {
		h := hitOn(l, "client", 0)
		key := keyOf(t, b.Store, h)
		lines = append(lines, fmt.Sprintf("%s %s\n", key, hex.EncodeToString([]byte(server.Do("GET", key).(string)))))
	}
	slices.Sort(lines)
	want, err := os.ReadFile(older)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), strings.Join(lines, "")); diff != "" {
		t.Errorf("-older +this:\n%s", diff)
	}
}

// What an older version counted is gone on with: of 20 are 8 left, and no more than 8 pass.
func TestWhatAnOlderVersionWroteIsRead(t *testing.T) {
	server := redistest.Start(t)
	b := openLab(t, server.URL())
	text, err := os.ReadFile(older)
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(text)) {
		key, value, _ := strings.Cut(strings.TrimSpace(line), " ")
		bytes, err := hex.DecodeString(value)
		if err != nil {
			t.Fatal(err)
		}
		server.Do("SET", key, string(bytes))
	}
	b.now += 90_000_000
	for _, l := range written() {
		var left []int64
		for _, n := range []int64{0, 9, 8, 1} {
			st := b.takeAll(t, opTake, []weir.Hit{hitOn(l, "client", n)})[0][0]
			left = append(left, st.Remaining)
			if pass := n == 0 || n == 8; st.Allowed != pass {
				t.Errorf("%s: %d more: allowed %v", l.Algorithm, n, st.Allowed)
			}
		}
		if diff := cmp.Diff([]int64{8, 8, 0, 0}, left); diff != "" {
			t.Errorf("%s: left, -want +got:\n%s", l.Algorithm, diff)
		}
	}
}
