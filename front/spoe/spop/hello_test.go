package spop

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestAgree(t *testing.T) {
	tests := []struct {
		name  string
		hello Hello
		want  Terms
		err   error
	}{
		{"the smaller frame: theirs", Hello{Versions: "2.0", MaxFrame: 16380}, Terms{16380, false}, nil},
		{"the smaller frame: ours", Hello{Versions: "2.0", MaxFrame: 1 << 40}, Terms{65536, false}, nil},
		{"smallest frame", Hello{Versions: "2.0", MaxFrame: 256}, Terms{256, false}, nil},
		{"below it", Hello{Versions: "2.0", MaxFrame: 255}, Terms{}, BadMaxFrame},
		{"no frame size", Hello{Versions: "2.0"}, Terms{}, NoMaxFrame},
		{"no version", Hello{MaxFrame: 16380}, Terms{}, NoVersion},
		{"older version", Hello{Versions: "1.0", MaxFrame: 16380}, Terms{}, UnsupportedVersion},
		{"one of several", Hello{Versions: "1.5, 2.0", MaxFrame: 16380}, Terms{16380, false}, nil},
		{"pipelining", Hello{Versions: "2.0", MaxFrame: 16380, Capabilities: "fragmentation, pipelining,async"}, Terms{16380, true}, nil},
		{"nothing else", Hello{Versions: "2.0", MaxFrame: 16380, Capabilities: "pipelining2,fragmentation,async"}, Terms{16380, false}, nil},
	}
	for _, tt := range tests {
		got, err := tt.hello.Agree(65536)
		if diff := cmp.Diff(tt.want, got); diff != "" || err != tt.err {
			t.Errorf("%s: %v, want %v (-want +got):\n%s", tt.name, err, tt.err, diff)
		}
	}
}

func TestParseHello(t *testing.T) {
	b := AppendValue(AppendText(nil, "something new"), Number(1))
	b = AppendValue(AppendText(b, "supported-versions"), Text("2.0"))
	got, err := ParseHello(string(b))
	if diff := cmp.Diff(Hello{Versions: "2.0"}, got); diff != "" || err != nil {
		t.Errorf("%v (-want +got):\n%s", err, diff)
	}
	if got, err := ParseHello(string(b[:len(b)-1])); err != InvalidFrame {
		t.Errorf("cut: %+v, %v, want an invalid frame", got, err)
	}
}
