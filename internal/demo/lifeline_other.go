//go:build !linux

package demo

import "syscall"

func lifeline() *syscall.SysProcAttr { return nil }
