package descriptors

import (
	"fmt"
	"path/filepath"
	"strings"

	"github.com/weirgate/weir"
	"github.com/weirgate/weir/config"
)

// Options say how a configuration is read. The zero Options are the defaults of envoyproxy/ratelimit.
type Options struct {
	// MergeDomains joins what several files say of one domain, in the order of the files
	// (MERGE_DOMAIN_CONFIG). Otherwise a second file of a domain is an error.
	MergeDomains bool
	// IgnoreDotFiles leaves out files and folders whose names begin with a dot (RUNTIME_IGNOREDOTFILES).
	// A Kubernetes ConfigMap needs it, for it holds every file a second time in such a folder.
	IgnoreDotFiles bool
	// Extensions accepts in a rate_limit what Weir adds to the format, and envoyproxy/ratelimit refuses:
	//
	//	unit: 10m                   any duration up to 366d, as in Weir's own rates
	//	algorithm: sliding_window   or sliding_log, fixed_window, token_bucket
	//	burst: 20                   of a token_bucket; its default is requests_per_unit
	//
	// They are for compat: false. Without Extensions they are errors.
	Extensions bool
}

const (
	maxDepth = 100      // levels of descriptors
	maxNames = 64 << 20 // bytes of all metrics' names in sum
)

// Compile returns the set that domains make, in their order, and what is wrong with them. The set is
// nil if there is an error: one bad domain refuses all of them.
func Compile(domains []Domain, o Options) (*Set, []config.Problem) {
	var n notes
	return compile(domains, o, &n), n.sorted()
}

// compile is Compile that adds to n, where something may have been noted already.
func compile(domains []Domain, o Options, n *notes) *Set {
	c := compiler{notes: n, options: o, set: &Set{domains: map[string]*node{}}, first: map[string]*Domain{}}
	for i := range domains {
		c.domain(&domains[i])
	}
	if c.errors > 0 {
		return nil
	}
	return c.set
}

// A compiler makes a Set of domains, and notes what is wrong with them.
type compiler struct {
	*notes
	options Options
	set     *Set
	first   map[string]*Domain // by name, the first of each
	depth   int                // of the level that is being compiled
	names   int                // bytes of the metrics' names so far
}

func (c *compiler) domain(d *Domain) {
	c.file = d.File
	if d.Name == "" {
		c.wrong(d.At, "domain", "missing", "want the domain that the proxy asks with, as in domain: edge")
		return
	}
	root, known := c.set.domains[d.Name]
	switch {
	case !known:
		root = &node{}
		c.set.domains[d.Name], c.first[d.Name] = root, d
	case !c.options.MergeDomains:
		first := c.first[d.Name]
		c.wrong(d.At, "domain", shown(d.Name)+" is in "+first.At.place(first.File)+", too", twiceCure(first.File, d.File))
		root = &node{} // what else is wrong with it is found all the same
	}
	c.level(root, d.Descriptors, d.Name, "descriptors")
}

// twiceCure says what to do about one domain in two files.
func twiceCure(files ...string) string {
	for _, file := range files {
		switch name := filepath.Base(file); {
		case strings.HasSuffix(name, "~"), strings.HasSuffix(name, ".bak"), strings.HasPrefix(name, "#"):
			return "remove " + file + ", which is an editor's copy: every file counts"
		case hidden(file):
			return "leave out what begins with a dot (RUNTIME_IGNOREDOTFILES=true), where a ConfigMap keeps every file again"
		}
	}
	return "keep one, or have them joined (MERGE_DOMAIN_CONFIG=true)"
}

// level puts all under parent. metric is the parent's, path the field that holds them.
func (c *compiler) level(parent *node, all []Descriptor, metric, path string) {
	c.depth++
	defer func() { c.depth-- }()
	if c.depth > maxDepth && len(all) > 0 {
		c.wrong(all[0].At, path, "nested too deeply", fmt.Sprintf("want at most %d levels", maxDepth))
		return
	}
	if parent.children == nil && len(all) > 0 {
		parent.children = make(map[string]*node, len(all))
	}
	for i := range all {
		switch d, at := &all[i], fmt.Sprintf("%s[%d]", path, i); {
		case d.broken:
		case d.Key == "":
			c.wrong(d.keyAt.or(d.At), at+".key", "missing", "want the key that the proxy asks with, as in key: remote_address")
		default:
			c.child(parent, d, metric, at)
		}
	}
}

// child puts d under parent.
func (c *compiler) child(parent *node, d *Descriptor, metric, path string) {
	if !c.affords(len(metric)+len(d.Key)+len(d.Value), d, path) {
		return
	}
	both := d.Key
	if d.Value != "" {
		both += "_" + d.Value
	}
	metric += "." + both
	n := &node{valueToMetric: d.ValueToMetric, shareThreshold: d.ShareThreshold}
	if _, twice := parent.children[both]; twice {
		c.wrong(d.At, path, shown(both)+" is given twice; a key and its value are one text, joined by _", "keep one of the two")
	} else {
		parent.children[both] = n
		if strings.Contains(both, "*") {
			parent.wild = append(parent.wild, newPattern(both, n))
		}
	}
	if d.ShareThreshold && !strings.Contains(both, "*") {
		c.wrong(d.sharedAt.or(d.At), path+".share_threshold", "there is no * whose values could share a count", `want a *, as in value: "/files/*", or no share_threshold`)
	}
	if d.RateLimit != nil {
		n.limit = c.limit(d, metric, path+".rate_limit")
		c.set.limits++
	}
	c.level(n, d.Descriptors, metric, path+".descriptors")
}

// affords reports whether a metric's name of size bytes is not too much in sum. What is too much is
// noted once.
func (c *compiler) affords(size int, d *Descriptor, path string) bool {
	if c.names += size; c.names <= maxNames {
		return true
	}
	if c.names-size <= maxNames {
		c.wrong(d.At, path, "the keys and values are too long in sum", "want shorter ones")
	}
	return false
}

// limit returns d's limit.
func (c *compiler) limit(d *Descriptor, metric, path string) *Limit {
	r := d.RateLimit
	l := &Limit{
		Name: r.Name, PerUnit: r.RequestsPerUnit, Unlimited: r.Unlimited, Replaces: r.Replaces,
		Shadow: d.ShadowMode, Quota: d.QuotaMode, Detailed: d.DetailedMetric, Metadata: d.Metadata,
		Metric: metric, Place: r.At.or(d.At).place(c.file),
	}
	c.window(l, r, path)
	c.counting(l, r, path)
	c.replaces(r, path+".replaces")
	return l
}

// maxLog is how many hits a sliding log keeps at most.
const maxLog = 10_000

const wantUnit = "want second, minute, hour, day, week, month or year"

// window gives l the unit of r.
func (c *compiler) window(l *Limit, r *RateLimit, path string) {
	at := r.unitAt.or(r.At)
	u := unitNamed(r.Unit)
	switch {
	case r.Unlimited && u != NoUnit:
		c.wrong(at, path+".unit", shown(r.Unit)+" beside unlimited", "keep one of the two")
	case r.Unlimited:
		c.unlimited(r, path)
	case u != NoUnit:
		l.Unit, l.Window = u, u.Window()
	case r.Unit == "":
		c.wrong(at, path+".unit", "missing", wantUnit)
	default:
		c.extended(l, r, path)
	}
}

// unlimited warns of what means nothing beside unlimited.
func (c *compiler) unlimited(r *RateLimit, path string) {
	if r.Unit != "" {
		c.idle(r.unitAt.or(r.At), path+".unit", shown(r.Unit)+" has no effect beside unlimited", "remove it")
	}
	if r.requestsAt != (Position{}) {
		c.idle(r.requestsAt, path+".requests_per_unit", "has no effect beside unlimited", "remove one of the two")
	}
}

// extended gives l a window that no unit of the format names.
func (c *compiler) extended(l *Limit, r *RateLimit, path string) {
	window, ok := parseWindow(r.Unit)
	switch at := r.unitAt.or(r.At); {
	case !ok && c.options.Extensions:
		c.wrong(at, path+".unit", shown(r.Unit), wantUnit+", or a time, as in 10m")
	case !ok:
		c.wrong(at, path+".unit", shown(r.Unit), wantUnit)
	case !c.options.Extensions:
		c.wrong(at, path+".unit", shown(r.Unit)+" is Weir's own", wantUnit+"; other times need compat: false")
	default:
		l.Unit, l.Window = unitWithin(window), window
	}
}

// counting gives l the algorithm of r.
func (c *compiler) counting(l *Limit, r *RateLimit, path string) {
	none := Position{}
	if !c.options.Extensions {
		if r.algorithmAt != none {
			c.wrong(r.algorithmAt, path+".algorithm", "is Weir's own", "remove it; it needs compat: false")
		}
		if r.burstAt != none {
			c.wrong(r.burstAt, path+".burst", "is Weir's own", "remove it; it needs compat: false")
		}
		return
	}
	a, ok := algorithmNamed(r.algorithm)
	switch {
	case !ok:
		c.wrong(r.algorithmAt, path+".algorithm", shown(r.algorithm), "want sliding_window, sliding_log, fixed_window or token_bucket")
	case a == weir.SlidingLog && r.RequestsPerUnit > maxLog:
		c.wrong(r.requestsAt, path+".requests_per_unit", "too many for a sliding_log", fmt.Sprintf("want at most %d, or another algorithm", maxLog))
	case r.burstAt != none && a != weir.TokenBucket:
		c.wrong(r.burstAt, path+".burst", "without algorithm: token_bucket", "keep both or none")
	}
	l.Algorithm, l.Burst = a, r.burst
}

// algorithmNamed returns the algorithm that text names, the default for none, of those that a limit of
// this format may have.
func algorithmNamed(text string) (weir.Algorithm, bool) {
	for a := weir.SlidingWindow; a <= weir.TokenBucket; a++ {
		if text == "" || text == a.String() {
			return a, true
		}
	}
	return 0, false
}

func (c *compiler) replaces(r *RateLimit, path string) {
	for i, name := range r.Replaces {
		at := r.At
		if i < len(r.replacesAt) {
			at = r.replacesAt[i]
		}
		field := fmt.Sprintf("%s[%d].name", path, i)
		switch name {
		case "":
			c.wrong(at, field, "missing", "want the name of the limit that is replaced")
		case r.Name:
			c.wrong(at, field, shown(name)+" is the name of this limit itself", "want the name of another")
		}
	}
}
