package app

import (
	"fmt"
	"net"
	"net/netip"
	"os"
	"slices"
	"strconv"
	"strings"
)

// handed are listening sockets that whoever started the process opened for it and keeps open when it ends:
// nobody who connects in between is refused.
type handed []net.Listener

// firstHanded is the descriptor of the first (sd_listen_fds(3)).
const firstHanded = 3

// takeHanded returns the sockets that env hands over to this process: LISTEN_FDS many, if LISTEN_PID is this
// one (sd_listen_fds(3)). No name is looked at: each is known by its address.
func takeHanded(env []string) (handed, error) {
	if variable(env, "LISTEN_PID") != strconv.Itoa(os.Getpid()) {
		return nil, nil
	}
	n, err := strconv.Atoi(variable(env, "LISTEN_FDS"))
	if err != nil {
		return nil, fmt.Errorf("LISTEN_FDS: %w", err)
	}
	var h handed
	for i := range n {
		file := os.NewFile(uintptr(firstHanded+i), "LISTEN_FDS")
		l, err := net.FileListener(file) // a copy
		file.Close()
		if err != nil {
			h.close()
			return nil, fmt.Errorf("LISTEN_FDS: descriptor %d is no socket that listens for streams: %w", firstHanded+i, err)
		}
		h = append(h, l)
	}
	return h, nil
}

// variable returns the value of a variable of env, or nothing.
func variable(env []string, name string) string {
	for _, kv := range env {
		if value, ok := strings.CutPrefix(kv, name+"="); ok {
			return value
		}
	}
	return ""
}

// take returns the socket that listens at addr, host:port or unix:PATH, or nil. It is the caller's from then
// on.
func (h *handed) take(addr string) net.Listener {
	i := slices.IndexFunc(*h, func(l net.Listener) bool { return listensAt(l.Addr(), addr) })
	if i < 0 {
		return nil
	}
	l := (*h)[i]
	*h = slices.Delete(*h, i, i+1)
	return l
}

// listensAt reports whether to listen at addr would be to listen at a.
func listensAt(a net.Addr, addr string) bool {
	if path, ok := strings.CutPrefix(addr, "unix:"); ok {
		return a.Network() == "unix" && a.String() == path
	}
	is, ok := a.(*net.TCPAddr)
	want, err := net.ResolveTCPAddr("tcp", addr)
	return ok && err == nil && canonical(is) == canonical(want)
}

// canonical returns a with one form for each address. 0.0.0.0 is that of all, as :: is: systemd listens at
// [::] where it is told a port alone.
func canonical(a *net.TCPAddr) netip.AddrPort {
	ip := a.AddrPort().Addr().Unmap()
	if !ip.IsValid() || ip.IsUnspecified() {
		ip = netip.IPv6Unspecified()
	}
	return netip.AddrPortFrom(ip, uint16(a.Port))
}

// unused returns an error if a socket is left: who connects to it would wait for ever.
func (h *handed) unused() error {
	if len(*h) == 0 {
		return nil
	}
	return fmt.Errorf("LISTEN_FDS: %s was handed over, but is no address of the configuration: give it there, or take it out of the socket unit", (*h)[0].Addr())
}

func (h *handed) close() {
	for _, l := range *h {
		l.Close()
	}
	*h = nil
}
