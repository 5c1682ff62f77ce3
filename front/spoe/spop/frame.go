package spop

import (
	"encoding/binary"
	"strconv"
)

// A Type is what a frame is for (section 3.2.2).
type Type uint8

const (
	HAProxyHello      Type = 1
	HAProxyDisconnect Type = 2
	Notify            Type = 3
	AgentHello        Type = 101
	AgentDisconnect   Type = 102
	Ack               Type = 103
)

const (
	// LengthSize is how many bytes before a frame tell its length.
	LengthSize = 4
	// MinMaxFrame is the least that a side may name as the longest frame it takes, in bytes.
	MinMaxFrame = 256

	fin = 1 // the flag of a frame that is whole, or the last of its kind
)

// A Frame is one message of either side.
type Frame struct {
	Type    Type
	Flags   uint32
	Stream  uint64
	ID      uint64
	Payload string
}

// Whole reports whether the frame is all of its message. We do not take fragments, and say so.
func (f *Frame) Whole() bool { return f.Flags&fin != 0 }

// ParseFrame reads a frame, without its length. What it carries is not looked at.
func ParseFrame(s string) (Frame, error) {
	d := Decode(s)
	f := Frame{Type: Type(d.Byte())}
	for range 4 {
		f.Flags = f.Flags<<8 | uint32(d.Byte())
	}
	f.Stream, f.ID = d.Uint(), d.Uint()
	if d.bad {
		return Frame{}, InvalidFrame
	}
	f.Payload = d.rest
	return f, nil
}

// BeginFrame appends the head of a whole frame, with room for its length.
func BeginFrame(b []byte, t Type, stream, id uint64) []byte {
	b = append(b, 0, 0, 0, 0, byte(t), 0, 0, 0, fin)
	return AppendUint(AppendUint(b, stream), id)
}

// EndFrame fills in the length of the frame that begins at start and ends with b.
func EndFrame(b []byte, start int) []byte {
	binary.BigEndian.PutUint32(b[start:], uint32(len(b)-start-LengthSize))
	return b
}

// A Status says why a side ends a connection (section 3.5).
type Status uint32

const (
	Normal             Status = 0
	TimedOut           Status = 2
	TooBig             Status = 3
	InvalidFrame       Status = 4
	NoVersion          Status = 5
	NoMaxFrame         Status = 6
	UnsupportedVersion Status = 8
	BadMaxFrame        Status = 9
	Fragmented         Status = 10
)

// Error implements error.
func (s Status) Error() string {
	switch s {
	case Normal:
		return "normal"
	case TimedOut:
		return "a time-out occurred"
	case TooBig:
		return "frame is too big"
	case InvalidFrame:
		return "invalid frame received"
	case NoVersion:
		return "version value not found"
	case NoMaxFrame:
		return "max-frame-size value not found"
	case UnsupportedVersion:
		return "unsupported version"
	case BadMaxFrame:
		return "max-frame-size too big or too small"
	case Fragmented:
		return "fragmentation is not supported"
	}
	return "status " + strconv.FormatUint(uint64(s), 10)
}

// AppendDisconnect appends the frame that ends a connection from our side.
func AppendDisconnect(b []byte, s Status) []byte {
	start := len(b)
	b = BeginFrame(b, AgentDisconnect, 0, 0)
	b = AppendValue(AppendText(b, "status-code"), Number(uint32(s)))
	b = AppendValue(AppendText(b, "message"), Text(s.Error()))
	return EndFrame(b, start)
}

const (
	setVar      = 1 // the action
	transaction = 2 // the scope
)

// AppendSetVar appends, to an [Ack], the action that sets a variable of the transaction. HAProxy puts
// its var-prefix before the name.
func AppendSetVar(b []byte, name string, v Value) []byte {
	b = append(b, setVar, 3, transaction)
	return AppendValue(AppendText(b, name), v)
}
