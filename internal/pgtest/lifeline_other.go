//go:build !linux

package pgtest

import "syscall"

func lifeline() *syscall.SysProcAttr { return &syscall.SysProcAttr{} }
