package policy

import (
	"strings"
	"testing"
)

func TestFoldHost(t *testing.T) {
	for authority, want := range map[string]string{
		"": "", "a.test": "a.test", "A.Test": "a.test", "a.test:80": "a.test", "a.test.": "a.test", "a.test.:80": "a.test", "a.test..": "a.test",
		"u:p@a.test:80": "a.test", "[::1]": "[::1]", "[2001:DB8::1]:443": "[2001:db8::1]", "::1": "", ":80": "", "]": "]", "[": "[",
	} {
		if got := foldHost(authority); got != want {
			t.Errorf("foldHost(%q) = %q, want %q", authority, got, want)
		}
	}
}

func FuzzFoldHost(f *testing.F) {
	for _, authority := range []string{"", "A.test.:80", "u@[::1]:80", "a..", "[", "]:"} {
		f.Add(authority)
	}
	f.Fuzz(func(t *testing.T, authority string) {
		host := foldHost(authority)
		if again := foldHost(host); again != host {
			t.Errorf("foldHost(%q) = %q, and once more %q", authority, host, again)
		}
		if strings.HasSuffix(host, ".") {
			t.Errorf("foldHost(%q) = %q", authority, host)
		}
	})
}
