package spoe

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/weirgate/weir/front/spoe/spop"
)

// Whatever a NOTIFY frame holds, it is acknowledged with what a frame of the agreed size holds, and its
// decision is recorded once if there is one.
func FuzzNotify(f *testing.F) {
	for _, seed := range [][]byte{
		message(1, messageName, arguments()),
		message(1, messageName, arguments(text("path", 2048, "/"), argument{"xff", spop.Text("6.6.6.6, 198.51.100.1")})),
		message(1, "other", nil),
		raw("\x0aweir-check\x01\x03src\x0f"),
	} {
		frame, err := spop.ParseFrame(string(seed[spop.LengthSize:]))
		if err != nil {
			f.Fatal(err)
		}
		f.Add(frame.Payload)
	}
	h := build(f, twoPerMinute, Options{})
	f.Fuzz(func(t *testing.T, payload string) {
		before := h.requests()
		k := h.check()
		k.conn, k.frame = &conn{server: h.Server, raw: nowhere{}, maxFrame: spop.MinMaxFrame}, spop.Frame{Stream: 7, ID: 9, Payload: payload}
		k.conn.pending.Add(1)
		k.snapshot = h.engine.Current()
		k.decide()
		ack := string(k.ack)
		k.record()
		k.release()
		if len(ack) > spop.LengthSize+spop.MinMaxFrame {
			t.Errorf("%d bytes, want at most %d", len(ack), spop.MinMaxFrame)
		}
		got, err := spop.ParseFrame(ack[spop.LengthSize:])
		if err != nil || got.Type != spop.Ack || got.Stream != 7 || got.ID != 9 {
			t.Fatalf("%+v, %v: want an acknowledgement of stream 7, frame 9", got, err)
		}
		set, records := variables(t, got.Payload), h.requests()-before
		if decided := set["action"] != nil; decided != (records == 1) || records > 1 {
			t.Errorf("%v with %d records: want one for an action", set, records)
		}
		if set["action"] == nil {
			if diff := cmp.Diff(undecidedVariables, set); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		}
	})
}
