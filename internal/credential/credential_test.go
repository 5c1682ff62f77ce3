package credential

import (
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/weirgate/weir"
)

var everywhere = Places{Header: "X-Api-Key", Bearer: true, Query: "api_key"}

func TestFind(t *testing.T) {
	type found struct {
		secret string
		n      int
	}
	k := Prefix + "k"
	tests := map[string]struct {
		header http.Header
		query  string
		want   found
	}{
		"none":                            {http.Header{"Cookie": {"api_key=" + k}}, "key=" + k, found{}},
		"header":                          {http.Header{"X-Api-Key": {k}}, "", found{k, 1}},
		"header with spaces":              {http.Header{"X-Api-Key": {" " + k + "\t"}}, "", found{k, 1}},
		"empty header":                    {http.Header{"X-Api-Key": {"", " "}}, "", found{}},
		"header of another name":          {http.Header{"X_Api_Key": {k}}, "", found{}},
		"somebody else's key":             {http.Header{"X-Api-Key": {"abc"}}, "", found{"abc", 1}},
		"the same line twice":             {http.Header{"X-Api-Key": {k, k}}, "", found{k, 1}},
		"two lines":                       {http.Header{"X-Api-Key": {k, k + "2"}}, "", found{k, 2}},
		"three lines":                     {http.Header{"X-Api-Key": {k, k + "2", k}}, "", found{k, 2}},
		"bearer":                          {http.Header{"Authorization": {"Bearer " + k}}, "", found{k, 1}},
		"bearer in another case":          {http.Header{"Authorization": {"bEARER  " + k}}, "", found{k, 1}},
		"bearer and a tab":                {http.Header{"Authorization": {"Bearer\t" + k}}, "", found{k, 1}},
		"another scheme":                  {http.Header{"Authorization": {"Bearer-X " + k}}, "", found{}},
		"somebody else's bearer":          {http.Header{"Authorization": {"Bearer eyJhbGciOi"}}, "", found{}},
		"basic":                           {http.Header{"Authorization": {"Basic " + k}}, "", found{}},
		"no scheme":                       {http.Header{"Authorization": {k}}, "", found{}},
		"query":                           {nil, "a=1&api_key=" + k + "&b", found{k, 1}},
		"query, spelled otherwise":        {nil, "%61pi_key=%77eir_k", found{k, 1}},
		"query without value":             {nil, "api_key&api_key=", found{}},
		"query of another separator":      {nil, "a=1;api_key=" + k + ";b", found{}},
		"query that cannot be decoded":    {nil, "api_key=%zz", found{"%zz", 1}},
		"part of a name":                  {nil, "xapi_key=" + k + "&api_key2=" + k, found{}},
		"everywhere the same":             {http.Header{"X-Api-Key": {k}, "Authorization": {"Bearer " + k}}, "api_key=" + k, found{k, 1}},
		"header and another one in query": {http.Header{"X-Api-Key": {k}}, "api_key=x", found{k, 2}},
		"header and somebody's token":     {http.Header{"X-Api-Key": {k}, "Authorization": {"Bearer eyJhbGciOi"}}, "", found{k, 1}},
	}
	for name, test := range tests {
		secret, n := everywhere.Find(&weir.Request{Header: test.header, Query: test.query})
		if got := (found{secret, n}); got != test.want {
			t.Errorf("%s: %+v, want %+v", name, got, test.want)
		}
	}
	full := weir.Request{Header: http.Header{"X-Api-Key": {k}, "Authorization": {"Bearer " + k}}, Query: "api_key=" + k}
	if secret, n := (&Places{}).Find(&full); n != 0 {
		t.Errorf("nowhere: %q, %d", secret, n)
	}
}

// What a server would take for the key's field goes, in whatever case it came; another's token stays.
func TestFields(t *testing.T) {
	k := Prefix + "k"
	header := map[string][]string{"X-Api-Key": {k}, "X_API_KEY": {k}, "x-api-key": {k}, "X-Api-Keys": {k}, "authorization": {"Bearer x", "bearer\t" + k}}
	got := everywhere.Fields(header)
	slices.Sort(got)
	if diff := cmp.Diff([]string{"X-Api-Key", "X_API_KEY", "authorization", "x-api-key"}, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if got := everywhere.Fields(map[string][]string{"Authorization": {"Bearer eyJ", "Basic " + k}}); got != nil {
		t.Errorf("another's token goes: %v", got)
	}
	if got := (&Places{Query: "x"}).Fields(header); got != nil {
		t.Errorf("no field bears keys, but %v goes", got)
	}
}

func TestWithoutKey(t *testing.T) {
	for query, want := range map[string]string{
		"": "", "a=1": "a=1", "api_key=x": "", "a=1&api_key=x&b=%20&api_key=y": "a=1&b=%20", "api%5Fkey=x&a": "a", "&a&": "&a&", "api_key": "", "%zz=api_key": "%zz=api_key",
		"a=1;api_key=x": "a=1", "a;api_key=x;b": "a;b", "a&api_key=x;b": "a&b", "a;api_key=x&b": "a&b", "api_key=x;api_key=y&;a;": "a;", "a=1;b": "a=1;b",
	} {
		if got := everywhere.WithoutKey(query); got != want {
			t.Errorf("%q: %q, want %q", query, got, want)
		}
	}
	if got := (&Places{}).WithoutKey("=x&a=1"); got != "=x&a=1" {
		t.Errorf("without a parameter's name: %q", got)
	}
}

// Whatever is sent: a key that is found is in the request, and is not in what is passed on.
func FuzzFind(f *testing.F) {
	for _, seed := range [][3]string{
		{"weir_a", "Bearer weir_a", "api_key=weir_a"}, {"", "bearer\tweir_b", "a=1&api%5fkey=weir%5Fb+c"}, {" x ", "Basic weir_c", "&&=&api_key=%&api_key"}, {"", "", "a=1;api_key=weir_d&b;api_key"},
	} {
		f.Add(seed[0], seed[1], seed[2])
	}
	f.Fuzz(func(t *testing.T, line, authorization, query string) {
		req := weir.Request{Header: http.Header{"X-Api-Key": {line}, "Authorization": {authorization}}, Query: query}
		secret, n := everywhere.Find(&req)
		if n < 0 || n > 2 || (n > 0) != (secret != "") {
			t.Fatalf("%q, %d", secret, n)
		}
		rest := weir.Request{Header: req.Header.Clone(), Query: everywhere.WithoutKey(query)}
		for _, name := range everywhere.Fields(rest.Header) {
			delete(rest.Header, name)
		}
		if left, n := everywhere.Find(&rest); n != 0 {
			t.Errorf("%q is passed on in %v ?%s", left, rest.Header, rest.Query)
		}
		if n == 0 && strings.Contains(authorization, "Basic") && rest.Header.Get("Authorization") != authorization {
			t.Errorf("%q is taken off", authorization)
		}
	})
}
