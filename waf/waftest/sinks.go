package waftest

import (
	"fmt"
	"testing"

	"github.com/weirgate/weir/waf"
)

// EachSecret calls f with every secret, in every shape, at every place of a request.
func EachSecret(t *testing.T, f func(secret string, in *waf.Input)) {
	for _, secret := range secrets {
		for _, shape := range shapes {
			for _, in := range planted(t, fmt.Sprintf(shape, secret)) {
				f(secret, in)
			}
		}
	}
}

// Leaks returns every secret of which said holds ten bytes in a row, as those.
func Leaks(said string) []string {
	var pieces []string
	for _, secret := range secrets {
		if piece := leak(said, secret); piece != "" {
			pieces = append(pieces, piece)
		}
	}
	return pieces
}
