// Package spop is the wire format of SPOP 2.0, in which HAProxy asks its agents (HAProxy's doc/SPOE.txt,
// section 3): numbers, typed data, frames and what they carry. Everything here is a function of bytes;
// no more memory is used than the bytes that came.
package spop

import (
	"errors"
	"math/bits"
	"net/netip"
)

// ErrMalformed is what a payload ends with that is not what it says it is.
var ErrMalformed = errors.New("spop: malformed data")

// A Kind is the type of a Value, as on the wire (section 3.1).
type Kind uint8

const (
	Null Kind = iota
	Bool
	Int32
	Uint32
	Int64
	Uint64
	IPv4
	IPv6
	String
	Binary
)

// A Value is one typed datum.
type Value struct {
	Kind   Kind
	Number uint64 // of a Bool 0 or 1; of a signed number its two's complement
	Text   string // of String and Binary; of IPv4 and IPv6 the 4 or 16 bytes of the address
}

// Truth returns is as a value.
func Truth(is bool) Value {
	if is {
		return Value{Kind: Bool, Number: 1}
	}
	return Value{Kind: Bool}
}

// Number returns n as a value.
func Number(n uint32) Value { return Value{Kind: Uint32, Number: uint64(n)} }

// Text returns s as a value.
func Text(s string) Value { return Value{Kind: String, Text: s} }

// Addr returns the address that v is, or the zero Addr.
func (v Value) Addr() netip.Addr {
	if v.Kind != IPv4 && v.Kind != IPv6 {
		return netip.Addr{}
	}
	var b [16]byte
	a, _ := netip.AddrFromSlice(b[:copy(b[:], v.Text)]) // 4 or 16 bytes
	return a
}

// A Decoder reads data one after the other. Once something is not there or not right, all that follows
// is zero, and Err says so.
type Decoder struct {
	rest string
	bad  bool
}

// Decode returns a decoder of s.
func Decode(s string) Decoder { return Decoder{rest: s} }

// More reports whether there is something left to read.
func (d *Decoder) More() bool { return d.rest != "" }

// Err returns ErrMalformed if something could not be read.
func (d *Decoder) Err() error {
	if d.bad {
		return ErrMalformed
	}
	return nil
}

// take returns the next n bytes.
func (d *Decoder) take(n uint64) string {
	if n > uint64(len(d.rest)) {
		d.bad, d.rest = true, ""
		return ""
	}
	s := d.rest[:n]
	d.rest = d.rest[n:]
	return s
}

// Byte reads one byte.
func (d *Decoder) Byte() byte {
	if s := d.take(1); s != "" {
		return s[0]
	}
	return 0
}

// Uint reads a number of variable length in the encoding of HAProxy's peers: 240 and above go on in
// further bytes, of which those with the highest bit are not the last. One beyond 64 bits is malformed.
func (d *Decoder) Uint() uint64 {
	n := uint64(d.Byte())
	if n < 240 {
		return n
	}
	for shift := 4; ; shift += 7 {
		b := uint64(d.Byte())
		sum, carry := bits.Add64(n, b<<shift, 0)
		if d.bad || carry > 0 || b<<shift>>shift != b {
			d.bad, d.rest = true, ""
			return 0
		}
		if n = sum; b < 128 {
			return n
		}
	}
}

// Text reads a string without a type.
func (d *Decoder) Text() string { return d.take(d.Uint()) }

// Value reads typed data.
func (d *Decoder) Value() Value {
	b := d.Byte()
	v := Value{Kind: Kind(b & 15)}
	switch v.Kind {
	case Null:
	case Bool:
		v.Number = uint64(b >> 4 & 1)
	case Int32, Uint32, Int64, Uint64:
		v.Number = d.Uint()
	case IPv4:
		v.Text = d.take(4)
	case IPv6:
		v.Text = d.take(16)
	case String, Binary:
		v.Text = d.Text()
	default:
		d.bad, d.rest = true, ""
	}
	if d.bad {
		return Value{}
	}
	return v
}

// AppendUint appends n as Uint reads it.
func AppendUint(b []byte, n uint64) []byte {
	if n < 240 {
		return append(b, byte(n))
	}
	b = append(b, byte(n)|240)
	for n = (n - 240) >> 4; n >= 128; n = (n - 128) >> 7 {
		b = append(b, byte(n)|128)
	}
	return append(b, byte(n))
}

// AppendText appends s as Text reads it.
func AppendText(b []byte, s string) []byte {
	return append(AppendUint(b, uint64(len(s))), s...)
}

// AppendValue appends v as Value reads it.
func AppendValue(b []byte, v Value) []byte {
	switch v.Kind {
	case Bool:
		return append(b, byte(Bool)|byte(v.Number&1)<<4)
	case Int32, Uint32, Int64, Uint64:
		return AppendUint(append(b, byte(v.Kind)), v.Number)
	case IPv4, IPv6:
		return append(append(b, byte(v.Kind)), v.Text...)
	case String, Binary:
		return AppendText(append(b, byte(v.Kind)), v.Text)
	}
	return append(b, byte(Null))
}
