package crs

import (
	"strconv"
	"strings"
	"unsafe"

	"github.com/corazawaf/coraza/v3/collection"
	"github.com/corazawaf/coraza/v3/experimental/plugins/plugintypes"
	"github.com/corazawaf/coraza/v3/types"

	"github.com/weirgate/weir/waf"
	"github.com/weirgate/weir/waf/feed"
)

// A sheet is one request on its way into a transaction.
type sheet struct {
	tx    types.Transaction
	v     plugintypes.TransactionVariables
	c     *waf.Case
	named map[*byte]*feed.Leaf // what went in under each copy of the one name
	seen  map[string]bool      // the texts that the screen has; nil if the request is not for the screen
}

// newSheet returns a sheet for a request that tx is to judge.
func newSheet(tx types.Transaction, c *waf.Case) *sheet {
	return &sheet{tx: tx, v: tx.(plugintypes.TransactionState).Variables(), c: c, named: map[*byte]*feed.Leaf{}}
}

// fill hands the request over and runs the rules of both phases.
func (s *sheet) fill() {
	tx, in := s.tx, s.c.Input
	if in.Addr.IsValid() {
		tx.ProcessConnection(in.Addr.String(), 0, "", 0)
	}
	s.target(in)
	tx.SetServerName(in.Host)
	s.header(in)
	set(s.v.RequestBodyLength(), strconv.Itoa(len(in.Body)))
	tx.ProcessRequestHeaders()
	s.body(&s.c.Feed)
	_, _ = tx.ProcessRequestBody() // it has no body to fail on
}

// text hands the screen a text of the places that are common, once.
func (s *sheet) text(text string) {
	if s.seen == nil || s.seen[text] {
		return
	}
	s.seen[text] = true
	if isPlain(text) {
		s.v.ResponseHeaders().Add(oneName, text)
	} else {
		s.v.ResponseArgs().Add(oneName, text)
	}
}

// target hands over the request line. The pairs of the query go in by ourselves, in every reading.
func (s *sheet) target(in *waf.Input) {
	s.tx.ProcessURI(in.Path, in.Method, in.Proto)
	s.text(s.v.RequestFilename().Get())
	if in.Query == "" {
		return
	}
	target := in.Path + "?" + in.Query
	set(s.v.QueryString(), in.Query)
	set(s.v.RequestURI(), target)
	set(s.v.RequestURIRaw(), target)
	set(s.v.RequestLine(), in.Method+" "+target+" "+in.Proto)
	var pairs []feed.Leaf
	_ = feed.EachPair(in.Query, func(name, value string) *feed.Refusal {
		for _, text := range asked(name, value) {
			pairs = append(pairs, feed.Leaf{Part: feed.Query, Name: name, Value: text})
		}
		return nil
	})
	s.add(s.tx.AddGetRequestArgument, pairs)
}

// asked returns what of a pair of the query is to be judged: all, or of a GraphQL document (GraphQL over HTTP
// section 5.3) what the language does not tell how to write.
func asked(name, value string) []string {
	if name == "query" && strings.Contains(value, "{") {
		if texts, isDocument := feed.Literals(value); isDocument {
			return texts
		}
	}
	return []string{value}
}

// header hands over the fields and the cookies.
func (s *sheet) header(in *waf.Input) {
	fields := s.v.RequestHeaders()
	if in.Host != "" {
		fields.Add("Host", in.Host)
	}
	for name, lines := range in.Header {
		for _, line := range lines {
			if name == "Content-Type" {
				s.tx.AddRequestHeader(own(name), line) // which says what the body is
			} else {
				fields.Add(own(name), line)
			}
		}
	}
	switch {
	case in.Chunked:
		fields.Add("Transfer-Encoding", "chunked")
	case len(in.Body) > 0 && in.Header["Content-Length"] == nil: // some fronts keep it apart
		fields.Add("Content-Length", strconv.Itoa(len(in.Body)))
	}
	var cookies []feed.Leaf
	for _, line := range in.Header["Cookie"] {
		for name, value := range feed.Cookies(line) {
			cookies = append(cookies, feed.Leaf{Part: feed.Cookie, Name: name, Value: value})
		}
	}
	s.add(s.v.RequestCookies().Add, cookies)
}

// body hands over what the feed found in the body, where the rules look for it.
func (s *sheet) body(f *feed.Feed) {
	var pairs, texts []feed.Leaf
	xml := map[string][]string{}
	for _, leaf := range f.Leaves {
		switch leaf.Part {
		case feed.File:
			s.v.Files().Add(own(leaf.Name), leaf.Value)
			s.v.FilesNames().Add(own(leaf.Name), leaf.Name)
			s.v.MultipartFilename().Add(own(leaf.Name), leaf.Value)
		case feed.PartField:
			s.v.MultipartPartHeaders().Add(own(leaf.Name), leaf.Value)
			s.v.MultipartName().Add(own(leaf.Name), leaf.Name)
		case feed.Element:
			xml["/*"] = append(xml["/*"], leaf.Value)
		case feed.Attr:
			xml["//@*"] = append(xml["//@*"], leaf.Value)
		case feed.Form, feed.Key:
			pairs = append(pairs, leaf)
		default: // named by us
			texts = append(texts, leaf)
		}
	}
	s.add(s.tx.AddPostRequestArgument, pairs)
	s.underOne(s.tx.AddPostRequestArgument, texts)
	for place, values := range xml {
		for _, value := range values {
			s.text(value)
		}
		s.v.RequestXML().Set(place, values)
	}
	if f.Kind == feed.FormBody {
		set(s.v.RequestBody(), f.Body)
	}
}

// set writes a variable that Coraza has as a type of its own.
func set(variable collection.Single, text string) {
	variable.(interface{ Set(string) }).Set(text)
}

// maxNamed is how many arguments of one place go in under their own names.
//
// Coraza 3.8.1 remembers what it transformed by the address of an argument's name and the argument's
// place, and shuffles the places between rules. Of two values whose names lie at one address a rule may
// then see one twice and the other never, which is why each name gets an address of its own. And with many
// names nothing that is remembered is ever found again: a body of 1,900 members took 0.8 s and 150 MB.
// Many arguments therefore go in under one name, at which places keep still, and odd names as values.
const maxNamed = 64

// add hands over arguments of one place.
func (s *sheet) add(add func(name, value string), list []feed.Leaf) {
	if len(list) <= maxNamed {
		for _, leaf := range list {
			add(own(leaf.Name), leaf.Value)
			s.text(leaf.Name)
			s.text(leaf.Value)
		}
		return
	}
	s.underOne(add, list)
}

// underOne hands over arguments under the one name, and their names as values if the asker chose them. A
// text that has been handed over so is not handed over again.
func (s *sheet) underOne(add func(name, value string), list []feed.Leaf) {
	seen := make(map[string]bool, len(list))
	once := func(leaf *feed.Leaf, text string) {
		if !seen[text] {
			seen[text] = true
			name := strings.Clone(oneName)
			s.named[unsafe.StringData(name)] = leaf
			add(name, text)
			s.text(text)
		}
	}
	for i := range list {
		leaf := &list[i]
		once(leaf, leaf.Value)
		if leaf.Part == feed.Key || leaf.Part == feed.Form || leaf.Part == feed.Query || leaf.Part == feed.Cookie {
			once(leaf, leaf.Name)
		}
	}
}

// own returns a copy of a name.
func own(name string) string {
	if name == "" {
		return strings.Clone("_")
	}
	return strings.Clone(name)
}

// oneName is the name of many arguments, in lower case, to which Coraza folds names over and over.
const oneName = "weirarg"

// leaf returns the argument that went in under this very copy of the one name, or nil.
func (s *sheet) leaf(name string) *feed.Leaf { return s.named[unsafe.StringData(name)] }
