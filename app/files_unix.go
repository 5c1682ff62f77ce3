//go:build unix

package app

import "syscall"

// openFiles returns how many files and connections the system lets the process have open. Go raises the soft
// limit to the hard one when a program begins.
func openFiles() uint64 {
	var l syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &l); err != nil {
		return 1024
	}
	return uint64(l.Cur)
}
