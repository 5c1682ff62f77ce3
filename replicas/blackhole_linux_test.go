package replicas_test

import (
	"fmt"
	"net"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/weirgate/weir/internal/timed"
)

// blackHole returns an address where packets are lost: its queue of connections is full, and nobody
// accepts any.
func blackHole(t *testing.T) string {
	t.Helper()
	fd, err := syscall.Socket(syscall.AF_INET, syscall.SOCK_STREAM|syscall.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { syscall.Close(fd) })
	if err := syscall.Bind(fd, &syscall.SockaddrInet4{Addr: [4]byte{127, 0, 0, 1}}); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Listen(fd, 0); err != nil {
		t.Fatal(err)
	}
	name, err := syscall.Getsockname(fd)
	if err != nil {
		t.Fatal(err)
	}
	addr := fmt.Sprintf("127.0.0.1:%d", name.(*syscall.SockaddrInet4).Port)
	for range 2 { // the one that fits, and one that shows that no other does
		if c, err := net.DialTimeout("tcp", addr, brief); err == nil {
			t.Cleanup(func() { c.Close() })
		}
	}
	return addr
}

// FAL-01: an address that swallows everything, connections among it, from the start.
func TestBlackHole(t *testing.T) {
	t.Parallel()
	addr, s, c := blackHole(t), startService(t), newCrowd(t)
	r := startReplica(t, basics(s)+fmt.Sprintf("store: {redis: {url: \"redis://%s\"}}\n", addr)+rules(5))
	if diff := cmp.Diff(tally{200: 5, 429: 15}, c.hammer([]string{r.url}, "/fixed_window", c.fresh(), 20)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	eventually(t, timed.Bound(recovered), "a line that names the address", func() bool {
		c.ask(r.url+"/fixed_window", c.fresh()) // three that this machine has no time for say nothing
		return len(r.warnings(addr)) > 0
	})
	if all := r.warnings(""); len(all) > 2 {
		t.Errorf("want at most two warnings: %v", all)
	}
	t.Log(r.warnings(""))
	if n := r.metric("weir_store_breaker_open"); n != 1 {
		t.Errorf("the breaker is %v", n)
	}
}
