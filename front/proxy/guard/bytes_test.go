package guard

import (
	"bytes"
	"testing"
)

func TestRunStopsAtEveryByteOutsideTheSet(t *testing.T) {
	for _, set := range []class{nameByte, targetByte, valueByte} {
		for c := range 256 {
			for at := range 20 {
				p := bytes.Repeat([]byte("a"), 20)
				p[at] = byte(c)
				want := at
				if is(byte(c), set) {
					want = len(p)
				}
				if got := run(p, 0, set); got != want {
					t.Errorf("byte %#x at %d in set %d: run to %d, want %d", c, at, set, got, want)
				}
			}
		}
	}
}

func TestSetsFollowTheGrammar(t *testing.T) {
	tests := []struct {
		c                   byte
		name, target, value bool
	}{
		{0, false, false, false}, {'\t', false, false, true}, {'\n', false, false, false}, {'\r', false, false, false},
		{' ', false, false, true}, {'!', true, true, true}, {'"', false, true, true}, {'(', false, true, true},
		{':', false, true, true}, {'_', true, true, true}, {'~', true, true, true}, {0x7f, false, false, false},
		{0x80, false, true, true}, {0xff, false, true, true},
	}
	for _, x := range tests {
		if is(x.c, nameByte) != x.name || is(x.c, targetByte) != x.target || is(x.c, valueByte) != x.value {
			t.Errorf("%#x: name %v, target %v, value %v", x.c, is(x.c, nameByte), is(x.c, targetByte), is(x.c, valueByte))
		}
	}
}
