package clientip

import (
	"fmt"
	"net/textproto"
	"slices"
	"strings"
)

// path compiles path, nearest hop first.
func (b *builder) path() {
	b.r.strategy = byPath
	for i, h := range slices.Backward(b.cfg.Path) {
		b.r.hops = append(b.r.hops, b.hop(fmt.Sprintf("path[%d]", i), h))
	}
	for _, h := range b.cfg.Path {
		b.r.listed = append(b.r.listed, h.text())
	}
	outermost := &b.r.hops[len(b.r.hops)-1]
	if outermost.opaque() {
		b.refuse("path[0]", outermost.name+" writes the client's address nowhere", "set appends: 1 or header, or begin the path with the proxy that does")
	}
	for i := range b.r.hops {
		b.r.expected += b.r.hops[i].appends
	}
	b.pathForwarded()
}

// pathForwarded warns of hops that by themselves do not write the header that is read.
func (b *builder) pathForwarded() {
	var silent []string
	for _, h := range b.cfg.Path {
		if p := findPreset(h.Name); p != nil && p.appends > 0 {
			silent = append(silent, h.Name)
		}
	}
	if b.cfg.Forwarded && len(silent) > 0 {
		b.warn("forwarded", "left to itself, "+strings.Join(silent, " or ")+" adds nothing to Forwarded", "tell it to, or remove this to read X-Forwarded-For")
	}
}

// hop compiles one entry of path.
func (b *builder) hop(field string, h Hop) hop {
	p := findPreset(h.Name)
	if p == nil {
		p = &preset{name: h.Name, appends: 1}
		b.unknownHop(field, h)
	}
	compiled := hop{name: h.Name, appends: p.appends, header: textproto.CanonicalMIMEHeaderKey(h.Header)}
	if h.Appends != nil {
		compiled.appends = *h.Appends
		if *h.Appends < 0 || *h.Appends > 2 {
			b.refuse(field+".appends", fmt.Sprintf("%d entries", *h.Appends), "write 0, 1 or 2")
		}
	}
	switch {
	case h.Header != "":
		b.headerName(field+".header", compiled.header)
	case p.appends == 0 && compiled.appends == 0:
		compiled.header = p.header
	}
	compiled.from = b.hopTable(field, h, p)
	return compiled
}

// unknownHop checks a hop that is no preset.
func (b *builder) unknownHop(field string, h Hop) {
	switch {
	case h.Name == "":
		b.refuse(field, "the hop has no name", "write a preset's name, or {name: edge, cidrs: [192.0.2.0/28]}")
	case len(h.CIDRs) == 0:
		b.refuse(field, "no preset is called "+h.Name, "write "+nearest(h.Name, presetNames())+", or name its networks in cidrs")
	}
}

// hopTable compiles the networks that a hop connects from.
func (b *builder) hopTable(field string, h Hop, p *preset) table {
	if len(h.CIDRs) > 0 {
		return b.table(field+".cidrs", h.CIDRs)
	}
	if p != findPreset(h.Name) {
		return table{}
	}
	return newTable(b.presetNetworks(field, p), slices.Contains(p.networks(b.cfg.Ranges), "unix"))
}
