package weir_test

import (
	"testing"

	"github.com/weirgate/weir"
)

func TestParsePeer(t *testing.T) {
	for text, want := range map[string]string{
		"203.0.113.7:80": "203.0.113.7", "203.0.113.7": "203.0.113.7", "[2001:db8::1]:80": "2001:db8::1", "2001:db8::1": "2001:db8::1",
		"[::ffff:203.0.113.7]:80": "203.0.113.7", "[fe80::1%eth0]:80": "fe80::1", "fe80::1%eth0": "fe80::1",
		"0.0.0.0:1": "", "[::]:1": "", "::": "", "::ffff:0.0.0.0": "", "": "", "name:80": "", "203.0.113.007": "",
		"@": "unix", "@abstract": "unix", "/run/weir.sock": "unix",
	} {
		addr, unix := weir.ParsePeer(text)
		got := ""
		switch {
		case unix:
			got = "unix"
		case addr.IsValid():
			got = addr.String()
		}
		if got != want {
			t.Errorf("ParsePeer(%q) = %q, want %q", text, got, want)
		}
	}
}

func TestSameField(t *testing.T) {
	for _, name := range []string{"X-Real-IP", "x_real_ip", "X.Real-Ip"} {
		if !weir.SameField(name, "X-Real-Ip") {
			t.Errorf("%q is another field", name)
		}
	}
	for _, name := range []string{"X-Real-I", "X-Real-Ips", "X Real-Ip", ""} {
		if weir.SameField(name, "X-Real-Ip") {
			t.Errorf("%q is the same field", name)
		}
	}
}

// Every code of the chain diagnosis has a name, and a set lists them all.
func TestCodeNames(t *testing.T) {
	names := weir.AllCodes.Names()
	if len(names) != 19 {
		t.Errorf("%d names: %q", len(names), names)
	}
	if got := (weir.DepthLow | weir.ChainMissing).Names(); len(got) != 2 || got[0] != "chain.missing" || got[1] != "depth.low" {
		t.Errorf("names of two codes: %q", got)
	}
}
