package limiters

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"
	"time"
)

// A contender that counted otherwise would be compared for another job.
func TestEveryContenderRefusesAfterTen(t *testing.T) {
	for _, l := range all() {
		if l.name == nothing {
			continue
		}
		t.Run(l.name, func(t *testing.T) {
			ask := l.open(options{refuse: true, window: time.Minute})()
			passed := 0
			for range 50 {
				if ask("ip:10.0.0.1") {
					passed++
				}
			}
			if passed != 10 {
				t.Errorf("%d of 50 passed, want 10", passed)
			}
			if !ask("ip:10.0.0.2") {
				t.Error("another client was refused")
			}
		})
	}
}

func TestEveryContenderLetsPassWhatIsUnderTheLimit(t *testing.T) {
	for _, l := range all() {
		ask := l.open(options{window: time.Minute})()
		for i, key := range keys(1000) {
			if !ask(key) || !ask("ip:10.0.0.1") {
				t.Errorf("%s: request %d was refused", l.name, i)
				break
			}
		}
	}
}

func TestChildAnswersEachJob(t *testing.T) {
	var out bytes.Buffer
	in := strings.NewReader(`{"what":"open","load":"hot","cpus":1}` + `{"what":"speed","cpus":1,"for":5000000}`)
	if err := Child(weirName, in, &out); err != nil {
		t.Fatal(err)
	}
	results := json.NewDecoder(&out)
	var opened, speed result
	if err := results.Decode(&opened); err != nil {
		t.Fatal(err)
	}
	if err := results.Decode(&speed); err != nil {
		t.Fatal(err)
	}
	if speed.NS <= 0 || speed.Passed != 1 {
		t.Errorf("speed %+v, want a time and everything passed", speed)
	}
	if err := Child("nobody", strings.NewReader(""), &out); err == nil {
		t.Error("a limiter that there is not was opened")
	}
}
