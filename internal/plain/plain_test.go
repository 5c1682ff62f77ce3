package plain

import (
	"bytes"
	"encoding/json"
	"errors"
	"net/netip"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// Each of these moves the cursor, breaks the line, changes the direction, or is not seen.
var obeyed = []string{
	"\x1b[2J", "\x1b]0;title\a", "\x1b]8;;http://a\x1b\\", "\u009b2J", "\u009d0;title\u009c", "\r", "\n", "\t", "\b", "\x7f", "\x00", "\u0085", "\u2028", "\u2029",
	"\u202e", "\u2066", "\u200f", "\u061c", "\u200b", "\ufeff", "\u00ad", "\U000e0041",
}

func TestText(t *testing.T) {
	for _, text := range obeyed {
		if got := Text("a" + text + "b"); strings.ContainsFunc(got, func(c rune) bool { return !strconv.IsPrint(c) }) || !strings.HasPrefix(got, "a\uFFFD") || !strings.HasSuffix(got, "b") {
			t.Errorf("%q is written as %q", text, got)
		}
	}
	for _, text := range []string{"", "/shop?q=1&b=%20", "Zoë Ångström, 東京, שלום", "\uFFFD", "naïve 👍"} {
		if got := Text(text); got != text {
			t.Errorf("%q is written as %q", text, got)
		}
	}
	if got := Text("a\xffb"); got != "a\uFFFDb" {
		t.Errorf("what is no UTF-8 is written as %q", got)
	}
}

func TestValues(t *testing.T) {
	got := Values("a\n", errors.New("b\r"), netip.MustParseAddr("203.0.113.7"), 4, nil, word("c\t"))
	if diff := cmp.Diff([]any{"a\uFFFD", "b\uFFFD", "203.0.113.7", 4, nil, "c\uFFFD"}, got); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

type word string

func TestLines(t *testing.T) {
	if got := Lines("a\x1b\nb\r\n"); got != "a\uFFFD\nb\uFFFD\n" {
		t.Errorf("%q", got)
	}
}

// JSON stays the same value, and its white space.
func TestJSON(t *testing.T) {
	for _, text := range obeyed {
		var line bytes.Buffer
		if err := json.NewEncoder(JSONTo(&line)).Encode(map[string]string{text: text}); err != nil {
			t.Fatal(err)
		}
		shown := strings.TrimSuffix(line.String(), "\n")
		if strings.ContainsFunc(shown, func(c rune) bool { return !strconv.IsPrint(c) }) {
			t.Errorf("%q is written as %q", text, shown)
		}
		var back map[string]string
		if err := json.Unmarshal(line.Bytes(), &back); err != nil || back[text] != text {
			t.Errorf("%q came back as %q, %v", text, back, err)
		}
	}
}

// A byte that is no UTF-8 would be a control to a terminal of ISO 8859-1; U+FFFD itself is none.
func TestJSONOfNoUTF8(t *testing.T) {
	for text, want := range map[string]string{
		"\"a\x9b2Jb\"":   `"a\ufffd2Jb"`,
		"\"\xe2\x80\"":   `"\ufffd\ufffd"`,
		"\"\xff\uFFFD\"": "\"\\ufffd\uFFFD\"",
	} {
		if got := string(JSON(nil, []byte(text))); got != want {
			t.Errorf("%q is written as %q, want %q", text, got, want)
		}
	}
}

func FuzzJSON(f *testing.F) {
	for _, text := range obeyed {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		want, err := json.Marshal(text)
		if err != nil {
			t.Fatal(err)
		}
		var before, after string
		if err := errors.Join(json.Unmarshal(want, &before), json.Unmarshal(JSON(nil, want), &after)); err != nil || before != after {
			t.Errorf("%q became %q: %v", before, after, err)
		}
	})
}

// A writer that fails is heard of.
func TestJSONToSaysWhatFailed(t *testing.T) {
	if n, err := JSONTo(broken{}).Write([]byte("{}")); n != 0 || !errors.Is(err, errFull) {
		t.Errorf("%d, %v", n, err)
	}
}

var errFull = errors.New("full")

type broken struct{}

func (broken) Write([]byte) (int, error) { return 0, errFull }
