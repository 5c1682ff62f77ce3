package spop

import "strings"

// version is the only one that any HAProxy speaks, from 1.8 on.
const version = "2.0"

// A Hello is what HAProxy begins a connection with (section 3.2.4).
type Hello struct {
	Versions     string // separated by commas; the highest minor of each major
	MaxFrame     uint64 // the longest frame that it takes, in bytes; 0: not told
	Capabilities string // separated by commas
	Healthcheck  bool   // it only wants to see an answer
	Engine       string // names the asking thread of an HAProxy
}

// ParseHello reads the payload of a HAPROXY-HELLO frame.
func ParseHello(payload string) (Hello, error) {
	var h Hello
	d := Decode(payload)
	for d.More() {
		switch name, v := d.Text(), d.Value(); name {
		case "supported-versions":
			h.Versions = v.Text
		case "max-frame-size":
			h.MaxFrame = v.Number
		case "capabilities":
			h.Capabilities = v.Text
		case "healthcheck":
			h.Healthcheck = v.Kind == Bool && v.Number == 1
		case "engine-id":
			h.Engine = v.Text
		}
	}
	if d.bad {
		return Hello{}, InvalidFrame
	}
	return h, nil
}

// Terms are what both sides keep to.
type Terms struct {
	MaxFrame   uint32 // bytes of the longest frame
	Pipelining bool   // HAProxy asks again before it was answered
}

// Agree returns the terms for h of a side that takes frames of at most maxFrame bytes, or the [Status]
// that says why there are none. Fragments and answers on another connection are never agreed on.
func (h *Hello) Agree(maxFrame uint32) (Terms, error) {
	switch {
	case h.Versions == "":
		return Terms{}, NoVersion
	case !listed(h.Versions, func(v string) bool { return strings.HasPrefix(v, "2.") }):
		return Terms{}, UnsupportedVersion
	case h.MaxFrame == 0:
		return Terms{}, NoMaxFrame
	case h.MaxFrame < MinMaxFrame:
		return Terms{}, BadMaxFrame
	}
	return Terms{
		MaxFrame:   uint32(min(h.MaxFrame, uint64(maxFrame))),
		Pipelining: listed(h.Capabilities, func(c string) bool { return c == "pipelining" }),
	}, nil
}

// listed reports whether is holds for one of the words of a list.
func listed(list string, is func(string) bool) bool {
	for word := range strings.SplitSeq(list, ",") {
		if is(strings.TrimSpace(word)) {
			return true
		}
	}
	return false
}

// AppendHello appends the frame that tells HAProxy the terms.
func AppendHello(b []byte, t Terms) []byte {
	capabilities := ""
	if t.Pipelining {
		capabilities = "pipelining"
	}
	start := len(b)
	b = BeginFrame(b, AgentHello, 0, 0)
	b = AppendValue(AppendText(b, "version"), Text(version))
	b = AppendValue(AppendText(b, "max-frame-size"), Number(t.MaxFrame))
	b = AppendValue(AppendText(b, "capabilities"), Text(capabilities))
	return EndFrame(b, start)
}
