package main

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"os/signal"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/weirgate/weir/admin"
	"github.com/weirgate/weir/internal/plain"
)

// A screen is the live view of weir top.
type screen struct {
	terminal
	asked  watching // what is asked for; keys change it
	paused bool
	help   bool
	prompt *prompt // nil: keys are commands

	top   admin.Top
	known time.Time // when top came; zero: nothing came yet
	fault error     // why nothing newer came, or nil

	ban  *admin.NewBan // to be asked for; nil: none
	said string        // what came of the last one, until a key is pressed
}

// A prompt is a line that is being written.
type prompt struct {
	label, text string
	done        func(text string)
}

// A command is what a key does.
type command struct {
	key  rune
	name string // for the line below
	help string
	do   func(*screen)
}

// commands are all keys but q, in the order in which they are told of.
func commands() []command {
	return []command{
		{'v', "view", "clients, paths, rules, or the clients that shadow limits would refuse", func(s *screen) { next(&s.asked.by, rankings()) }},
		{'s', "sort", "by requests, or by refusals", func(s *screen) { next(&s.asked.sort, orders()) }},
		{'w', "window", "1 minute, 1 hour, 24 hours", func(s *screen) { next(&s.asked.window, windows()) }},
		{'/', "filter", "only keys that contain a text; an empty one shows all", (*screen).askFilter},
		{'b', "ban", "an address, a network or key:ID for 10 minutes; weir ban does more", (*screen).askBan},
		{' ', "space pause", "keep what is shown, or go on", func(s *screen) { s.paused = !s.paused }},
		{'?', "help", "these keys, or back", func(s *screen) { s.help = !s.help }},
	}
}

// next makes value the one that follows it in all.
func next(value *string, all []string) {
	*value = all[(slices.Index(all, *value)+1)%len(all)]
}

func newScreen(w *watching, in io.Reader, out io.Writer) *screen {
	return &screen{terminal: newTerminal(in, out), asked: *w}
}

// An answer is what came of one question.
type answer struct {
	to  watching // the question
	top admin.Top
	err error
}

// run shows the top until ctx ends or somebody has seen enough. If the first question is not answered, it is an error.
func (s *screen) run(ctx context.Context) error {
	ctx, stop := signal.NotifyContext(ctx, syscall.SIGHUP)
	defer stop()
	first := s.ask(ctx)
	if first.err != nil && ctx.Err() == nil {
		return first.err
	}
	s.take(first)
	leave, err := s.open()
	if err != nil {
		return err
	}
	defer leave()
	return s.live(ctx)
}

// live draws after whatever happens.
func (s *screen) live(ctx context.Context) error {
	tick := time.NewTicker(s.asked.every)
	defer tick.Stop()
	answers, keys, banned := make(chan answer, 1), s.keys(), make(chan string, 1)
	asking := false
	for s.show(s.lines()) == nil { // else nobody looks any more
		again := false
		select {
		case <-ctx.Done():
			return nil
		case a := <-answers:
			asking = false
			s.take(a)
			again = a.to != s.asked
		case s.said = <-banned:
			again = true
		case <-tick.C:
			again = !s.paused
		case key := <-keys:
			before := s.asked
			if s.press(key) {
				return nil
			}
			again = before != s.asked
			if s.ban != nil {
				running, body := s.asked.running, *s.ban
				s.ban = nil
				go func() {
					select {
					case banned <- askToBan(ctx, &running, body):
					case <-ctx.Done():
					}
				}()
			}
		}
		if again && !asking {
			asking = true
			question := *s
			go func() { answers <- question.ask(ctx) }() // it ends with ctx
		}
	}
	return nil
}

// ask asks what is asked for now.
func (s *screen) ask(ctx context.Context) answer {
	top, err := s.asked.fetch(ctx)
	return answer{s.asked, top, err}
}

// take takes over an answer. Without one, what is shown stays.
func (s *screen) take(a answer) {
	s.fault = a.err
	if a.err == nil && a.to.by == s.asked.by && a.to.window == s.asked.window && a.to.sort == s.asked.sort {
		s.top, s.known = a.top, time.Now()
	}
}

// press does what a key is for, and reports whether that is to end.
func (s *screen) press(key rune) (quit bool) {
	s.said = ""
	switch {
	case key == ctrlC || key == ctrlD:
		return true
	case s.prompt != nil:
		s.write(key)
	case key == 'q':
		return true
	default:
		for _, c := range commands() {
			if c.key == key {
				c.do(s)
			}
		}
	}
	return false
}

// write adds a key to the line that is being written, or ends it.
func (s *screen) write(key rune) {
	p := s.prompt
	switch {
	case key == '\r' || key == '\n':
		s.prompt = nil
		p.done(p.text)
	case key == escape:
		s.prompt = nil
	case key == backspace || key == erase:
		text := []rune(p.text)
		p.text = string(text[:max(0, len(text)-1)])
	case key >= ' ' && len(p.text) < mostPrompt:
		p.text += string(key)
	}
}

// mostPrompt is the longest line that can be written, in bytes.
const mostPrompt = 200

func (s *screen) askFilter() {
	s.prompt = &prompt{"only keys that contain: ", s.asked.filter, func(text string) { s.asked.filter = text }}
}

// bannedFor is for how long weir top bans.
const bannedFor = "10m"

// askBan asks whom to ban, and offers the first client that is shown.
func (s *screen) askBan() {
	who, shown := "", s.top
	if s.asked.choose(&shown); s.asked.by == rankings()[0] && len(shown.Entries) > 0 {
		who = shown.Entries[0].Key
	}
	s.prompt = &prompt{"ban for " + bannedFor + ": ", who, func(text string) {
		if text != "" {
			s.ban = &admin.NewBan{Subject: text, For: bannedFor, Reason: "weir top"}
		}
	}}
}

// askToBan says in one line what came of asking for a ban.
func askToBan(ctx context.Context, running *adminClient, body admin.NewBan) string {
	var made admin.Ban
	if err := running.ask(ctx, http.MethodPost, "/api/v1/bans", body, &made); err != nil {
		return "NOT BANNED: " + plain.Text(err.Error())
	}
	return plain.Text(made.Subject) + " is banned " + banEnd(&made)
}

// lines are what is to be seen.
func (s *screen) lines() []string {
	width, height := s.size()
	lines := []string{s.title(), ""}
	if s.help {
		lines = append(lines, s.keysHelp()...)
	} else {
		shown := s.top
		s.asked.choose(&shown)
		var b strings.Builder
		_ = tellTop(&b, &shown, width) // a builder takes everything
		lines = append(lines, strings.Split(strings.TrimSuffix(b.String(), "\n"), "\n")...)
		if len(shown.Entries) == 0 {
			lines = append(lines, "", "nobody, so far")
		}
	}
	lines = lines[:min(len(lines), max(1, height-2))]
	for len(lines) < height-1 {
		lines = append(lines, "")
	}
	return append(lines, s.foot())
}

// title says what is shown, and whether it is new.
func (s *screen) title() string {
	parts := []string{"weir top", "by " + s.asked.by, "last " + s.asked.window, "most " + s.asked.sort}
	if s.asked.filter != "" {
		parts = append(parts, fmt.Sprintf("only %q", s.asked.filter))
	}
	if s.said != "" {
		parts = append(parts, s.said)
	}
	if s.paused {
		parts = append(parts, "PAUSED")
	}
	if s.fault != nil {
		parts = append(parts, "OLD: as of "+s.known.Format(time.TimeOnly)+": "+plain.Text(s.fault.Error()))
	}
	return strings.Join(parts, " · ")
}

// foot is the line that is being written, or tells the keys.
func (s *screen) foot() string {
	if s.in == nil {
		return "Ctrl-C ends"
	}
	if s.prompt != nil {
		return s.prompt.label + plain.Text(s.prompt.text) + "_"
	}
	if width, _ := s.size(); width < wide {
		return "? keys   q quit"
	}
	var keys []string
	for _, c := range commands() {
		name := c.name
		if c.key != ' ' {
			name = string(c.key) + " " + name
		}
		keys = append(keys, name)
	}
	return strings.Join(append(keys, "q quit"), "   ")
}

func (s *screen) keysHelp() []string {
	var lines []string
	for _, c := range commands() {
		lines = append(lines, fmt.Sprintf("  %-6s %s", strings.ReplaceAll(string(c.key), " ", "space"), c.help))
	}
	return append(lines, "  q      back to the shell")
}
