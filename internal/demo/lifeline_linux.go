package demo

import "syscall"

// lifeline has a child end when the demo does, however it ends.
func lifeline() *syscall.SysProcAttr { return &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL} }
