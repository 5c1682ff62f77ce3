package browser_test

import (
	"net/http"
	"testing"

	"github.com/weirgate/weir/internal/leaktest"
)

// What a test began has ended with it, browsers included.
func TestMain(m *testing.M) {
	leaktest.Main(m, http.DefaultClient.CloseIdleConnections)
}
