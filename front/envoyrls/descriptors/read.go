package descriptors

import (
	"fmt"
	"slices"

	"go.yaml.in/yaml/v3"

	"github.com/weirgate/weir/config"
)

// A Source is the content of one file.
type Source struct {
	File    string // what problems call it
	Content []byte
}

// Parse returns the set that sources make, in their order, and what is wrong with them. The set is nil
// if there is an error: one bad file refuses all of them. Whatever a file holds, the work is bounded.
func Parse(sources []Source, o Options) (*Set, []config.Problem) {
	n := &notes{}
	r := reader{notes: n}
	var domains []Domain
	for _, s := range sources {
		if d, ok := r.read(s); ok {
			domains = append(domains, d)
		}
	}
	type field struct{ file, path string }
	said := map[field]bool{}
	for _, p := range n.problems {
		said[field{p.File, p.Field}] = !p.Warning
	}
	before := len(n.problems)
	set := compile(domains, o, n)
	more := slices.DeleteFunc(n.problems[before:], func(p config.Problem) bool { return said[field{p.File, p.Field}] })
	n.problems = n.problems[:before+len(more)]
	return set, n.sorted()
}

// A reader makes domains of files, and notes what is wrong with them.
type reader struct {
	*notes
	spent int // keys and values of all files so far
	depth int // of the value that is being read
}

// known returns where a key of the format belongs, and whether it is one.
func known(key string) (home string, ok bool) {
	switch key {
	case "domain":
		return "the file", true
	case "descriptors":
		return "the file and a descriptor", true
	case "key", "value", "rate_limit", "shadow_mode", "quota_mode", "detailed_metric", "value_to_metric", "share_threshold", "metadata":
		return "a descriptor", true
	case "unit", "requests_per_unit", "unlimited", "replaces":
		return "a rate_limit", true
	case "name":
		return "a rate_limit and an item of replaces", true
	}
	return "", false
}

// mapping gives every line of the mapping n to take, which reports whether the key means something
// here. A key of the format that means nothing here is accepted, any other is not; wanted lists what
// would be. It reports whether n is a mapping.
func (r *reader) mapping(n *yaml.Node, path, wanted string, take func(p pair, path string) bool) bool {
	at := position(n)
	if n = r.follow(n, path); n == nil {
		return false
	}
	defer r.leave()
	if n.Kind != yaml.MappingNode {
		r.wrong(at, path, found(n), "want a mapping of "+wanted)
		return false
	}
	prefix := path
	if path != "" {
		prefix += "."
	}
	for _, p := range r.pairs(n, prefix) {
		if field := prefix + label(p.key.Value); !take(p, field) {
			r.astray(p, field, wanted)
		}
	}
	return true
}

// astray notes a line whose key means nothing where it stands.
func (r *reader) astray(p pair, field, wanted string) {
	home, ok := known(p.key.Value)
	if !ok {
		r.wrong(position(p.key), field, "unknown key '"+label(p.key.Value)+"'", "want one of "+wanted)
		return
	}
	r.idle(position(p.key), field, "has no effect here", "it belongs to "+home)
	if p.key.Value != "metadata" {
		r.ignored(p.value, field)
	}
}

// ignored looks for what is an error even where it has no effect.
func (r *reader) ignored(n *yaml.Node, path string) {
	at := position(n)
	if n = r.follow(n, path); n == nil {
		return
	}
	defer r.leave()
	switch n.Kind {
	case yaml.MappingNode:
		for _, p := range r.pairs(n, path+".") {
			r.astray(p, path+"."+label(p.key.Value), "the format's keys")
		}
	case yaml.SequenceNode:
		for i, item := range n.Content {
			r.ignoredItem(item, fmt.Sprintf("%s[%d]", path, i))
		}
	default:
		if n.Tag == "!!float" || n.Tag == "!!int" && !isInt64(n.Value) {
			r.wrong(at, path, "the number "+shown(n.Value), "put it in quotes")
		}
	}
}

func (r *reader) ignoredItem(n *yaml.Node, path string) {
	target := n
	if n.Kind == yaml.AliasNode {
		target = n.Alias
	}
	if target.Kind != yaml.MappingNode {
		r.wrong(position(n), path, found(target), "want a mapping")
		return
	}
	r.ignored(n, path)
}

// list gives every item of the list n to take. No value is an empty list.
func (r *reader) list(n *yaml.Node, path string, take func(item *yaml.Node, path string)) {
	at := position(n)
	if n = r.follow(n, path); n == nil {
		return
	}
	defer r.leave()
	if n.Kind != yaml.SequenceNode {
		if n.Tag != "!!null" {
			r.wrong(at, path, found(n), "want a list, each item behind a dash")
		}
		return
	}
	for i, item := range n.Content {
		take(item, fmt.Sprintf("%s[%d]", path, i))
	}
}

// read returns the domain of a file, unless the file cannot be read at all.
func (r *reader) read(s Source) (Domain, bool) {
	r.file = s.File
	d := Domain{File: s.File, At: Position{1, 1}}
	before := r.errors
	root := r.document(s.Content)
	if root == nil {
		return d, r.errors == before
	}
	return d, r.mapping(root, "", "domain and descriptors", func(p pair, path string) bool {
		switch p.key.Value {
		case "domain":
			d.Name, d.At = r.text(p.value, path), position(p.value)
		case "descriptors":
			d.Descriptors = r.descriptors(p.value, path)
		default:
			return false
		}
		return true
	})
}

func (r *reader) descriptors(n *yaml.Node, path string) []Descriptor {
	var all []Descriptor
	r.list(n, path, func(item *yaml.Node, path string) { all = append(all, r.descriptor(item, path)) })
	return all
}

const descriptorKeys = "key, value, rate_limit, descriptors, shadow_mode, quota_mode, detailed_metric, value_to_metric, share_threshold and metadata"

func (r *reader) descriptor(n *yaml.Node, path string) Descriptor {
	d := Descriptor{At: position(n)}
	var needLimit []pair // what has no effect without a limit
	d.broken = !r.mapping(n, path, descriptorKeys, func(p pair, path string) bool {
		switch p.key.Value {
		case "key":
			d.Key, d.keyAt = r.text(p.value, path), position(p.value)
		case "value":
			d.Value = r.text(p.value, path)
		case "rate_limit":
			d.RateLimit = r.rateLimit(p.value, path)
		case "descriptors":
			d.Descriptors = r.descriptors(p.value, path)
		case "value_to_metric":
			d.ValueToMetric = r.flag(p.value, path)
		case "share_threshold":
			d.ShareThreshold, d.sharedAt = r.flag(p.value, path), position(p.value)
		default:
			if !r.ofLimit(&d, p, path) {
				return false
			}
			needLimit = append(needLimit, p)
		}
		return true
	})
	if d.RateLimit == nil {
		for _, p := range needLimit {
			r.idle(position(p.key), path+"."+p.key.Value, "has no effect without a rate_limit", "remove it, or give the descriptor a rate_limit")
		}
	}
	return d
}

// ofLimit reads what a descriptor says of its own limit.
func (r *reader) ofLimit(d *Descriptor, p pair, path string) bool {
	switch p.key.Value {
	case "shadow_mode":
		d.ShadowMode = r.flag(p.value, path)
	case "quota_mode":
		d.QuotaMode = r.flag(p.value, path)
	case "detailed_metric":
		d.DetailedMetric = r.flag(p.value, path)
	case "metadata":
		d.Metadata = r.metadata(p.value, path)
	default:
		return false
	}
	return true
}

func (r *reader) metadata(n *yaml.Node, path string) map[string]any {
	value := r.free(n, path)
	values, ok := value.(map[string]any)
	if !ok && value != nil {
		r.wrong(position(n), path, "found no mapping", "want a mapping, as in {tier: gold}")
	}
	return values
}

const limitKeys = "unit, requests_per_unit, unlimited, name and replaces"

// rateLimit returns the rate_limit n, or nil where there is no value.
func (r *reader) rateLimit(n *yaml.Node, path string) *RateLimit {
	if n.Tag == "!!null" {
		return nil
	}
	l := &RateLimit{At: position(n)}
	ok := r.mapping(n, path, limitKeys, func(p pair, path string) bool {
		at := position(p.value)
		switch p.key.Value {
		case "unit":
			l.Unit, l.unitAt = r.text(p.value, path), at
		case "requests_per_unit":
			l.RequestsPerUnit, l.requestsAt = r.count(p.value, path), at
		case "unlimited":
			l.Unlimited = r.flag(p.value, path)
		case "name":
			l.Name = r.text(p.value, path)
		case "replaces":
			r.replaces(l, p.value, path)
		case "algorithm":
			l.algorithm, l.algorithmAt = r.text(p.value, path), at
		case "burst":
			l.burst, l.burstAt = r.count(p.value, path), at
		default:
			return false
		}
		return true
	})
	if !ok {
		return nil
	}
	return l
}

func (r *reader) replaces(l *RateLimit, n *yaml.Node, path string) {
	r.list(n, path, func(item *yaml.Node, path string) {
		name, at := "", position(item)
		if r.mapping(item, path, "name", func(p pair, path string) bool {
			if p.key.Value != "name" {
				return false
			}
			name, at = r.text(p.value, path), position(p.value)
			return true
		}) {
			l.Replaces, l.replacesAt = append(l.Replaces, name), append(l.replacesAt, at)
		}
	})
}
