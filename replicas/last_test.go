package replicas_test

import (
	"fmt"
	"net/http"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/weirgate/weir/internal/redistest"
)

// sameDay skips a test in the minutes in which the day ends.
func sameDay(t *testing.T) {
	if lateInTheDay() {
		t.Skip("the day ends")
	}
}

// written is waited until what is promised to be on disk after a second is there, however busy the machine.
const written = 4 * time.Second

// The counts of a quota in memory outlive the process but for at most the last second's.
func TestQuotaOutlivesKill(t *testing.T) {
	sameDay(t)
	const most, used, late = 1000, 300, 50
	yaml := basics(startService(t)) + fmt.Sprintf("data_dir: %q\n", t.TempDir()) +
		fmt.Sprintf("default: {limits: [{quota: %d/day, per: client}]}\n", most)
	c := newCrowd(t)
	client := c.fresh()
	r := startReplica(t, yaml)
	if diff := cmp.Diff(tally{200: used}, c.hammer([]string{r.url}, "/", client, used)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	time.Sleep(written)
	if diff := cmp.Diff(tally{200: late}, c.hammer([]string{r.url}, "/", client, late)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	r.kill()

	r = startReplica(t, yaml)
	got := c.hammer([]string{r.url}, "/", client, most)[http.StatusOK]
	t.Logf("%d of the last %d hits before the kill were forgotten", got-(most-used-late), late)
	if got < most-used-late || got > most-used {
		t.Errorf("%d passed after the kill, want %d to %d", got, most-used-late, most-used)
	}
}

// With Redis no restart of a replica, however it ends, forgets anything.
func TestCountsOutliveReplicas(t *testing.T) {
	sameDay(t)
	const most, used = 100, 60
	yaml := basics(startService(t)) + patient(redistest.Start(t).URL()) + rules(most) +
		fmt.Sprintf("default: {limits: [{quota: %d/day, per: client}]}\n", most)
	c := newCrowd(t)
	client := c.fresh()
	for _, want := range []tally{{200: used}, {200: most - used, 429: 2*used - most}, {429: used}} {
		r := startReplica(t, yaml)
		for _, path := range []string{"/", "/fixed_window", "/sliding_window", "/sliding_log", "/token_bucket"} {
			if diff := cmp.Diff(want, c.hammer([]string{r.url}, path, client, used)); diff != "" {
				t.Errorf("%s (-want +got):\n%s", path, diff)
			}
		}
		r.kill()
	}
}
