package config

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestRangesFile(t *testing.T) {
	good := writeRanges(t, "# snapshot\ncloudflare: [192.0.2.0/24, 2001:db8::/32]\nfly: []\n")
	c, problems := Parse("weir.yaml", []byte("client: {path: [cloudflare], ranges_file: "+good+"}\nupstream: http://127.0.0.1:1\nlisten: :80\n"), nil)
	if len(problems) > 0 {
		t.Fatalf("problems: %v", problems)
	}
	want := map[string][]string{"cloudflare": {"192.0.2.0/24", "2001:db8::/32"}, "fly": {}}
	if diff := cmp.Diff(want, c.Ranges()); diff != "" {
		t.Errorf("ranges (-want +got)\n%s", diff)
	}
}

func TestRangesFileProblemsAreInItsOwnLines(t *testing.T) {
	bad := writeRanges(t, "cloudflare:\n  - 192.0.2.0/24\n  - 192.0.2.1/24\nfly: 3\n")
	_, problems := Parse("weir.yaml", []byte("client:\n  path: [cloudflare]\n  ranges_file: "+bad+"\n"), nil)
	var got []Problem
	for _, p := range problems {
		if p.File == bad {
			got = append(got, p)
		}
	}
	want := []Problem{
		{File: bad, Line: 3, Col: 5, Field: "cloudflare[1]", What: "192.0.2.1/24", Cure: "want the network's first address: 192.0.2.0/24"},
		{File: bad, Line: 4, Col: 6, Field: "fly", What: "found a number", Cure: "want a list, such as [...]"},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("problems (-want +got)\n%s", diff)
	}
}

func TestRangesFileMustBeReadable(t *testing.T) {
	missing := filepath.Join(t.TempDir(), "nowhere.yaml")
	_, problems := Parse("weir.yaml", []byte("listen: :80\nupstream: http://127.0.0.1:1\nclient:\n  ranges_file: "+missing+"\n"), nil)
	if len(problems) != 1 || problems[0].Field != "client.ranges_file" || problems[0].Line != 4 {
		t.Errorf("problems: %v", problems)
	}
}

func writeRanges(t *testing.T, text string) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "ranges.yaml")
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}
