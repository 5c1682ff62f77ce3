package replicas_test

import (
	"fmt"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/weirgate/weir/internal/proctest"
	"github.com/weirgate/weir/internal/redistest"
	"github.com/weirgate/weir/internal/timed"
)

// A shard is a stage whose Redis is a Cluster, and the node that counts a client who used some hits.
type shard struct {
	*stage
	cluster *redistest.Cluster
	node    *redistest.Server
	client  string
}

const usedOfShard = 3 // of shared

func newShard(t *testing.T) *shard {
	t.Helper()
	s := &shard{stage: &stage{crowd: newCrowd(t), service: startService(t)}, cluster: redistest.StartCluster(t, 3)}
	s.replicas, s.urls = startReplicas(t, pair, basics(s.service)+outageRules(s.cluster.URL()))
	eventually(t, patience, "a shared count", s.countsTogether)
	s.calmly(t, func() {
		s.client = s.fresh()
		for range usedOfShard {
			s.ask(s.urls[0]+"/shared", s.client)
		}
	})
	_, s.node = slotOf(t, s.cluster, s.client)
	return s
}

// counted reports whether Redis counts the client in all replicas.
func (s *shard) counted() bool {
	before := sum(s.replicas, "weir_store_fallback_total")
	for _, url := range s.urls {
		s.ask(url+"/steady", s.client)
	}
	return sum(s.replicas, "weir_store_fallback_total") == before
}

// killNode kills the client's node under load, and checks that all are answered meanwhile.
func (s *shard) killNode(t *testing.T) *load {
	t.Helper()
	load := s.startLoad(s.urls, "/steady", "/allow")
	time.Sleep(300 * time.Millisecond) // of load before
	s.node.Kill()
	eventually(t, timed.Bound(noticed), "fallbacks counted", func() bool { return !s.counted() })
	got := s.hammer(s.urls, "/shared", s.client, 40)
	if got[200]+got[429] != 40 || got[200] > shared {
		t.Errorf("%v, want at most %d of 40 passed and the others refused", got, shared)
	}
	return load
}

// A node of a Cluster that nobody replaces: its clients are counted locally, and by it when it is back;
// the clients of the other nodes are counted by those. No request fails.
func TestClusterNodeKilled(t *testing.T) {
	t.Parallel()
	s := newShard(t)
	load := s.killNode(t)
	time.Sleep(2 * time.Second) // which is longer than all others take to notice
	s.node.Run()
	eventually(t, patience, "a whole Cluster", func() bool {
		return strings.Contains(fmt.Sprint(s.node.Do("CLUSTER", "INFO")), "cluster_state:ok")
	})
	back := eventually(t, timed.Bound(recovered), "a count by Redis", s.counted)
	t.Logf("counted again after %v", back.Round(time.Millisecond))
	allPassed(t, load.end())
	time.Sleep(time.Second)                                    // a refusal is believed no longer
	s.exactly(t, s.urls, s.client, tally{200: shared, 429: 9}) // by an empty node
}

// A node that has a replica: the replica takes over with the counts, and Weir follows.
func TestClusterNodeReplaced(t *testing.T) {
	t.Parallel()
	s := newShard(t)
	second := addReplica(t, s.cluster, s.node)
	load := s.killNode(t)
	took := eventually(t, patience, "another master", func() bool { return second.Info("replication", "role") == "master" })
	back := eventually(t, timed.Bound(recovered), "a count by Redis", s.counted)
	t.Logf("another master after %v, counted again %v later", took.Round(time.Millisecond), back.Round(time.Millisecond))
	allPassed(t, load.end())
	time.Sleep(time.Second) // a refusal is believed no longer
	const left = shared - usedOfShard
	s.exactly(t, s.urls, s.client, tally{200: left, 429: 20 - left}) // by the node that took over
}

// addReplica adds to the Cluster a node that has all of the master's counts and takes over from it.
func addReplica(t *testing.T, c *redistest.Cluster, master *redistest.Server) *redistest.Server {
	t.Helper()
	addr, err := proctest.QuietAddress()
	if err != nil {
		t.Fatal(err)
	}
	_, bus, _ := net.SplitHostPort(addr)
	s := redistest.Start(t, "--cluster-enabled", "yes", "--cluster-port", bus, "--cluster-node-timeout", "2000")
	port := master.Do("CONFIG", "GET", "cluster-port").([]any)[1].(string)
	s.Do("CLUSTER", "MEET", "127.0.0.1", master.Port(), port)
	eventually(t, patience, "a place in the Cluster", func() bool {
		_, err := s.Try("CLUSTER", "REPLICATE", master.ID())
		return err == nil && s.Info("replication", "role") == "slave"
	})
	eventually(t, patience, "the master's counts, and that all know", func() bool {
		for _, node := range c.Nodes {
			if !strings.Contains(fmt.Sprint(node.Do("CLUSTER", "NODES")), "slave "+master.ID()) {
				return false
			}
		}
		return s.Info("replication", "master_link_status") == "up"
	})
	return s
}
