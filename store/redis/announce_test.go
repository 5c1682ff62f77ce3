package redis

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/weirgate/weir/internal/redistest"
)

// CFG-12: who counts under the same prefix by another policy is named, once, on both sides; a replica
// with the same policy and one with another prefix are not.
func TestOtherPolicyIsFound(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	production, log := openTelling(t, Options{URL: server.URL()})
	production.Announce("aaaa", "web-1")
	same, _ := openTelling(t, Options{URL: server.URL()})
	same.Announce("aaaa", "web-2")
	apart, _ := openTelling(t, Options{URL: server.URL(), Prefix: "staging"})
	apart.Announce("bbbb", "staging-1")
	key := "weir:{weir}:policy"
	eventually(t, "an announcement", func() error {
		if v := server.Do("GET", key); v == nil {
			return fmt.Errorf("%s is not there", key)
		}
		return nil
	})
	time.Sleep(2 * pause)
	for _, s := range []*Store{production, same, apart} {
		lookAgain(s)
	}
	time.Sleep(2 * pause)
	for _, s := range []*Store{production, same, apart} {
		found(t, s)
	}
	if ms := ttl(t, server, key); ms <= 0 || ms > int(policyTerm/time.Millisecond) {
		t.Errorf("it expires in %d ms, want at most %v", ms, policyTerm)
	}
	other, otherLog := openTelling(t, Options{URL: server.URL()})
	other.Announce("cccc", "laptop")
	found(t, other, OtherPolicy)
	lookAgain(production)
	found(t, production, OtherPolicy)
	lookAgain(production)
	time.Sleep(2 * pause)
	if diff := cmp.Diff([]string{"laptop"}, log.about(OtherPolicy, "other replica")); diff != "" {
		t.Errorf("in production (-want +got):\n%s", diff)
	}
	if names := otherLog.about(OtherPolicy, "other replica"); len(names) != 1 || !strings.HasPrefix(names[0], "web-") {
		t.Errorf("on the other side: %v", names)
	}
	production.Announce("cccc", "web-1") // the roll-out comes here, too
	found(t, production)
}

// What others left under the prefix is text of any kind.
func TestStrangeAnnouncement(t *testing.T) {
	server := redistest.Start(t)
	s, log := openTelling(t, Options{URL: server.URL()})
	for _, left := range []string{"", "aaaa", "aaaa web-1", " ", strings.Repeat("x", 1000) + " " + strings.Repeat("y\n", 1000)} {
		server.Do("SET", "weir:{weir}:policy", left)
		_, _ = s.exchange(context.Background(), &policy{"aaaa", "web-1"})
	}
	server.Do("DEL", "weir:{weir}:policy")
	server.Do("LPUSH", "weir:{weir}:policy", "1")
	if other, known := s.exchange(context.Background(), &policy{"aaaa", "web-1"}); known {
		t.Errorf("a list was read as %+v", other)
	}
	if len(log.lines) != 0 {
		t.Errorf("told %v", log.lines)
	}
	var o others
	o.reset(&policy{"aaaa", "web-1"})
	told := 0
	for i := range 2 * mostPolicies {
		if o.isNews(fmt.Sprint(i)) && !o.isNews(fmt.Sprint(i)) {
			told++
		}
	}
	if told != mostPolicies {
		t.Errorf("told of %d policies, want no more than %d", told, mostPolicies)
	}
}
