package main

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
)

// questions are what is asked: one limit, of some clients in turn.
type questions struct {
	addr, api, key   string
	clients, callers int
	long             time.Duration
}

// Answers are what came of it.
type Answers struct {
	Calls   int     `json:"calls"`
	Refused int     `json:"refused"`
	Seconds float64 `json:"seconds"`
	P50     float64 `json:"p50_us"`
	P99     float64 `json:"p99_us"`
}

// connections are what an Envoy with two workers opens.
const connections = 2

// ready is how long a call waits for the service to come up.
const ready = 5 * time.Second

func (q questions) ask() (*Answers, error) {
	p, ok := protocols()[q.api]
	if !ok {
		return nil, fmt.Errorf("-api %s: want envoy or gubernator", q.api)
	}
	conns := make([]*grpc.ClientConn, connections)
	for i := range conns {
		c, err := grpc.NewClient(q.addr, grpc.WithTransportCredentials(insecure.NewCredentials()), grpc.WithDefaultCallOptions(grpc.ForceCodec(encoded{})))
		if err != nil {
			return nil, err
		}
		defer c.Close()
		conns[i] = c
	}
	messages, err := q.messages(p)
	if err != nil {
		return nil, err
	}
	callers := make([]caller, q.callers)
	var asking sync.WaitGroup
	began := time.Now()
	for i := range callers {
		c := &callers[i]
		c.protocol, c.conn, c.next, c.step = p, conns[i%connections], i, q.callers
		asking.Go(func() { c.run(messages, began.Add(q.long)) })
	}
	asking.Wait()
	return sum(callers, time.Since(began))
}

// messages are encoded beforehand, so that asking costs as little as it may.
func (q questions) messages(p protocol) ([][]byte, error) {
	all := make([][]byte, q.clients)
	for i := range all {
		m, err := p.message(q.key, fmt.Sprintf("10.%d.%d.%d", i>>16, i>>8&255, i&255))
		if err != nil {
			return nil, err
		}
		all[i] = m
	}
	return all, nil
}

// A caller asks again as soon as it is answered.
type caller struct {
	protocol   protocol
	conn       *grpc.ClientConn
	next, step int
	waits      []float64 // µs
	refused    int
	err        error
}

func (c *caller) run(messages [][]byte, until time.Time) {
	var answer []byte
	for now := time.Now(); now.Before(until); c.next += c.step {
		ctx, cancel := context.WithTimeout(context.Background(), ready)
		c.err = c.conn.Invoke(ctx, c.protocol.method, messages[c.next%len(messages)], &answer, grpc.WaitForReady(true))
		cancel()
		var refused bool
		if c.err == nil {
			refused, c.err = c.protocol.refused(answer)
		}
		if c.err != nil {
			return
		}
		if refused {
			c.refused++
		}
		end := time.Now()
		c.waits = append(c.waits, float64(end.Sub(now).Nanoseconds())/1e3)
		now = end
	}
}

func sum(callers []caller, took time.Duration) (*Answers, error) {
	a := &Answers{Seconds: took.Seconds()}
	var waits []float64
	for _, c := range callers {
		if c.err != nil {
			return nil, c.err
		}
		a.Refused += c.refused
		waits = append(waits, c.waits...)
	}
	if a.Calls = len(waits); a.Calls == 0 {
		return nil, fmt.Errorf("no call was answered in %v", took)
	}
	slices.Sort(waits)
	a.P50, a.P99 = waits[len(waits)/2], waits[len(waits)*99/100]
	return a, nil
}

// encoded passes messages on as they are.
type encoded struct{}

func (encoded) Marshal(v any) ([]byte, error) { return v.([]byte), nil }
func (encoded) Name() string                  { return "proto" }

func (encoded) Unmarshal(b []byte, v any) error {
	into := v.(*[]byte)
	*into = append((*into)[:0], b...)
	return nil
}
