package shield

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"

	coreruleset "github.com/corazawaf/coraza-coreruleset/v4"
	"github.com/corazawaf/coraza/v3"

	"github.com/weirgate/weir"
	"github.com/weirgate/weir/bench/rounds"
	"github.com/weirgate/weir/waf"
	"github.com/weirgate/weir/waf/crs"
	"github.com/weirgate/weir/waf/fast"
	"github.com/weirgate/weir/waf/feed"
	"github.com/weirgate/weir/waf/mask"
)

// A bench is what is asked, and who.
type bench struct {
	requests map[string]waf.Input
	sets     map[string]*waf.WAF
	coraza   coraza.WAF
}

// stockConf is what stock is loaded by: all that it comes with, without looking at answers.
const stockConf = "Include @coraza.conf-recommended\nSecRuleEngine On\nSecResponseBodyAccess Off\nSecRequestBodyInMemoryLimit 1048576\n" +
	"Include @crs-setup.conf.example\nInclude @owasp_crs/*.conf"

// newBench loads all. Stock is first: where the core rule set is loaded by Weir, Weir's operator for regular
// expressions takes the place of Coraza's in what is loaded afterwards.
func newBench() (*bench, error) {
	stock, err := coraza.NewWAF(coraza.NewWAFConfig().WithRootFS(coreruleset.FS).WithDirectives(stockConf))
	if err != nil {
		return nil, fmt.Errorf("stock: %w", err)
	}
	masker, err := mask.New(mask.Kinds())
	if err != nil {
		return nil, err
	}
	core, err := crs.New(crs.Options{})
	if err != nil {
		return nil, err
	}
	limits := feed.Limits{Depth: 64, Values: 2000, Bytes: 128 << 10, Inflated: 1 << 20}
	return &bench{requests: requests(), coraza: stock, sets: map[string]*waf.WAF{
		"fast": waf.New(waf.Options{Rules: fast.New(), Limits: limits, Mask: masker}),
		"crs":  waf.New(waf.Options{Rules: core, Limits: limits, Mask: masker}),
	}}, nil
}

func (b *bench) close() error {
	return errors.Join(b.sets["fast"].Close(), b.sets["crs"].Close(), b.coraza.(io.Closer).Close())
}

// stock asks Coraza as its own wrapper of net/http does.
func (b *bench) stock(what string) rounds.Contender {
	in := b.requests[what]
	target := in.Path
	if in.Query != "" {
		target += "?" + in.Query
	}
	return rounds.Contender{Name: "stock", Do: func(n int) {
		for range n {
			tx := b.coraza.NewTransaction()
			tx.ProcessURI(target, in.Method, in.Proto)
			tx.AddRequestHeader("Host", in.Host)
			for name, lines := range in.Header {
				tx.AddRequestHeader(name, lines[0])
			}
			it := tx.ProcessRequestHeaders()
			if it == nil && len(in.Body) > 0 {
				it, _, _ = tx.WriteRequestBody(in.Body)
			}
			if it == nil {
				it, _ = tx.ProcessRequestBody()
			}
			_ = tx.Close()
			if it != nil {
				panic(fmt.Sprintf("stock, %s: %+v", what, it))
			}
		}
	}}
}

// requests are what everybody is asked.
func requests() map[string]waf.Input {
	all := map[string]waf.Input{
		"plain GET":      {Method: "GET", Path: "/v1/items/42", Query: "page=2&sort=name", Header: browser()},
		"other GET":      {Method: "GET", Path: "/v1/search", Query: "q=l%27avion+d%27hier&lang=fr", Header: browser("Referer", "https://app.example.test/?tab=2", "Cookie", "theme=dark")},
		"1 KB of JSON":   order(kilobyte(1)),
		"100 KB of JSON": order("[" + join(93) + "]"),
	}
	for name, in := range all {
		in.Mode, in.Host, in.Proto = weir.Enforce, "api.example.test", "HTTP/1.1"
		all[name] = in
	}
	return all
}

func order(text string) waf.Input {
	return waf.Input{Method: "POST", Path: "/v1/orders", Header: browser("Content-Type", "application/json", "Content-Length", fmt.Sprint(len(text))), Body: []byte(text)}
}

// kilobyte is 1 KB of JSON with fifteen texts, of which no two are alike.
func kilobyte(seed int) string {
	var b strings.Builder
	fmt.Fprintf(&b, `{"id":%d,"items":[`, seed)
	for i := range 7 {
		fmt.Fprintf(&b, `%s{"name":"Chair no. %d, oak and steel","note":"Please leave parcel %d.%d at the door; don't ring after 8 pm (the baby sleeps)."}`,
			strings.Repeat(",", min(i, 1)), seed*10+i, seed, i)
	}
	b.WriteString(`],"remark":"Ordered by phone, see the mail of Monday"}`)
	return b.String()
}

// join returns n kilobytes.
func join(n int) string {
	var all []string
	for i := range n {
		all = append(all, kilobyte(i))
	}
	return strings.Join(all, ",")
}

// browser are the fields that a browser sends.
func browser(more ...string) http.Header {
	h := http.Header{"User-Agent": {"Mozilla/5.0 (X11; Linux x86_64; rv:128.0) Gecko/20100101 Firefox/128.0"}, "Accept": {"application/json, text/plain, */*"},
		"Accept-Language": {"en-US,en;q=0.5"}, "Accept-Encoding": {"gzip, deflate, br"}}
	for i := 0; i < len(more); i += 2 {
		h.Set(more[i], more[i+1])
	}
	return h
}
