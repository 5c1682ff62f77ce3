// Package process runs the servers that are measured, and wrk against them.
package process

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// A Place is where a process may run.
type Place struct {
	CPU  int // the only one, if pinned
	Pins bool
}

// Pinnable reports whether the machine lets the proxies have a processor to themselves.
func Pinnable() bool {
	_, err := exec.LookPath("taskset")
	return err == nil && runtime.NumCPU() > 1
}

// Command returns args, to be run at p.
func (p Place) Command(ctx context.Context, args ...string) *exec.Cmd {
	cpus := runtime.NumCPU()
	if p.Pins {
		args, cpus = append([]string{"taskset", "-c", strconv.Itoa(p.CPU)}, args...), 1
	}
	c := exec.CommandContext(ctx, args[0], args[1:]...)
	c.Env = append(os.Environ(), "GOMAXPROCS="+strconv.Itoa(cpus))
	return c
}

// A Process is a server that was started here.
type Process struct {
	Name    string
	Address string
	cmd     *exec.Cmd
	said    bytes.Buffer
}

// startTime is how long a server may take to answer.
const startTime = 10 * time.Second

// Launch starts a server and waits until it accepts connections at address.
func Launch(p Place, name, address string, args ...string) (*Process, error) {
	s := &Process{Name: name, Address: address, cmd: p.Command(context.Background(), args...)}
	s.cmd.Stderr = &s.said
	if err := s.cmd.Start(); err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	for end := time.Now().Add(startTime); ; time.Sleep(20 * time.Millisecond) {
		c, err := net.Dial("tcp", address)
		if err == nil {
			c.Close()
			return s, nil
		}
		if time.Now().After(end) {
			s.Stop()
			return nil, fmt.Errorf("%s: does not answer at %s: %s", name, address, s.said.String())
		}
	}
}

// Stop ends the server and waits for it.
func (s *Process) Stop() {
	_ = s.cmd.Process.Signal(syscall.SIGTERM)
	ended := time.AfterFunc(5*time.Second, func() { _ = s.cmd.Process.Kill() })
	defer ended.Stop()
	_ = s.cmd.Wait() // it was told to end
}

// tick is a unit of /proc/PID/stat on every Linux that Go runs on.
const tick = 10 * time.Millisecond

// CPU is the processor time that the server and its children have used.
func (s *Process) CPU() (total time.Duration) {
	for _, pid := range s.family() {
		text, _ := os.ReadFile(filepath.Join("/proc", pid, "stat")) // one that is gone uses nothing
		total += cpuTime(string(text))
	}
	return total
}

// cpuTime reads the user and system time from a line of /proc/PID/stat (proc(5), fields 14 and 15).
func cpuTime(stat string) time.Duration {
	fields := strings.Fields(stat[strings.LastIndexByte(stat, ')')+1:])
	if len(fields) < 13 {
		return 0
	}
	user, _ := strconv.Atoi(fields[11])
	system, _ := strconv.Atoi(fields[12])
	return time.Duration(user+system) * tick
}

// Resident is what of the server and its children is in memory, in MB.
func (s *Process) Resident() (mb float64) {
	for _, pid := range s.family() {
		text, _ := os.ReadFile(filepath.Join("/proc", pid, "status"))
		mb += residentOf(string(text))
	}
	return mb
}

// residentOf reads VmRSS of /proc/PID/status, in MB.
func residentOf(status string) float64 {
	for line := range strings.Lines(status) {
		if f := strings.Fields(line); len(f) > 1 && f[0] == "VmRSS:" {
			kb, _ := strconv.Atoi(f[1])
			return float64(kb) / 1024
		}
	}
	return 0
}

// Descriptors is how many files and connections the server and its children have open.
func (s *Process) Descriptors() (open int) {
	for _, pid := range s.family() {
		entries, _ := os.ReadDir(filepath.Join("/proc", pid, "fd")) // one that is gone has none
		open += len(entries)
	}
	return open
}

// family returns the server's process and its children.
func (s *Process) family() []string {
	pid := strconv.Itoa(s.cmd.Process.Pid)
	all := []string{pid}
	threads, _ := filepath.Glob(filepath.Join("/proc", pid, "task", "*", "children"))
	for _, path := range threads {
		text, _ := os.ReadFile(path)
		words := bufio.NewScanner(bytes.NewReader(text))
		words.Split(bufio.ScanWords)
		for words.Scan() {
			all = append(all, words.Text())
		}
	}
	return all
}

// Free returns a loopback address at which nobody listens.
func Free() (string, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	defer l.Close()
	return l.Addr().String(), nil
}
