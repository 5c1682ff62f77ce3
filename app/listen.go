package app

import (
	"errors"
	"fmt"
	"net"
	"syscall"

	"github.com/weirgate/weir/front/proxy"
)

// listen returns the socket that was handed over for addr, or listens there by itself. field names addr in
// the configuration.
func (a *App) listen(field, addr string) (net.Listener, error) {
	if l := a.handed.take(addr); l != nil {
		return l, nil
	}
	l, err := proxy.Listen(addr)
	if err != nil {
		return nil, listenError(field, addr, err)
	}
	return l, nil
}

// listenError says why the address that field names cannot be listened on, and how to mend it.
func listenError(field, addr string, err error) error {
	var op *net.OpError
	if errors.As(err, &op) {
		err = op.Err
	}
	var number syscall.Errno
	if errors.As(err, &number) {
		err = number
	}
	cure := "give another address with " + field
	if field == "listen" || field == "admin" {
		cure += " or --" + field
	}
	switch number {
	case syscall.EADDRINUSE:
		cure = "stop what listens there, or " + cure
	case syscall.EADDRNOTAVAIL:
		cure = "no interface of this machine has it: " + cure
	case syscall.EACCES:
		cure = "let the process bind it (ports below 1024 need CAP_NET_BIND_SERVICE), or " + cure
	case syscall.ENOENT:
		cure = "make the socket's folder, or " + cure
	}
	return fmt.Errorf("%s %s: %w: %s", field, addr, err, cure)
}
