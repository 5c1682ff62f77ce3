package localdb

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// What an older version, commit 21c2705, wrote is read, and what this one writes beside it.
func TestAnOlderVersionsQuotasAreRead(t *testing.T) {
	file, err := os.ReadFile("testdata/older/weir.db")
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, fileName), file, 0o600); err != nil {
		t.Fatal(err)
	}
	const until, last = 2_000_000_000_000_000_000, 1_700_000_000_000_000_000
	want := []Quota{
		{Key: []byte{0, 255, '\n'}, Until: until + 1, Last: last, Used: 1<<63 + 5},
		{Key: []byte("{a}:q"), Until: until, Last: last, Used: 12},
	}
	for _, more := range []Quota{{}, {Key: []byte("{b}:q"), Until: until - 1, Last: last, Used: 1}} {
		db := opened(t, dir)
		if more.Used > 0 {
			if err := db.SaveQuotas(last, []Quota{more}); err != nil {
				t.Error(err)
			}
			want = append(want, more)
		}
		var got []Quota
		err := db.LoadQuotas(last, func(q Quota) bool {
			q.Key = bytes.Clone(q.Key)
			got = append(got, q)
			return true
		})
		if diff := cmp.Diff(want, got); diff != "" || err != nil {
			t.Errorf("%v, -want +got:\n%s", err, diff)
		}
		if err := db.Close(); err != nil {
			t.Error(err)
		}
	}
}
