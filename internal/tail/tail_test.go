package tail

import (
	"os"
	"path/filepath"
	"testing"
)

// What is read is never more than was asked for, and from the end.
func TestRead(t *testing.T) {
	path := filepath.Join(t.TempDir(), "log")
	if got, err := Read(path, 10); got != nil || err != nil {
		t.Errorf("no file: %q, %v", got, err)
	}
	if err := os.WriteFile(path, []byte("one\ntwo\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for most, want := range map[int64]string{0: "", 4: "two\n", 7: "ne\ntwo\n", 8: "one\ntwo\n", 9: "one\ntwo\n"} {
		if got, err := Read(path, most); string(got) != want || err != nil {
			t.Errorf("%d bytes: %q, %v, want %q", most, got, err, want)
		}
	}
	if _, err := Read(filepath.Dir(path), 10); err == nil {
		t.Error("a folder was read")
	}
}
