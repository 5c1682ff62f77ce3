package environment

import (
	"fmt"
	"math"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/weirgate/weir/config"
)

// Read returns what environ (NAME=VALUE, the last of a name counts) says, and what is wrong with it:
// each problem's Field is the variable. A value that is wrong leaves the default in force, and no
// problem quotes the value of a variable that may hold a secret. A number, a duration, true or false
// that is set to nothing is as if it were not set.
func Read(environ []string) (Settings, []config.Problem) {
	r := reader{values: map[string]string{}, known: map[string]bool{}}
	for _, kv := range environ {
		name, value, _ := strings.Cut(kv, "=")
		r.values[name] = value
	}
	var s Settings
	r.fields(reflect.ValueOf(&s).Elem(), "")
	if s.Redis.URL == "" {
		s.Redis.URL = "/var/run/nutcracker/ratelimit.sock"
	}
	if s.PerSecond.URL == "" {
		s.PerSecond.URL = "/var/run/nutcracker/ratelimitpersecond.sock"
	}
	s.Ignored = r.ignored()
	r.judge(&s)
	return s, r.problems
}

// Present reports whether environ says where a configuration of envoyproxy/ratelimit is, so that its
// other variables, some of which have names that any program may use, can be taken for that program's.
func Present(environ []string) bool {
	return slices.ContainsFunc(environ, func(kv string) bool {
		name, value, _ := strings.Cut(kv, "=")
		return value != "" && (name == "RUNTIME_ROOT" || name == "RUNTIME_SUBDIRECTORY" || name == "CONFIG_TYPE")
	})
}

// A reader puts variables into fields.
type reader struct {
	values   map[string]string
	known    map[string]bool // the variables that have a field
	problems []config.Problem
}

func (r *reader) wrong(name, what, cure string) {
	r.problems = append(r.problems, config.Problem{File: "environment", Field: name, What: what, Cure: cure})
}

func (r *reader) idle(name, what, cure string) {
	r.problems = append(r.problems, config.Problem{File: "environment", Field: name, What: what, Cure: cure, Warning: true})
}

// fields fills the struct v; prefix is what the names of its variables begin with.
func (r *reader) fields(v reflect.Value, prefix string) {
	for i := range v.NumField() {
		tag := v.Type().Field(i).Tag
		if name := tag.Get("env"); name != "" {
			r.field(prefix+name, v.Field(i), tag)
		} else if v.Field(i).Kind() == reflect.Struct {
			r.fields(v.Field(i), prefix+tag.Get("prefix"))
		}
	}
}

// field fills v with its default, and then with what the variable says.
func (r *reader) field(name string, v reflect.Value, tag reflect.StructTag) {
	r.known[name] = true
	if text := tag.Get("default"); text != "" {
		_ = put(text, v, tag) // a default is never wrong, as a test has it
	}
	text, given := r.values[name]
	if !given || text == "" && v.Kind() != reflect.String {
		return
	}
	if want := put(text, v, tag); want != "" {
		r.wrong(name, fmt.Sprintf("%q", cut(text)), want)
	}
}

// cut returns text, or so much of it that a message can hold it.
func cut(text string) string {
	if len(text) > 64 {
		return strings.ToValidUTF8(text[:61], "") + "..."
	}
	return text
}

// put sets v from text, or returns what is wanted in its place.
func put(text string, v reflect.Value, tag reflect.StructTag) (want string) {
	switch p := v.Addr().Interface().(type) {
	case *time.Duration:
		d, err := time.ParseDuration(text)
		if err != nil || d < 0 {
			return "want a duration, as in 30s"
		}
		*p = d
	case *string:
		if words := tag.Get("oneof"); words != "" && !slices.Contains(strings.Split(words, ","), strings.ToLower(text)) {
			return "want one of " + strings.ReplaceAll(words, ",", ", ")
		}
		*p = text
	case *config.Secret:
		*p = config.Secret(text)
	case *bool:
		b, err := strconv.ParseBool(text)
		if err != nil {
			return "want true or false"
		}
		*p = b
	case *int:
		most, _ := strconv.ParseInt(tag.Get("max"), 10, 64)
		n, err := strconv.ParseInt(text, 0, 64)
		if err != nil || n < 0 || n > most || n > math.MaxInt {
			return fmt.Sprintf("want a whole number from 0 to %d", most)
		}
		*p = int(n)
	case *float64:
		x, err := strconv.ParseFloat(text, 64)
		if err != nil || !(x >= 0 && x <= 1) {
			return "want a number from 0 to 1"
		}
		*p = x
	case *map[string]string:
		return putPairs(text, p)
	}
	return ""
}

// putPairs reads k1=v1,k2=v2, or with colons.
func putPairs(text string, pairs *map[string]string) (want string) {
	all := map[string]string{}
	for pair := range strings.SplitSeq(text, ",") {
		pair = strings.TrimSpace(pair)
		at := strings.IndexAny(pair, "=:")
		if at <= 0 {
			return "want pairs, as in k1=v1,k2=v2"
		}
		all[pair[:at]] = pair[at+1:]
	}
	*pairs = all
	return ""
}

// judge says what does not go together, and what is done otherwise than it says.
func (r *reader) judge(s *Settings) {
	if s.GRPCServerUseTLS {
		r.pair("GRPC_SERVER_TLS_CERT", s.GRPCServerTLSCert, "GRPC_SERVER_TLS_KEY", s.GRPCServerTLSKey)
		if s.GRPCServerTLSCert == "" && s.GRPCServerTLSKey == "" {
			r.wrong("GRPC_SERVER_TLS_CERT", "not set beside GRPC_SERVER_USE_TLS", "want the file of a certificate")
		}
	}
	if s.XDS.UseTLS {
		r.pair("CONFIG_GRPC_XDS_CLIENT_TLS_CERT", s.XDS.ClientCert, "CONFIG_GRPC_XDS_CLIENT_TLS_KEY", s.XDS.ClientKey)
	}
	if s.XDS.BackoffMax < s.XDS.BackoffInitial {
		r.wrong("XDS_CLIENT_BACKOFF_MAX_INTERVAL", s.XDS.BackoffMax.String(), "want at least XDS_CLIENT_BACKOFF_INITIAL_INTERVAL, "+s.XDS.BackoffInitial.String())
	}
	if !strings.HasPrefix(s.PrometheusPath, "/") {
		r.wrong("PROMETHEUS_PATH", s.PrometheusPath, "want a path, as in /metrics")
	}
	r.judgeStores(s)
	if len(s.Ignored) > 0 {
		r.idle("", "no effect in Weir: "+strings.Join(s.Ignored, ", "), "nothing has to be done")
	}
}

// pair says that one of two files is missing.
func (r *reader) pair(one, oneFile, other, otherFile string) {
	switch {
	case oneFile == "" && otherFile != "":
		r.wrong(one, "not set beside "+other, "want both")
	case oneFile != "" && otherFile == "":
		r.wrong(other, "not set beside "+one, "want both")
	}
}
