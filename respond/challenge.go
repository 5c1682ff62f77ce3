package respond

import (
	"strings"

	"github.com/weirgate/weir"
)

// addChallenge adds WWW-Authenticate, which every 401 has (RFC 9110, section 15.5.2): a challenge for each way in
// which a key or token may be sent. What was wrong with a token is told by the codes of RFC 6750, section 3.1, and
// no more than them. API keys have no registered scheme, so ApiKey is ours; its parameter names the field.
func (r *Responder) addChallenge(f *fields, d *weir.Decision) {
	code := ""
	switch d.Reason {
	case weir.KeyMissing:
	case weir.KeyRefused, weir.KeyAmbiguous:
		code = "invalid_token"
	case weir.ScopeMissing:
		code = "insufficient_scope"
	default:
		return
	}
	var challenges []string
	if r.bearer {
		challenges = append(challenges, bearerChallenge(code, d.Rule))
	}
	if r.keyField != "" && d.Reason != weir.ScopeMissing {
		challenges = append(challenges, `ApiKey realm="weir", header="`+r.keyField+`"`)
	}
	if len(challenges) == 0 && d.Reason != weir.ScopeMissing {
		challenges = append(challenges, `ApiKey realm="weir"`) // it is read from elsewhere
	}
	if len(challenges) > 0 {
		f.add("Www-Authenticate", strings.Join(challenges, ", "))
	}
}

// bearerChallenge is the challenge of RFC 6750, section 3. An asker without a token is told no code.
func bearerChallenge(code string, rule *weir.Rule) string {
	text := `Bearer realm="weir"`
	if code != "" {
		text += `, error="` + code + `"`
	}
	if code == "insufficient_scope" && rule != nil {
		text += `, scope="` + strings.Join(rule.Scopes, " ") + `"`
	}
	return text
}
