package clientip

import (
	"fmt"
	"slices"
	"strings"
)

const (
	unknownPart = "<whatever the client sent>"
	clientPart  = "CLIENT"
)

// A picture is what the compiled strategy no longer knows of the configuration's words.
type picture struct {
	peers, via string
	hops       []string // the networks of each hop, the nearest first
}

// newPicture keeps cfg's words.
func newPicture(cfg *Config) picture {
	p := picture{peers: few(cfg.Peers), via: few(cfg.Via)}
	switch {
	case len(cfg.TrustedProxies) > 0:
		p.peers = few(cfg.TrustedProxies)
	case len(cfg.Peers) == 0:
		p.peers = few([]string{"private", "unix"})
	}
	for _, h := range slices.Backward(cfg.Path) {
		p.hops = append(p.hops, few(hopWords(cfg, h)))
	}
	return p
}

// hopWords returns the networks of a hop as they are written.
func hopWords(cfg *Config, h Hop) []string {
	if p := findPreset(h.Name); p != nil && len(h.CIDRs) == 0 {
		return p.networks(cfg.Ranges)
	}
	return h.CIDRs
}

// few writes a list of networks, cut short.
func few(list []string) string {
	const most = 3
	if len(list) <= most {
		return strings.Join(list, ", ")
	}
	return fmt.Sprintf("%s and %d more", strings.Join(list[:most-1], ", "), len(list)-most+1)
}

// Picture returns what the resolver expects to see, in one line for operators: the chain as it
// arrives, who connects, and where in it the client stands.
func (r *Resolver) Picture() string {
	switch r.strategy {
	case byPath:
		return r.pathPicture()
	case byTrust:
		return r.chainPicture([]string{"trusted ..."}, "a trusted proxy ("+r.picture.peers+")", "the first from the right that is not trusted")
	case byCount:
		between := make([]string, r.fromRight-1)
		for i := range between {
			between[i] = "a proxy"
		}
		return r.chainPicture(between, "a proxy ("+r.picture.peers+")", ordinal(r.fromRight)+" from the right")
	case byHeader:
		text := r.valueName + ": " + clientPart + "   peer: a proxy (" + r.picture.peers + ")"
		if r.picture.via != "" {
			text += "   only if " + r.chainName + " ends in the edge (" + r.picture.via + ")"
		}
		return text + "   → the whole value"
	}
	return "peer: " + clientPart + "   → the connection's own address; no header is read"
}

// pathPicture draws the chain that the configured hops write.
func (r *Resolver) pathPicture() string {
	nearest := &r.hops[0]
	peer := nearest.name + " (" + r.picture.hops[0] + ")"
	var right []string // from the right
	for i := range r.hops {
		h := &r.hops[i]
		seen := clientPart
		if i+1 < len(r.hops) {
			seen = r.hops[i+1].name
		} else if h.header != "" {
			return h.header + ": " + clientPart + "   " + r.rest(right) + "peer: " + peer + "   → the whole value"
		}
		for range h.appends - 1 {
			right = append(right, h.name)
		}
		if h.appends > 0 {
			right = append(right, seen)
		}
	}
	position := ordinal(len(right)) + " from the right"
	return r.chainPicture(reversed(right[:len(right)-1]), peer, position)
}

// chainPicture draws a chain with the client left of the given entries.
func (r *Resolver) chainPicture(after []string, peer, position string) string {
	parts := append([]string{unknownPart, clientPart}, after...)
	return r.chainName + ": " + strings.Join(parts, ", ") + "   peer: " + peer + "   → " + position
}

func reversed(list []string) []string {
	list = slices.Clone(list)
	slices.Reverse(list)
	return list
}

// rest draws the chain beside a header that holds the client.
func (r *Resolver) rest(right []string) string {
	if len(right) == 0 {
		return ""
	}
	return r.chainName + ": ..., " + strings.Join(reversed(right), ", ") + "   "
}

// ordinal writes 1st, 2nd, 3rd and so on.
func ordinal(n int) string {
	suffix := "th"
	if n%100 < 11 || n%100 > 13 {
		switch n % 10 {
		case 1:
			suffix = "st"
		case 2:
			suffix = "nd"
		case 3:
			suffix = "rd"
		}
	}
	return fmt.Sprint(n, suffix)
}

// Traps returns what is worth knowing of the presets in use, each line named by its preset.
func (r *Resolver) Traps() []string { return slices.Clone(r.traps) }

// collectTraps gathers the traps of every preset that cfg names.
func collectTraps(cfg *Config) []string {
	var used []string
	for _, h := range cfg.Path {
		used = append(used, h.Name)
	}
	used = slices.Concat(used, cfg.TrustedProxies, cfg.Peers, cfg.Via)
	var traps []string
	for i, name := range used {
		p := findPreset(name)
		if p == nil || slices.Contains(used[:i], name) {
			continue
		}
		for _, line := range strings.Split(p.traps, "\n") {
			traps = append(traps, p.name+": "+line)
		}
		if _, replaced := cfg.Ranges[name]; p.dated != "" && !replaced {
			traps = append(traps, p.name+": the built-in ranges are those of "+p.dated+"; ranges_file replaces them")
		}
	}
	return traps
}
