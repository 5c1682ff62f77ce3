package main

import (
	"fmt"
	"io"
	"os"
	"strings"
	"unicode/utf8"

	"golang.org/x/term"

	"github.com/weirgate/weir/internal/plain"
)

// Sequences of ECMA-48 and of xterm.
const (
	enterScreen = "\x1b[?1049h\x1b[?25l" // a screen of its own, without a cursor
	leaveScreen = "\x1b[?25h\x1b[?1049l" // what was there before
	toTop       = "\x1b[H"
	clearLine   = "\x1b[K"
	clearBelow  = "\x1b[J"
	bold        = "\x1b[1m"
	normal      = "\x1b[0m"
	escape      = '\x1b'
)

// Keys that are no letters, as a terminal in raw mode sends them.
const (
	ctrlC     = 3
	ctrlD     = 4
	backspace = 127
	erase     = 8
)

// A terminal is where somebody looks, and perhaps presses keys.
type terminal struct {
	in    *os.File // nil: there are no keys
	out   io.Writer
	plain bool // nothing is emphasized (NO_COLOR)
	size  func() (width, height int)
}

// newTerminal returns the terminal of in and out.
func newTerminal(in io.Reader, out io.Writer) terminal {
	t := terminal{out: out, plain: os.Getenv("NO_COLOR") != "", size: func() (int, int) { return 80, 24 }}
	if f, ok := out.(*os.File); ok {
		t.size = func() (int, int) {
			width, height, err := term.GetSize(int(f.Fd()))
			if err != nil || width < 1 || height < 1 {
				return 80, 24
			}
			return width, height
		}
	}
	if f, ok := in.(*os.File); ok && term.IsTerminal(int(f.Fd())) {
		t.in = f
	}
	return t
}

// open has the terminal give keys as they are pressed, and shows an empty screen, until leave is called.
func (t *terminal) open() (leave func(), err error) {
	restore := func() {}
	if t.in != nil {
		before, err := term.MakeRaw(int(t.in.Fd()))
		if err != nil {
			return nil, err
		}
		restore = func() { _ = term.Restore(int(t.in.Fd()), before) } // a terminal that is gone needs nothing
	}
	_, err = io.WriteString(t.out, enterScreen)
	return func() {
		_, _ = io.WriteString(t.out, leaveScreen)
		restore()
	}, err
}

// keys are the keys as they are pressed. Reading cannot be interrupted: it ends with the process.
func (t *terminal) keys() <-chan rune {
	keys := make(chan rune)
	if t.in == nil {
		return keys
	}
	go func() {
		var chunk [256]byte
		for {
			n, err := t.in.Read(chunk[:])
			if err != nil {
				return
			}
			for _, key := range pressed(chunk[:n]) {
				keys <- key
			}
		}
	}()
	return keys
}

// pressed are the keys of what a terminal sent at once. Arrows and the like, which come as a sequence, are none.
func pressed(chunk []byte) []rune {
	if len(chunk) > 1 && chunk[0] == escape {
		return nil
	}
	return []rune(string(chunk))
}

// show draws lines, as many as there is room for; the first and the last one with emphasis.
func (t *terminal) show(lines []string) error {
	width, height := t.size()
	var b strings.Builder
	b.WriteString(toTop)
	lines = lines[:min(len(lines), height)]
	for i, line := range lines {
		line = fit(line, width)
		if !t.plain && (i == 0 || i == len(lines)-1) {
			line = bold + line + normal
		}
		if i > 0 {
			b.WriteString("\r\n")
		}
		b.WriteString(line + clearLine)
	}
	b.WriteString(clearBelow)
	_, err := io.WriteString(t.out, b.String())
	return err
}

// tell prints strangers' values in a format of ours: a terminal obeys nothing in them, and none breaks a line.
func tell(w io.Writer, format string, values ...any) {
	fmt.Fprintf(w, format, plain.Values(values...)...)
}

// fit cuts a line to a number of columns.
func fit(line string, width int) string {
	if utf8.RuneCountInString(line) <= width {
		return line
	}
	return string([]rune(line)[:width-1]) + "…"
}
