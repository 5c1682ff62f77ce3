package config

import (
	"fmt"
	"io"
	"log/slog"
)

// A Secret is a text of the file that nothing prints: whatever writes it, in whichever form, writes (blanked).
// Only a conversion to string shows it.
type Secret string

// String implements fmt.Stringer. It returns what may be shown: nothing, if there is no secret.
func (s Secret) String() string {
	if s == "" {
		return ""
	}
	return blank
}

// Format implements fmt.Formatter, for every verb and flag.
func (s Secret) Format(to fmt.State, _ rune) { _, _ = io.WriteString(to, s.String()) } // there is nobody to tell

// MarshalText implements encoding.TextMarshaler, for JSON, YAML and whatever else writes texts.
func (s Secret) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// LogValue implements slog.LogValuer.
func (s Secret) LogValue() slog.Value { return slog.StringValue(s.String()) }
