package mask

import (
	"strings"
	"testing"
	"unicode/utf8"
)

func build(t testing.TB, kinds ...string) *Masker {
	t.Helper()
	if kinds == nil {
		kinds = Kinds()
	}
	m, err := New(kinds)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

func TestText(t *testing.T) {
	m := build(t)
	for text, want := range map[string]string{
		"":                                       "",
		"it's a note":                            "it's a note",
		"' OR '1'='1":                            "' OR '1'='1",
		"1 UNION SELECT password FROM users-- -": "1 UNION SELECT password FROM users-- -",
		"<img src=x onerror=alert(1)>":           "<img src=x onerror=alert(1)>",
		"../../etc/passwd":                       "../../etc/passwd",
		"information_schema.tables":              "information_schema.tables",
		"0x52908400098527886E0F7030069857D2E4169EE7' OR 1=1":       "[wallet 0x52…9EE7]' OR 1=1",
		"GBRPYHIL2CI3FNQ4BXLFMNDLFJUNPU2HY3ZMFSHONUCEOASW7QC7OX2H": "[wallet GBRP…OX2H]",
		"mail ola.nordmann+x@example.com!":                         "mail [email]!",
		"a@b":                                                      "a@b",
		"card 4111 1111 1111 1111' --":                             "card [card]' --",
		"4111-1111-1111-1112 is not one":                           "[phone] is not one",
		"378282246310005":                                          "[card]",
		"DE89 3704 0044 0532 0130 00;":                             "[iban];",
		"DE89 3704 0044 0532 0130 01 is not":                       "DE89 3704 0044 0532 0130 01 is not",
		"call +47 22 12 34 56.":                                    "call +[phone].",
		"(555) 010-9999":                                           "([phone]",
		"2 of 3, 4 of 5":                                           "2 of 3, 4 of 5",
		"sk_live_4eC39HqLyjWDarjtT1zdp7":                           "[token]",
		"Bearer eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0NTY3ODkwIn0.dozjgNryP4J3jVmN": "Bearer [wallet]",
		"q%27 0x%35%32908400098527886E0F7030069857D2E4169EE7":                      "q' [wallet 0x52…9EE7]",
		"a\x00b\nc\xff": "a\uFFFDb\uFFFDc\uFFFD",
	} {
		got := m.Text(text)
		if strings.HasPrefix(text, "Bearer") {
			if strings.Contains(got, "eyJzdWIiOi") || strings.Contains(got, "eyJhbGciOi") || strings.Contains(got, "dozjgNryP4") {
				t.Errorf("%q: %q", text, got)
			}
			continue
		}
		if got != want {
			t.Errorf("%q: got %q, want %q", text, got, want)
		}
	}
}

// A secret that the cut goes through is hidden whole, at either end.
func TestCut(t *testing.T) {
	m := build(t)
	const wallet = "0x52908400098527886E0F7030069857D2E4169EE7"
	text := strings.Repeat("a ", 40) + wallet + strings.Repeat(" b", 40)
	for at := range len(text) + 2 {
		got := m.Cut(text, at)
		if len(got) > MaxFragment || !utf8.ValidString(got) {
			t.Errorf("at %d: %d bytes: %q", at, len(got), got)
		}
		for i := 0; i+5 <= len(wallet); i++ {
			if strings.Contains(got, wallet[i:i+5]) {
				t.Errorf("at %d: %q holds %q", at, got, wallet[i:i+5])
			}
		}
	}
}

func TestKinds(t *testing.T) {
	const text = "a@example.com 4111 1111 1111 1111 X-1234-Y"
	for kinds, want := range map[string]string{
		"email":         "[email] 4111 1111 1111 1111 X-1234-Y",
		"card":          "a@example.com [card] X-1234-Y",
		`regex:X-\d+-Y`: "a@example.com 4111 1111 1111 1111 [masked]",
	} {
		if got := build(t, kinds).Text(text); got != want {
			t.Errorf("%s: got %q, want %q", kinds, got, want)
		}
	}
	for _, bad := range []string{"mails", "regex:(", ""} {
		if _, err := New([]string{bad}); err == nil {
			t.Errorf("%q is taken", bad)
		}
	}
	var none *Masker
	if got := none.Text("a@example.com"); got != "a@example.com" || none.IsSecret("password") {
		t.Errorf("the nil masker: %q", got)
	}
}

func TestIsSecret(t *testing.T) {
	m := build(t)
	for _, name := range []string{"password", "user/Passwd", "access_token", "Authorization", "Cookie", "X-Api-Key", "client_secret", "pin", "card/pin", "CVV"} {
		if !m.IsSecret(name) {
			t.Errorf("%s is no secret", name)
		}
	}
	for _, name := range []string{"", "q", "text", "author", "spinner", "shipping", "User-Agent"} {
		if m.IsSecret(name) {
			t.Errorf("%s is a secret", name)
		}
	}
}

func TestChecks(t *testing.T) {
	if !luhn("4111111111111111") || luhn("4111111111111112") {
		t.Error("luhn")
	}
	if !mod97([]byte("GB82WEST12345698765432")) || mod97([]byte("GB82WEST12345698765433")) {
		t.Error("mod97")
	}
}

// Nothing is longer than promised, whatever is masked.
func FuzzCut(f *testing.F) {
	f.Add("a@b.c 4111 1111 1111 1111 %41", 3)
	f.Add("DE89 3704 0044 0532 0130 00", 0)
	f.Add("\xff%ff%", 1)
	f.Add("+1 (555) 010-9999", 5)
	m := build(f)
	f.Fuzz(func(t *testing.T, text string, at int) {
		if got := m.Cut(text, at); len(got) > MaxFragment || !utf8.ValidString(got) {
			t.Errorf("%q", got)
		}
	})
}
