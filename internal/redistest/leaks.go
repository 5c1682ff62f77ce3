package redistest

import "go.uber.org/goleak"

// Redials is for the leak check of tests that close a client whose server is away: the client library looks for
// a server once a second, and sees only then that it is closed.
func Redials() goleak.Option {
	return goleak.IgnoreAnyFunction("github.com/redis/go-redis/v9/internal/pool.(*ConnPool).tryDial")
}
