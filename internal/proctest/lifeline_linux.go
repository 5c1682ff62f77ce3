package proctest

import "syscall"

// lifeline has a child end when the tests do, however they end.
func lifeline() *syscall.SysProcAttr { return &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL} }
