package redistest

import (
	"bufio"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestServer(t *testing.T) {
	s := Start(t)
	if got := s.Do("SET", "a", "1"); got != "OK" {
		t.Errorf("SET: %v", got)
	}
	if diff := cmp.Diff([]any{"1", nil}, s.Do("MGET", "a", "b")); diff != "" {
		t.Errorf("MGET (-want +got):\n%s", diff)
	}
	var answer Error
	if _, err := s.Try("INCR", "a", "b"); !errors.As(err, &answer) {
		t.Errorf("a wrong command: %v, want an error that the server answered", err)
	}
	if s.Memory() == 0 || s.Commands() == 0 || s.Calls("set") != 1 || s.Calls("get") != 0 {
		t.Errorf("memory %d, commands %d, sets %d, gets %d", s.Memory(), s.Commands(), s.Calls("set"), s.Calls("get"))
	}
	s.Kill()
	if _, err := s.Try("PING"); err == nil {
		t.Error("a dead server answers")
	}
	s.Run()
	if got := s.Do("GET", "a"); got != nil {
		t.Errorf("after a restart a is %v, want nothing", got)
	}
}

func TestFreeze(t *testing.T) {
	s := Start(t)
	s.Freeze()
	answered := make(chan any, 1)
	go func() { answer, _ := s.Try("PING"); answered <- answer }()
	select {
	case answer := <-answered:
		t.Errorf("a frozen server answers %v", answer)
	case <-time.After(50 * time.Millisecond):
	}
	s.Thaw()
	if got := <-answered; got != "PONG" {
		t.Errorf("after the thaw %v", got)
	}
}

func TestCluster(t *testing.T) {
	c := StartCluster(t, 3)
	if n := len(strings.Split(c.URL(), ",")); n != 3 {
		t.Errorf("%s names %d nodes", c.URL(), n)
	}
	const foo = 12182 // the slot of foo
	from := c.Holder(foo)
	from.Do("SET", "foo", "1")
	to := c.Nodes[0]
	if to == from {
		to = c.Nodes[1]
	}
	c.BeginMove(foo, from, to)
	c.EndMove(foo, from, to)
	if c.Holder(foo) != to || to.Do("GET", "foo") != "1" {
		t.Error("the slot has not moved with what is in it")
	}
}

func TestReadAnswer(t *testing.T) {
	for text, want := range map[string]any{
		"+OK\r\n": "OK", ":-7\r\n": -7, "$3\r\na\r\n\r\n": "a\r\n", "$-1\r\n": nil, "*-1\r\n": nil,
		"*2\r\n:1\r\n*1\r\n$0\r\n\r\n": []any{1, []any{""}}, "-ERR no\r\n": Error("ERR no"),
	} {
		got, err := readAnswer(bufio.NewReader(strings.NewReader(text)))
		if err != nil {
			got = err
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%q (-want +got):\n%s", text, diff)
		}
	}
	for _, text := range []string{"", ":x\r\n", "$5\r\na", "*1\r\n"} {
		if got, err := readAnswer(bufio.NewReader(strings.NewReader(text))); err == nil {
			t.Errorf("%q: %v, want an error", text, got)
		}
	}
}

func TestSentinel(t *testing.T) {
	master := Start(t)
	replica := Start(t, "--replicaof", "127.0.0.1 "+master.Port())
	s := StartSentinel(t, "weir", master, 1)
	if got := fmt.Sprint(s.Do("SENTINEL", "GET-MASTER-ADDR-BY-NAME", "weir")); got != "[127.0.0.1 "+master.Port()+"]" {
		t.Errorf("the master is %s", got)
	}
	if got := replica.Info("replication", "role"); got != "slave" {
		t.Errorf("the replica is a %s", got)
	}
}
