package pgtest

import "syscall"

// lifeline has a server end when the tests do, however they end.
func lifeline() *syscall.SysProcAttr { return &syscall.SysProcAttr{Pdeathsig: syscall.SIGQUIT} }
