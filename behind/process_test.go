package behind_test

import (
	"errors"
	"io"

	"github.com/weirgate/weir/internal/proctest"
)

const patience = proctest.Patience

var errNotYet = errors.New("not yet")

// drop reads the rest of a body, so that its connection can be used again, and closes it.
func drop(body io.ReadCloser) {
	io.Copy(io.Discard, io.LimitReader(body, 1<<20))
	body.Close()
}
