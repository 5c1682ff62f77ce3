package apikey

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/weirgate/weir"
)

func TestVerify(t *testing.T) {
	h := build(t, Options{})
	k, secret := h.create(Spec{Name: "a", Plan: "free", Scopes: []string{"read"}})
	want := weir.Client{APIKey: k.ID, Plan: "free", Scopes: []string{"read"}, Credential: weir.Verified}
	if diff := cmp.Diff(want, h.verify(secret), cmp.AllowUnexported(), cmp.Comparer(func(a, b weir.Client) bool { return fmt.Sprint(a) == fmt.Sprint(b) })); diff != "" {
		t.Errorf("a good key (-want +got):\n%s", diff)
	}
	_, unknown := newSecret()
	for what, text := range map[string]string{
		"unknown": unknown, "a typing error": secret[:20] + "!" + secret[21:], "another id": unknown[:17] + secret[17:], "another prefix": "Weir_" + secret[5:],
		"another check": secret[:length-1] + "!", "another mark": secret[:17] + "-" + secret[18:], "no key at all": "secret", "cut": secret[:length-1],
		"with a byte of HAProxy's": secret + "\x00", "upper case": strings.ToUpper(secret), "60 KB": strings.Repeat(secret, 900),
	} {
		if got := h.verify(text); got.Credential != weir.Refuted || got.APIKey != "" || got.Plan != "" || got.Scopes != nil {
			t.Errorf("%s: %+v, want it refuted", what, got)
		}
	}
	if got := h.verify(""); got.Credential != weir.NoCredential {
		t.Errorf("none: %s", got.Credential)
	}
}

// A key is good up to the nanosecond before it expires; a revoked one is not from the moment on that the
// change was made, and neither tells that it ever was one.
func TestEnds(t *testing.T) {
	h := build(t, Options{})
	_, expiring := h.create(Spec{Name: "a", Expires: noon.Add(time.Hour)})
	k, revoked := h.create(Spec{Name: "b"})
	h.now = noon.Add(time.Hour - 1)
	if got := h.verify(expiring).Credential; got != weir.Verified {
		t.Errorf("a nanosecond before its end: %s", got)
	}
	h.now = noon.Add(time.Hour)
	if _, err := h.Revoke(t.Context(), k.ID); err != nil {
		t.Fatal(err)
	}
	for _, secret := range []string{expiring, revoked} {
		if got := h.verify(secret); got.Credential != weir.Refuted || got.APIKey != "" {
			t.Errorf("afterwards: %+v", got)
		}
	}
}

// Old and new are one key: they have one id, so that a rotation gives nobody a fresh bucket.
func TestRotate(t *testing.T) {
	h := build(t, Options{})
	k, first := h.create(Spec{Name: "a"})
	_, next, err := h.Rotate(t.Context(), k.ID, time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	steps := []struct {
		at         time.Duration
		first, new weir.Credential
	}{
		{0, weir.Verified, weir.Verified},
		{time.Hour - 1, weir.Verified, weir.Verified},
		{time.Hour, weir.Refuted, weir.Verified},
	}
	for _, step := range steps {
		h.now = noon.Add(step.at)
		old, new := h.verify(first), h.verify(next)
		if old.Credential != step.first || new.Credential != step.new || new.APIKey != k.ID || old.Credential == weir.Verified && old.APIKey != k.ID {
			t.Errorf("after %s: old %+v, new %+v", step.at, old, new)
		}
	}
	h.now = noon
	if _, last, err := h.Rotate(t.Context(), k.ID, 0); err != nil || h.verify(first).Credential != weir.Refuted ||
		h.verify(next).Credential != weir.Refuted || h.verify(last).Credential != weir.Verified {
		t.Errorf("a rotation without overlap (%v) leaves the last key alone", err)
	}
	for _, overlap := range []time.Duration{-1, MostOverlap + 1} {
		if _, _, err := h.Rotate(t.Context(), k.ID, overlap); !errors.Is(err, ErrInvalid) {
			t.Errorf("an overlap of %s: %v", overlap, err)
		}
	}
}

// A key of a plan that the configuration lacks is no free pass, and comes up when the configuration is loaded.
func TestUnknownPlan(t *testing.T) {
	h := build(t, Options{})
	_, free := h.create(Spec{Name: "a", Plan: "free"})
	gold, secret := h.create(Spec{Name: "b", Plan: "gold"})
	if got := h.verify(secret); got.Credential != weir.Refuted || got.Plan != "" || h.verify(free).Credential != weir.Verified {
		t.Errorf("%+v", got)
	}
	if diff := cmp.Diff(map[string]string{"gold": gold.ID}, h.Strays(usual().Plans)); diff != "" {
		t.Errorf("strays (-want +got):\n%s", diff)
	}
	if _, err := h.Revoke(t.Context(), gold.ID); err != nil || len(h.Strays(usual().Plans)) > 0 {
		t.Errorf("strays of a revoked key: %v (%v)", h.Strays(usual().Plans), err)
	}
}

// With another process's changes it is the poll that brings them.
func TestOthersChanges(t *testing.T) {
	h := build(t, Options{Poll: time.Hour})
	other := open(t, NewStore(h.db, nil), Options{Poll: time.Hour, Now: func() time.Time { return h.now }})
	k, secret, err := other.Create(t.Context(), Spec{Name: "a"})
	if err != nil || h.verify(secret).Credential != weir.Refuted {
		t.Fatalf("before the poll it is known (%v)", err)
	}
	h.sync(t, weir.Verified, secret)
	if _, err := other.Revoke(t.Context(), k.ID); err != nil {
		t.Fatal(err)
	}
	h.sync(t, weir.Refuted, secret)
}

func (h *house) sync(t *testing.T, want weir.Credential, secret string) {
	t.Helper()
	if err := h.Sync(t.Context()); err != nil || h.verify(secret).Credential != want {
		t.Errorf("after the poll (%v): %s, want %s", err, h.verify(secret).Credential, want)
	}
}

// While the database is away, keys that are known go on for the grace, to the nanosecond, and of others nobody
// can say. What cannot be a key is known all the same.
func TestGrace(t *testing.T) {
	h := build(t, Options{Poll: time.Hour})
	_, secret := h.create(Spec{Name: "a"})
	_, unknown := newSecret()
	h.db.Close()
	h.now = noon.Add(30 * time.Second)
	if h.Sync(t.Context()) == nil {
		t.Fatal("a closed database answers")
	}
	steps := []struct {
		at                    time.Duration
		known, unknown, wrong weir.Credential
	}{
		{30 * time.Second, weir.Verified, weir.Unverifiable, weir.Refuted},
		{time.Minute, weir.Verified, weir.Unverifiable, weir.Refuted},
		{time.Minute + 1, weir.Unverifiable, weir.Unverifiable, weir.Refuted},
	}
	for _, step := range steps {
		h.now = noon.Add(step.at)
		got := []weir.Credential{h.verify(secret).Credential, h.verify(unknown).Credential, h.verify(secret[:20] + "!" + secret[21:]).Credential}
		if diff := cmp.Diff([]weir.Credential{step.known, step.unknown, step.wrong}, got); diff != "" {
			t.Errorf("after %s (-want +got):\n%s", step.at, diff)
		}
	}
	if !h.Failing() || h.Errors() == 0 || h.Age() != time.Minute+1 {
		t.Errorf("failing %v, errors %d, age %s", h.Failing(), h.Errors(), h.Age())
	}
}

// A process that never reached its database verifies nobody.
func TestNoDatabase(t *testing.T) {
	db := embedded(t)
	db.Close()
	k := open(t, NewStore(db, nil), Options{Poll: time.Hour, Now: func() time.Time { return noon }})
	h := &house{Keys: k, t: t, now: noon}
	_, secret := newSecret()
	if got := h.verify(secret); got.Credential != weir.Unverifiable {
		t.Errorf("%s", got.Credential)
	}
	if _, _, err := k.Create(t.Context(), Spec{Name: "a"}); err == nil {
		t.Error("a key is created without a database")
	}
}

// A database that was restored from an older copy, or is another one, is read anew: what was revoked since is
// what the copy says, and what it does not know is unknown.
func TestRestored(t *testing.T) {
	h := build(t, Options{Poll: time.Hour})
	k, secret := h.create(Spec{Name: "a"})
	_, younger := h.create(Spec{Name: "b"})
	for _, statement := range []string{`DELETE FROM weir_keys WHERE id <> '` + k.ID + `'`, `UPDATE weir_key_changes SET changes = 1`} {
		if _, err := h.db.Exec(statement); err != nil {
			t.Fatal(err)
		}
	}
	h.sync(t, weir.Verified, secret)
	h.sync(t, weir.Refuted, younger)
	if _, err := h.db.Exec(`UPDATE weir_key_changes SET pepper = $1`, strings.Repeat("ab", 32)); err != nil {
		t.Fatal(err)
	}
	h.sync(t, weir.Refuted, secret)
}

// More changes than one question brings.
func TestManyChanges(t *testing.T) {
	h := build(t, Options{})
	secrets := fill(t, h.db, 2*page+1)
	if err := h.Sync(t.Context()); err != nil || h.Known() != len(secrets) {
		t.Fatalf("%d of %d keys are known (%v)", h.Known(), len(secrets), err)
	}
	for _, secret := range []string{secrets[0], secrets[page], secrets[2*page]} {
		if got := h.verify(secret).Credential; got != weir.Verified {
			t.Errorf("%s", got)
		}
	}
}

// fill puts n keys into a database at once.
func fill(t testing.TB, db *sql.DB, n int) (secrets []string) {
	t.Helper()
	is, err := NewStore(db, nil).state(context.Background(), db)
	if err != nil {
		t.Fatal(err)
	}
	tx, err := db.Begin()
	if err != nil {
		t.Fatal(err)
	}
	for i := range n {
		id, secret := newSecret()
		secrets = append(secrets, secret)
		if _, err := tx.Exec(`INSERT INTO weir_keys VALUES ($1, 'a', '', '', '', 1, 0, 0, 0, $2, '', 0, $3)`, id, is.pepper.hex(secret), is.changes+int64(i)+1); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := tx.Exec(`UPDATE weir_key_changes SET changes = changes + $1`, n); err != nil {
		t.Fatal(err)
	}
	if err := tx.Commit(); err != nil {
		t.Fatal(err)
	}
	return secrets
}

// The last use is written once a minute, and looking is no use.
func TestLastUse(t *testing.T) {
	h := build(t, Options{})
	k, secret := h.create(Spec{Name: "a"})
	steps := []struct {
		at, want time.Duration
	}{{0, 0}, {59 * time.Second, 0}, {60 * time.Second, 60 * time.Second}}
	for _, step := range steps {
		h.now = noon.Add(step.at)
		h.verify(secret)
		if err := h.writeUses(t.Context()); err != nil {
			t.Fatal(err)
		}
		if got, err := h.Get(t.Context(), k.ID); err != nil || !got.LastUsed.Equal(noon.Add(step.want)) {
			t.Errorf("after %s: last used %s (%v), want noon + %s", step.at, got.LastUsed, err, step.want)
		}
	}
	h.now = noon.Add(time.Hour)
	d := weir.Decision{At: h.now, Request: weir.Request{Header: http.Header{"X-Api-Key": {secret}}}}
	h.Verifier(usual()).Peek(t.Context(), &d)
	if d.Client.APIKey != k.ID || len(h.uses) > 0 || h.Checks()["verified"] != 3 {
		t.Errorf("looking: %+v, %d uses, checks %v", d.Client, len(h.uses), h.Checks())
	}
}

// A database that is away loses uses, never memory.
func TestUsesAreBounded(t *testing.T) {
	h := build(t, Options{})
	for range mostUses + 10 {
		h.note(&entry{id: "a"}, noon)
	}
	if len(h.uses) > mostUses {
		t.Errorf("%d uses wait", len(h.uses))
	}
	if err := h.writeUses(t.Context()); err != nil {
		t.Error(err)
	}
}

// Somebody guesses 100,000 keys: no question is asked, and nothing is kept.
func TestGuessing(t *testing.T) {
	h := build(t, Options{Poll: time.Hour})
	h.create(Spec{Name: "a"})
	h.db.Close() // a question would fail
	v := h.Verifier(usual())
	guesses := make([]string, 1000)
	for i := range guesses {
		_, guesses[i] = newSecret()
	}
	before := heap()
	d := weir.Decision{At: noon, Request: weir.Request{Header: http.Header{"X-Api-Key": {""}}}}
	for i := range 100_000 {
		d.Client = weir.Client{}
		d.Request.Header["X-Api-Key"][0] = guesses[i%len(guesses)]
		if v.Verify(t.Context(), &d); d.Client.Credential != weir.Refuted {
			t.Fatalf("guess %d: %s", i, d.Client.Credential)
		}
	}
	if grown := heap() - before; grown > 64<<10 {
		t.Errorf("%d bytes more after 100,000 guesses", grown)
	}
	if h.Errors() > 0 || h.Known() != 1 {
		t.Errorf("%d errors of the database, %d keys known", h.Errors(), h.Known())
	}
}

func heap() int64 {
	var m runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

// Verifying takes no memory, whatever the answer is.
func TestAllocations(t *testing.T) {
	h := build(t, Options{})
	_, secret := h.create(Spec{Name: "a", Plan: "free", Scopes: []string{"read"}})
	_, unknown := newSecret()
	v := h.Verifier(usual())
	for _, text := range []string{secret, unknown, "short"} {
		d := weir.Decision{At: noon, Request: weir.Request{Header: http.Header{"X-Api-Key": {text}}, Query: "a=b&api_key=" + text}}
		if n := testing.AllocsPerRun(100, func() { d.Client = weir.Client{}; v.Verify(t.Context(), &d) }); n > 0 {
			t.Errorf("%.5s…: %v allocations", text, n)
		}
	}
}

// Requests and changes at once.
func TestConcurrentUse(t *testing.T) {
	h := build(t, Options{Poll: time.Millisecond})
	stays, secret := h.create(Spec{Name: "stays"})
	done := make(chan struct{})
	go func() {
		defer close(done)
		for range 20 {
			k, _, err := h.Create(context.Background(), Spec{Name: "goes"})
			if err == nil {
				_, err = h.Revoke(context.Background(), k.ID)
			}
			if err != nil {
				t.Error(err)
			}
		}
	}()
	for busy := true; busy; {
		if got := h.verify(secret); got.APIKey != stays.ID {
			t.Fatalf("%+v", got)
		}
		select {
		case <-done:
			busy = false
		default:
		}
	}
}

func BenchmarkVerify(b *testing.B) {
	for _, n := range []int{1, 100_000} {
		b.Run(fmt.Sprintf("keys=%d", n), func(b *testing.B) {
			h := build(b, Options{})
			secrets := fill(b, h.db, n)
			for h.Known() < n {
				if err := h.Sync(b.Context()); err != nil {
					b.Fatal(err)
				}
			}
			v := h.Verifier(usual())
			line := []string{""}
			d := weir.Decision{At: noon, Request: weir.Request{Header: http.Header{"X-Api-Key": line}}}
			rand.Shuffle(n, func(i, j int) { secrets[i], secrets[j] = secrets[j], secrets[i] })
			i := 0
			b.ReportAllocs()
			for b.Loop() {
				line[0] = secrets[i%min(n, 1000)]
				i++
				d.Client.Credential = weir.NoCredential
				v.Verify(context.Background(), &d)
			}
			if d.Client.Credential != weir.Verified {
				b.Fatal(d.Client.Credential)
			}
		})
	}
}
