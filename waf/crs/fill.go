package crs

import (
	"strconv"
	"strings"

	"github.com/corazawaf/coraza/v3/collection"
	"github.com/corazawaf/coraza/v3/experimental/plugins/plugintypes"
	"github.com/corazawaf/coraza/v3/types"

	"github.com/weirgate/weir/waf"
	"github.com/weirgate/weir/waf/feed"
)

// fill hands the request to tx and runs the rules of both phases.
func fill(tx types.Transaction, c *waf.Case) {
	in := c.Input
	if in.Addr.IsValid() {
		tx.ProcessConnection(in.Addr.String(), 0, "", 0)
	}
	target := in.Path
	if in.Query != "" {
		target += "?" + in.Query
	}
	tx.ProcessURI(target, in.Method, in.Proto)
	tx.SetServerName(in.Host)
	if in.Host != "" {
		tx.AddRequestHeader("Host", in.Host)
	}
	for name, lines := range in.Header {
		for _, line := range lines {
			tx.AddRequestHeader(own(name), line)
		}
	}
	if in.Chunked {
		tx.AddRequestHeader("Transfer-Encoding", "chunked")
	}
	v := tx.(plugintypes.TransactionState).Variables()
	addTwins(tx, v, in)
	set(v.RequestBodyLength(), strconv.Itoa(len(in.Body)))
	tx.ProcessRequestHeaders()
	addBody(tx, v, &c.Feed)
	_, _ = tx.ProcessRequestBody() // it has no body to fail on
}

// own returns a copy of a name. Coraza 3.8.1 remembers what it transformed by the address of a value's
// name and the value's place, and its places are shuffled between rules: of two values whose names lie at
// one address, a rule may see one twice and the other never.
func own(name string) string {
	if name == "" {
		return strings.Clone("_")
	}
	return strings.Clone(name)
}

// addTwins adds what Coraza lists under one address, and the pairs of the query in their other reading.
func addTwins(tx types.Transaction, v plugintypes.TransactionVariables, in *waf.Input) {
	for _, line := range in.Header["Cookie"] {
		seen := map[string]bool{}
		for name, value := range feed.Cookies(line) {
			if seen[name] {
				v.RequestCookies().Add(own(name), value)
			}
			seen[name] = true
		}
	}
	if strings.Contains(in.Query, ";") || strings.HasPrefix(in.Query, "=") || strings.Contains(in.Query, "&=") {
		_ = feed.EachPair(in.Query, func(name, value string) *feed.Refusal {
			tx.AddGetRequestArgument(own(name), value)
			return nil
		})
	}
}

// addBody hands over what the feed found in the body, under the names that the rules know.
func addBody(tx types.Transaction, v plugintypes.TransactionVariables, f *feed.Feed) {
	xml := map[string][]string{}
	for _, leaf := range f.Leaves {
		name := own(leaf.Name)
		switch leaf.Part {
		case feed.File:
			v.Files().Add(name, leaf.Value)
			v.FilesNames().Add(name, name)
			v.MultipartFilename().Add(name, leaf.Value)
		case feed.PartField:
			v.MultipartPartHeaders().Add(name, leaf.Value)
			v.MultipartName().Add(name, name)
		case feed.Element:
			xml["/*"] = append(xml["/*"], leaf.Value)
		case feed.Attr:
			xml["//@*"] = append(xml["//@*"], leaf.Value)
		default:
			tx.AddPostRequestArgument(name, leaf.Value)
		}
	}
	for place, values := range xml {
		v.RequestXML().Set(place, values)
	}
	if f.Kind == feed.FormBody {
		set(v.RequestBody(), f.Body)
	}
}

// set writes a variable that Coraza has as its own type.
func set(variable collection.Single, text string) {
	variable.(interface{ Set(string) }).Set(text)
}
