package crs

import (
	"testing"
	"time"

	"github.com/weirgate/weir/internal/racing"
	"github.com/weirgate/weir/waf/waftest"
)

// What is made to cost more than it should does not.
func TestCost(t *testing.T) {
	racing.Skip(t)
	waftest.Cost(t, load(t, Options{}), 250*time.Millisecond, 300)
}
