package apikey

import (
	"regexp"
	"strings"
	"testing"
)

func TestNewSecret(t *testing.T) {
	pattern := regexp.MustCompile(Pattern)
	seen := map[string]bool{}
	for range 1000 {
		id, secret := newSecret()
		if got, ok := IDOf(secret); !ok || got != id || len(secret) != length {
			t.Fatalf("%q: id %q %v, want %q", secret, got, ok, id)
		}
		if pattern.FindString("key="+secret+" ") != secret {
			t.Fatalf("%q: the pattern for scanners does not find it", secret)
		}
		if seen[id] || seen[secret] {
			t.Fatalf("%q twice", secret)
		}
		seen[id], seen[secret] = true, true
	}
}

// Every letter of the alphabet is as likely as any other, within five standard deviations.
func TestRandomText(t *testing.T) {
	const n = 62_000
	counts := map[rune]int{}
	for _, c := range randomText(n, alphabet) {
		counts[c]++
	}
	for _, c := range alphabet {
		if counts[c] < 840 || counts[c] > 1160 {
			t.Errorf("%c stands %d times among %d letters, want about 1000", c, counts[c], n)
		}
	}
}

// A typing error is known without looking the key up: any other letter, two letters in the other order, a
// letter too few or too many.
func TestTypingErrors(t *testing.T) {
	_, secret := newSecret()
	for i := range secret {
		for _, c := range alphabet + "_-. \x00" {
			if typed := secret[:i] + string(c) + secret[i+1:]; typed != secret && isWellFormed(typed) {
				t.Errorf("%q: with %q at %d it is well-formed", secret, c, i)
			}
		}
		if i > 0 && secret[i] != secret[i-1] && isWellFormed(secret[:i-1]+secret[i:i+1]+secret[i-1:i]+secret[i+1:]) {
			t.Errorf("%q: with %d and %d in the other order it is well-formed", secret, i-1, i)
		}
		if isWellFormed(secret[:i]+secret[i+1:]) || isWellFormed(secret[:i]+"a"+secret[i:]) {
			t.Errorf("%q: with a letter too few or too many at %d it is well-formed", secret, i)
		}
	}
}

// The sum of a key is another one under another pepper, and for another key.
func TestSum(t *testing.T) {
	_, a := newSecret()
	_, b := newSecret()
	p, q := pepper{1}, pepper{2}
	if p.sum(a) == q.sum(a) || p.sum(a) == p.sum(b) {
		t.Error("want one sum for each pepper and key")
	}
	if text := p.hex(a); len(text) != 64 || strings.Contains(text, a[17:]) {
		t.Errorf("%s: want 64 hex digits", text)
	}
}

func FuzzIDOf(f *testing.F) {
	_, secret := newSecret()
	for _, text := range []string{secret, "", "weir_", strings.Repeat("a", length), secret[:length-1], secret + "\n", "WEIR_" + secret[5:]} {
		f.Add(text)
	}
	pattern := regexp.MustCompile("^(?:" + Pattern + ")$")
	f.Fuzz(func(t *testing.T, text string) {
		id, ok := IDOf(text)
		if ok != (id != "") || ok && (!pattern.MatchString(text) || !strings.Contains(text, id) || !isWellFormed(text)) {
			t.Errorf("%q: id %q, %v", text, id, ok)
		}
	})
}
