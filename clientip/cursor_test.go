package clientip

import (
	"math/rand/v2"
	"reflect"
	"strings"
	"testing"
)

// sameAsEver fails where next4 reads an entry of lines that next and address read otherwise, or leaves the cursor
// elsewhere than they do.
func sameAsEver(t *testing.T, lines []string) (plain int) {
	t.Helper()
	short, long := cursor{lines: lines}, cursor{lines: lines}
	for {
		a, ok := short.next4()
		text, more := long.next(maxEntry)
		if !ok {
			text4, more4 := short.next(maxEntry)
			if text4 != text || more4 != more {
				t.Fatalf("%q: left %q %v, want %q %v", lines, text4, more4, text, more)
			}
		} else if want, unix, good := long.address(text); !more || unix || !good || a != want {
			t.Fatalf("%q: %v, where there is %q: %v, a unix socket %v, good %v", lines, a, text, want, unix, good)
		} else {
			plain++
		}
		if !short.more && !long.more {
			short.rest, long.rest = "", "" // nobody looks at it any more
		}
		if !reflect.DeepEqual(short, long) {
			t.Fatalf("%q: at %+v, want %+v", lines, short, long)
		}
		if !more {
			return plain
		}
	}
}

// What is read in one pass is what the two others make of it, at the edges of what it takes and next to them.
func TestAPlainEntryIsReadAsAnyOther(t *testing.T) {
	for header, plain := range map[string]int{
		"": 0, "203.0.113.7": 1, " 203.0.113.7": 1, "  203.0.113.7": 0, "203.0.113.7 ": 0, "\t203.0.113.7": 0,
		"0.0.0.0": 0, "0.0.0.1": 1, "255.255.255.255": 1, "256.0.0.1": 0, "1.2.3.004": 0, "01.2.3.4": 0, "1.2.3": 0, ".1.2.3.4": 0,
		"9.1.2.3.4": 0, "x1.2.3.4": 0, "1.2.3.4:80": 0, "::1.2.3.4": 0, "1.2.3.4x": 0, "8.8.8.8 1.2.3.4": 0,
		",1.2.3.4": 1, " ,1.2.3.4": 1, ", 1.2.3.4": 1, "1.2.3.4,": 1, "unix:, 1.2.3.4": 1, "5.6.7.8, 1.2.3.4": 2, "5.6.7.8,, 1.2.3.4": 2,
		strings.Repeat("9", 100) + ", 1.2.3.4": 1, "1.2.3.4" + strings.Repeat(" ", 100): 0,
		"5.6.7.8\n1.2.3.4": 2, "\n1.2.3.4": 1, "1.2.3.4\n": 1,
	} {
		if got := sameAsEver(t, strings.Split(header, "\n")); got != plain {
			t.Errorf("%q: %d entries in one pass, want %d", header, got, plain)
		}
	}
}

func TestRandomEntriesAreReadAsAnyOther(t *testing.T) {
	random, parts := rand.New(rand.NewPCG(4, 6)), strings.Fields("0 1 25 255 256 007 1.2.3 203.0.113.7 : :: unix: x . . , , ,")
	parts = append(parts, " ", " ", "\t", "\n", "\" ")
	for range 20000 {
		var header strings.Builder
		for range random.IntN(12) {
			header.WriteString(parts[random.IntN(len(parts))])
		}
		sameAsEver(t, strings.Split(header.String(), "\n"))
	}
}

// The diagnosis is told of an entry of RFC 7239 by its own parser alone.
func TestAForwardedElementIsNeverPlain(t *testing.T) {
	c := cursor{lines: []string{"203.0.113.7"}, forwarded: true}
	if a, ok := c.next4(); ok {
		t.Errorf("read %v", a)
	}
}
