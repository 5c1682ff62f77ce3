package clientip

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/weirgate/weir"
)

func TestNotesSayWhatCodesMean(t *testing.T) {
	got := Notes(weir.ClientPrivate | weir.ChainLong | weir.OneClient)
	want := []Note{
		{weir.ChainLong, "the client sent such a header itself, which is not believed, or there is one proxy more"},
		{weir.ClientPrivate, "the client's address is a private one"},
	}
	if diff := cmp.Diff(want, got); diff != "" || Notes(0) != nil {
		t.Errorf("-want +got:\n%s", diff)
	}
}

// Every code that this package gives has a note.
func TestEveryCodeOfAResolverHasANote(t *testing.T) {
	files, err := filepath.Glob("*.go")
	if err != nil {
		t.Fatal(err)
	}
	var source strings.Builder
	for _, name := range files {
		if text, err := os.ReadFile(name); err == nil && name != "notes.go" && !strings.HasSuffix(name, "_test.go") {
			source.Write(text)
		}
	}
	var given, noted []string
	for _, name := range weir.AllCodes.Names() {
		if strings.Contains(source.String(), "weir."+constant(name)) {
			given = append(given, name)
		}
	}
	for _, note := range Notes(weir.AllCodes) {
		noted = append(noted, note.Code.Names()...)
	}
	if diff := cmp.Diff(given, noted); diff != "" {
		t.Errorf("-given +noted:\n%s", diff)
	}
}

// constant returns what the code is called in the source: ChainInvalidEntry for chain.invalid_entry.
func constant(code string) string {
	var b strings.Builder
	for word := range strings.FieldsFuncSeq(code, func(r rune) bool { return r == '.' || r == '_' }) {
		b.WriteString(strings.ToUpper(word[:1]) + word[1:])
	}
	return b.String()
}
