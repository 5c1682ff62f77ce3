package main

import (
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"runtime/debug"
	"strings"

	"github.com/weirgate/weir/bench/report"
)

// machine says what the figures were measured on.
func machine() []report.Fact {
	return []report.Fact{
		{Name: "CPUs", Value: fmt.Sprintf("%d × %s", runtime.NumCPU(), field("/proc/cpuinfo", "model name"))},
		{Name: "memory", Value: field("/proc/meminfo", "MemTotal")},
		{Name: "kernel", Value: runtime.GOOS + " " + line("/proc/sys/kernel/osrelease") + ", " + runtime.GOARCH},
		{Name: "clock", Value: line("/sys/devices/system/clocksource/clocksource0/current_clocksource")},
		{Name: "load before", Value: line("/proc/loadavg")},
	}
}

// versions says what was measured.
func versions() []report.Fact {
	facts := []report.Fact{{Name: "Weir", Value: said("git", "describe", "--always", "--dirty")}, {Name: "Go", Value: runtime.Version()}}
	if info, ok := debug.ReadBuildInfo(); ok {
		var peers []string
		for _, d := range info.Deps {
			if d.Replace == nil && compared(d.Path) {
				peers = append(peers, d.Path+" "+d.Version)
			}
		}
		facts = append(facts, report.Fact{Name: "modules", Value: strings.Join(peers, ", ")})
	}
	return append(facts,
		report.Fact{Name: "Caddy", Value: module("caddy", "github.com/caddyserver/caddy/v2")},
		report.Fact{Name: "envoyproxy/ratelimit", Value: module("peers/ratelimit", "github.com/envoyproxy/ratelimit")},
		report.Fact{Name: "gubernator", Value: module("peers/gubernator", "github.com/gubernator-io/gubernator/v2")},
		report.Fact{Name: "grpc-go", Value: module(".", "google.golang.org/grpc")},
		report.Fact{Name: "nginx", Value: said("nginx", "-v")},
		report.Fact{Name: "HAProxy", Value: said("haproxy", "-v")},
		report.Fact{Name: "Redis", Value: said("redis-server", "--version")},
		report.Fact{Name: "GoAccess", Value: said("goaccess", "--version")},
		report.Fact{Name: "wrk", Value: said("wrk", "-v")},
	)
}

// module is the version of a module that the module in dir needs.
func module(dir, path string) string {
	return said("go", "list", "-C", dir, "-m", "-f", "{{.Version}}", path)
}

// said is the first line that a program writes, or why it writes none.
func said(program string, args ...string) string {
	out, err := exec.Command(program, args...).CombinedOutput()
	first, _, _ := strings.Cut(strings.TrimSpace(string(out)), "\n")
	if first == "" && err != nil {
		return err.Error()
	}
	return first
}

// compared reports whether a module is one of the peers.
func compared(path string) bool {
	for _, peer := range []string{"sethvargo", "httprate", "ulule", "throttled", "tollbooth", "x/time", "redis", "google.golang.org/grpc", "corazawaf/coraza"} {
		if strings.Contains(path, peer) {
			return true
		}
	}
	return false
}

// line returns the first line of a file, or nothing.
func line(path string) string {
	text, _ := os.ReadFile(path) // where there is none, there is nothing to say
	first, _, _ := strings.Cut(string(text), "\n")
	return strings.TrimSpace(first)
}

// field returns what the first line that begins with name has behind its colon.
func field(path, name string) string {
	text, _ := os.ReadFile(path)
	for l := range strings.Lines(string(text)) {
		if key, value, ok := strings.Cut(l, ":"); ok && strings.TrimSpace(key) == name {
			return strings.TrimSpace(value)
		}
	}
	return ""
}
