package pgtest

import (
	"net"
	"strings"
	"testing"
)

func TestServer(t *testing.T) {
	s := Start(t)
	if !strings.Contains(s.URL(), ":"+s.Port+"/") {
		t.Errorf("%s does not name port %s", s.URL(), s.Port)
	}
	s.run("psql", "-h", "127.0.0.1", "-p", s.Port, "-U", owner, "postgres", "-c", "CREATE TABLE kept (n int)")
	s.Kill()
	if c, err := net.Dial("tcp", "127.0.0.1:"+s.Port); err == nil {
		c.Close()
		t.Error("a dead server answers")
	}
	s.Kill() // twice is no error
	s.Run()
	s.run("psql", "-h", "127.0.0.1", "-p", s.Port, "-U", owner, "postgres", "-c", "INSERT INTO kept VALUES (1)")
}
