package redis

import (
	"strings"
	"testing"

	"github.com/weirgate/weir"
)

// The values are those of the Redis Cluster specification and of CLUSTER KEYSLOT.
func TestSlot(t *testing.T) {
	for key, want := range map[string]int{
		"123456789": 0x31C3, "foo": 12182, "{foo}bar": 12182, "a{foo}{bar}": 12182, "": 0, "{}foo": 9500, "foo{{bar}}zap": 4015,
	} {
		if got := slot(key); got != want {
			t.Errorf("%q: slot %d, want %d", key, got, want)
		}
	}
}

func named(key string, tag int) string {
	return counterKey("weir", &weir.Hit{Key: []byte(key), TagLen: tag})
}

func TestCounterKey(t *testing.T) {
	const client = "{203.0.113.7/32}"
	a, b := named(client+":search:sliding_window:1m0s:@203.0.113.7/32", len(client)), named(client+":login:sliding_window:1m0s:@203.0.113.7/32", len(client))
	if !strings.HasPrefix(a, "weir:"+client+":") || len(a) != len("weir:"+client+":")+hashLength {
		t.Errorf("%q, want the client in it and %d characters more", a, hashLength)
	}
	if a == b || slot(a) != slot(b) {
		t.Errorf("%q and %q, want two names in one slot", a, b)
	}
	if long := named("{2001:db8:ffff:ffff::/64}:x", 25); len(long) > 47 {
		t.Errorf("%q has %d bytes, want at most 47", long, len(long))
	}
}

// No two counters share a name, whatever is in their tags; and what shares a tag shares a slot.
func TestCounterKeysApart(t *testing.T) {
	seen := map[string]string{}
	for _, tag := range []string{"", "a", "b", "a}", "}a", "{a}", "{a", "{}", "{a}b", "{a}{b}", "1{a}", "\x00", "{\xff}", ":", "{:}"} {
		for _, rest := range []string{"", "x", "}x", "{x}", ":", "a}x", "\x00"} {
			name := named(tag+rest, len(tag))
			if other, taken := seen[name]; taken {
				t.Errorf("%q + %q and %s are both %q", tag, rest, other, name)
			}
			seen[name] = tag + " + " + rest
			if sharesSlot := tag != "" && tag[0] != '}'; sharesSlot && slot(name) != slot(named(tag+"other", len(tag))) {
				t.Errorf("tag %q: %q is in a slot of its own", tag, name)
			}
		}
	}
}

func FuzzCounterKey(f *testing.F) {
	f.Add([]byte("{203.0.113.7/32}:site"), 16, []byte("{203.0.113.7/32}:site2"), 16)
	f.Add([]byte("a}b"), 1, []byte("a}b"), 2)
	f.Fuzz(func(t *testing.T, a []byte, at int, b []byte, bt int) {
		at, bt = min(max(at, 0), len(a)), min(max(bt, 0), len(b))
		same := string(a) == string(b) && at == bt
		x, y := counterKey("weir", &weir.Hit{Key: a, TagLen: at}), counterKey("weir", &weir.Hit{Key: b, TagLen: bt})
		if (x == y) != same {
			t.Errorf("%q/%d is %q, %q/%d is %q", a, at, x, b, bt, y)
		}
		if slot(x) < 0 || slot(x) >= slots {
			t.Errorf("%q is in slot %d", x, slot(x))
		}
	})
}
