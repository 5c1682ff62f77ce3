//go:build !linux

package behind_test

import "syscall"

func lifeline() *syscall.SysProcAttr { return nil }
