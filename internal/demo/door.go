package demo

import (
	"io"
	"net"
	"sync"
)

// A door passes connections on to a server, so many at a time: there is no server, and no proxy, that has room
// for more than some number. Who comes then waits outside.
type door struct {
	listener net.Listener
	to       string
	room     chan struct{}
	inside   sync.WaitGroup
}

// openDoor opens a door to the server at to, with room for so many.
func openDoor(to string, room int) (*door, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	d := &door{listener: l, to: to, room: make(chan struct{}, room)}
	d.inside.Go(d.serve)
	return d, nil
}

func (d *door) addr() string { return d.listener.Addr().String() }

// held is how many connections are inside.
func (d *door) held() int { return len(d.room) }

// serve lets in one connection after the other, as there is room.
func (d *door) serve() {
	for {
		c, err := d.listener.Accept()
		if err != nil {
			return
		}
		d.room <- struct{}{}
		d.inside.Go(func() {
			defer func() { <-d.room }()
			d.pass(c)
		})
	}
}

// pass copies both ways until one end is done.
func (d *door) pass(c net.Conn) {
	defer c.Close()
	up, err := net.Dial("tcp", d.to)
	if err != nil {
		return
	}
	defer up.Close()
	var asking sync.WaitGroup
	asking.Go(func() {
		_, _ = io.Copy(up, c) // ends when either is closed
		up.Close()
	})
	_, _ = io.Copy(c, up) // likewise
	c.Close()
	asking.Wait()
}

// close lets nobody in any more, and waits until those inside are gone.
func (d *door) close() error {
	err := d.listener.Close()
	d.inside.Wait()
	return err
}
