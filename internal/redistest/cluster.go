package redistest

import (
	"fmt"
	"net"
	"strconv"
	"strings"
	"testing"
	"time"
)

// A Cluster is some servers that share the slots evenly.
type Cluster struct {
	Nodes []*Server
	t     testing.TB
}

// slots is how many slots a Cluster has.
const slots = 16384

// StartCluster starts a Cluster of n masters, and returns once all of them know all.
func StartCluster(t testing.TB, n int) *Cluster {
	t.Helper()
	c := &Cluster{t: t}
	for range n {
		_, bus, _ := net.SplitHostPort(freeAddr(t))
		c.Nodes = append(c.Nodes, Start(t, "--cluster-enabled", "yes", "--cluster-port", bus, "--cluster-node-timeout", "2000"))
	}
	for i, node := range c.Nodes {
		node.Do("CLUSTER", "ADDSLOTSRANGE", strconv.Itoa(slots*i/n), strconv.Itoa(slots*(i+1)/n-1))
		node.Do("CONFIG", "SET", "cluster-require-full-coverage", "no")
		if i > 0 {
			node.Do("CLUSTER", "SET-CONFIG-EPOCH", strconv.Itoa(i+1))
		}
	}
	for _, node := range c.Nodes[1:] {
		c.Nodes[0].Do("CLUSTER", "MEET", "127.0.0.1", node.Port(), node.busPort())
	}
	c.settle()
	return c
}

// busPort is the port on which a node speaks to the others.
func (s *Server) busPort() string {
	s.t.Helper()
	answer, ok := s.Do("CONFIG", "GET", "cluster-port").([]any)
	if !ok || len(answer) != 2 {
		s.t.Fatalf("no cluster-port: %v", answer)
	}
	return answer[1].(string)
}

// settle waits until every node knows the others and who has which slots.
func (c *Cluster) settle() {
	c.t.Helper()
	until := time.Now().Add(ready)
	for _, node := range c.Nodes {
		for !node.knows(len(c.Nodes)) {
			if time.Now().After(until) {
				c.t.Fatalf("the Cluster does not come together: %v", node.Do("CLUSTER", "INFO"))
			}
			time.Sleep(20 * time.Millisecond)
		}
	}
}

func (s *Server) knows(n int) bool {
	info, _ := s.Do("CLUSTER", "INFO").(string)
	if fieldOf(info, "cluster_state") != "ok" || fieldOf(info, "cluster_slots_assigned") != strconv.Itoa(slots) {
		return false
	}
	nodes, _ := s.Do("CLUSTER", "NODES").(string)
	return strings.Count(nodes, "\n") == n && strings.Count(nodes, "connected") == n && !strings.Contains(nodes, "disconnected")
}

// URL names all nodes.
func (c *Cluster) URL() string {
	var urls []string
	for _, node := range c.Nodes {
		urls = append(urls, node.URL())
	}
	return strings.Join(urls, ",")
}

// ID is the name that a node has in its Cluster.
func (s *Server) ID() string {
	id, _ := s.Do("CLUSTER", "MYID").(string)
	return id
}

// Holder is the node that holds a slot.
func (c *Cluster) Holder(slot int) *Server {
	c.t.Helper()
	for _, node := range c.Nodes {
		if _, err := node.Try("CLUSTER", "COUNTKEYSINSLOT", strconv.Itoa(slot)); err != nil {
			c.t.Fatal(err)
		}
		if answer := fmt.Sprint(node.Do("CLUSTER", "NODES")); ownsSlot(answer, slot) {
			return node
		}
	}
	c.t.Fatalf("nobody holds slot %d", slot)
	return nil
}

// ownsSlot reports whether the node that lists the nodes holds slot.
func ownsSlot(nodes string, slot int) bool {
	for line := range strings.Lines(nodes) {
		fields := strings.Fields(line)
		if len(fields) < 9 || !strings.Contains(fields[2], "myself") {
			continue
		}
		for _, r := range fields[8:] {
			from, to, isRange := strings.Cut(r, "-")
			low, err := strconv.Atoi(from)
			high := low
			if isRange {
				high, _ = strconv.Atoi(to)
			}
			if err == nil && low <= slot && slot <= high {
				return true
			}
		}
	}
	return false
}

// BeginMove begins to move a slot: what is in it is still answered by from, what is new by to.
func (c *Cluster) BeginMove(slot int, from, to *Server) {
	c.t.Helper()
	to.Do("CLUSTER", "SETSLOT", strconv.Itoa(slot), "IMPORTING", from.ID())
	from.Do("CLUSTER", "SETSLOT", strconv.Itoa(slot), "MIGRATING", to.ID())
}

// EndMove moves what is in the slot, and tells all nodes.
func (c *Cluster) EndMove(slot int, from, to *Server) {
	c.t.Helper()
	keys, _ := from.Do("CLUSTER", "GETKEYSINSLOT", strconv.Itoa(slot), "10000").([]any)
	for _, key := range keys {
		from.Do("MIGRATE", "127.0.0.1", to.Port(), key.(string), "0", "5000")
	}
	for _, node := range append([]*Server{to, from}, c.Nodes...) {
		node.Do("CLUSTER", "SETSLOT", strconv.Itoa(slot), "NODE", to.ID())
	}
}
