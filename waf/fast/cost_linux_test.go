package fast

import (
	"testing"
	"time"

	"github.com/weirgate/weir/waf/waftest"
)

// What is made to cost more than it should does not.
func TestCost(t *testing.T) { waftest.Cost(t, build(t), 250*time.Millisecond, 300) }
