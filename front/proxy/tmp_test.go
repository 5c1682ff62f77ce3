package proxy
import ("testing";"net/http";"net/http/httputil";"net/url";"time";"net";"os";"strings"
"github.com/weirgate/weir/engine"
"github.com/weirgate/weir/journal"
"github.com/weirgate/weir/middleware"
"github.com/weirgate/weir/front/proxy/guard"
)
func rpServer(b *testing.B, u string, tmo bool, rht bool, wrap func(net.Listener) net.Listener, mk func(http.Handler) http.Handler) string {
	target,_ := url.Parse(u)
	t := &http.Transport{MaxIdleConnsPerHost: maxIdle, DisableCompression: true}
	if tmo { t.IdleConnTimeout = 90*time.Second }
	if rht { t.ResponseHeaderTimeout = 60*time.Second }
	var h http.Handler = &httputil.ReverseProxy{Transport: t, BufferPool: new(plainPool), Rewrite: func(r *httputil.ProxyRequest) {
		r.SetURL(target); r.SetXForwarded(); r.Out.Host = r.In.Host }}
	if mk != nil { h = mk(h) }
	s := &http.Server{Handler: h}
	if tmo { s.ReadHeaderTimeout = 5*time.Second; s.IdleTimeout=120*time.Second }
	l, _ := net.Listen("tcp","127.0.0.1:0")
	a := l.Addr().String()
	if wrap != nil { l = wrap(l); s.ConnState=guard.Follow; s.ConnContext=guard.WithConn }
	go s.Serve(l)
	b.Cleanup(func(){ s.Close(); t.CloseIdleConnections() })
	return a
}
func BenchmarkX(b *testing.B) {
	upstream := serve(b, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.Write(kilobyte) }))
	generous := build(b, plan{yaml: "default: {limits: [{rate: 1000000000/1h}]}", upstreams: UpstreamOptions{Default: upstream.URL}})
	mw := func(h http.Handler) http.Handler {
		s := generous.snapshot(plan{yaml: "default: {limits: [{rate: 1000000000/1h}]}"}, nil)
		return middleware.New(engine.New(s, journal.New(journal.Options{Rules: s.Policy.Names()}), time.Now), middleware.Options{}).Wrap(h)
	}
	g := func(l net.Listener) net.Listener { return &guard.Listener{Listener: l, MaxHeader: 1<<16, Stall: time.Minute} }
	names := []string{"direct","plain","plain+idletimeouts","plain+rht","plain+guard","plain+mw","weir"}
	lanes := []*lane{newLane(b, upstream.Listener.Addr().String()),
	 newLane(b, rpServer(b, upstream.URL, false,false, nil,nil)),
	 newLane(b, rpServer(b, upstream.URL, true,false, nil,nil)),
	 newLane(b, rpServer(b, upstream.URL, false,true, nil,nil)),
	 newLane(b, rpServer(b, upstream.URL, false,false, g,nil)),
	 newLane(b, rpServer(b, upstream.URL, false,false, nil,mw)),
	 newLane(b, generous.address)}
	_ = os.Args; _ = strings.ToLower
	rounds := make([][]float64, len(lanes))
	for b.Loop() { for i, l := range lanes { rounds[i] = append(rounds[i], float64(l.run(b, 20))/(20*benchConns)) } }
	for i := range lanes { b.ReportMetric(median(rounds[i])-median(rounds[0]), names[i]+"-ns") }
}
