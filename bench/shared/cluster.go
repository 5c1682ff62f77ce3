package shared

import (
	"context"
	"fmt"
	"net"
	"strconv"
	"strings"
	"time"
)

const (
	slots = 1 << 14 // of a Cluster
	nodes = 3
)

// A cluster is some servers that share the slots evenly.
type cluster []*server

// startCluster returns once every node knows who has which slots.
func startCluster() (c cluster, err error) {
	defer func() {
		if err != nil {
			c.close()
			c = nil
		}
	}()
	for i := range nodes {
		bus, err := freePort()
		if err != nil {
			return c, err
		}
		s, err := start("--cluster-enabled", "yes", "--cluster-port", bus)
		if err != nil {
			return c, err
		}
		c = append(c, s)
		if err := s.client.ClusterAddSlotsRange(context.Background(), slots*i/nodes, slots*(i+1)/nodes-1).Err(); err != nil {
			return c, err
		}
		if err := s.client.Do(context.Background(), "CLUSTER", "SET-CONFIG-EPOCH", i+1).Err(); err != nil {
			return c, err
		}
		host, port, _ := net.SplitHostPort(s.addr) // start made it
		for _, other := range c[:i] {
			if err := other.client.Do(context.Background(), "CLUSTER", "MEET", host, port, bus).Err(); err != nil {
				return c, err
			}
		}
	}
	return c, c.settle()
}

// settle waits until all nodes say that all is well.
func (c cluster) settle() error {
	began := time.Now()
	for _, s := range c {
		for !s.settled() {
			if time.Since(began) > 2*ready {
				return fmt.Errorf("the Cluster at %s does not come together", s.addr)
			}
			time.Sleep(20 * time.Millisecond)
		}
	}
	return nil
}

func (s *server) settled() bool {
	text := s.client.ClusterInfo(context.Background()).Val()
	return strings.Contains(text, "cluster_state:ok") && strings.Contains(text, "cluster_known_nodes:"+strconv.Itoa(nodes)+"\r") &&
		strings.Contains(text, "cluster_slots_ok:"+strconv.Itoa(slots)+"\r")
}

func freePort() (string, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	defer l.Close()
	_, port, err := net.SplitHostPort(l.Addr().String())
	return port, err
}

func (c cluster) close() {
	for _, s := range c {
		s.close()
	}
}

// cpu is the processor time that the nodes have used, in seconds.
func (c cluster) cpu() (sum float64) {
	for _, s := range c {
		sum += s.cpu()
	}
	return sum
}

// url names the nodes.
func (c cluster) url() string {
	var urls []string
	for _, s := range c {
		urls = append(urls, "redis://"+s.addr)
	}
	return strings.Join(urls, ",")
}
