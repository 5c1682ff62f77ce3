//go:build !linux

package proctest

import "syscall"

func lifeline() *syscall.SysProcAttr { return nil }
