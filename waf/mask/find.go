package mask

import (
	"regexp"
	"strings"
)

// marks notes for each byte of a text what kind of secret it is part of; the first that finds it has it.
type marks struct {
	text    string
	kind    []uint8
	current uint8
}

// mark notes text[begin:end] as the current kind.
func (m *marks) mark(begin, end int) {
	for i := begin; i < end; i++ {
		if m.kind[i] == 0 {
			m.kind[i] = m.current
		}
	}
}

func (m *marks) findRegexp(re *regexp.Regexp) {
	for _, found := range re.FindAllStringIndex(m.text, -1) {
		m.mark(found[0], found[1])
	}
}

func isDigit(c byte) bool  { return '0' <= c && c <= '9' }
func isLetter(c byte) bool { c |= 0x20; return 'a' <= c && c <= 'z' }
func isAlnum(c byte) bool  { return isDigit(c) || isLetter(c) }

// findEmails marks what is on both sides of an @.
func (m *marks) findEmails() {
	for i := range len(m.text) {
		if m.text[i] != '@' {
			continue
		}
		begin, end := i, i+1
		for begin > 0 && (isAlnum(m.text[begin-1]) || strings.IndexByte("._%+-", m.text[begin-1]) >= 0) {
			begin--
		}
		for end < len(m.text) && (isAlnum(m.text[end]) || m.text[end] == '.' || m.text[end] == '-') {
			end++
		}
		if begin < i && end > i+3 && strings.IndexByte(m.text[i:end], '.') > 0 {
			m.mark(begin, end)
		}
	}
}

// eachDigits calls visit with each stretch of digits and what separates them, two bytes at most, and the
// digits alone.
func (m *marks) eachDigits(separators string, visit func(begin, end int, digits string)) {
	for i := 0; i < len(m.text); i++ {
		if !isDigit(m.text[i]) || i > 0 && isDigit(m.text[i-1]) {
			continue
		}
		end, digits := i, []byte{}
		for j := i; j < len(m.text) && j <= end+2; j++ {
			if c := m.text[j]; isDigit(c) {
				digits, end = append(digits, c), j+1
			} else if strings.IndexByte(separators, c) < 0 {
				break
			}
		}
		isPart := i > 0 && isLetter(m.text[i-1]) || end < len(m.text) && isLetter(m.text[end])
		if !isPart || len(digits) < end-i { // of a word, which is judged as one
			visit(i, end, string(digits))
		}
		i = max(i, end-1)
	}
}

// findCards marks payment cards (ISO/IEC 7812: 13 to 19 digits with a check digit), and every stretch of
// digits as long that is not separated.
func (m *marks) findCards() {
	m.eachDigits(" -", func(begin, end int, digits string) {
		for n := min(len(digits), 19); n >= 13; n-- {
			if luhn(digits[:n]) || n == end-begin {
				m.mark(begin, end)
				return
			}
		}
	})
}

// luhn reports whether the last digit is the check digit of the others (ISO/IEC 7812-1 annex B).
func luhn(digits string) bool {
	sum := 0
	for i := range len(digits) {
		d := int(digits[len(digits)-1-i] - '0')
		if i%2 == 1 {
			if d *= 2; d > 9 {
				d -= 9
			}
		}
		sum += d
	}
	return sum%10 == 0
}

// findPhones marks numbers of 7 to 15 digits (ITU-T E.164) that begin or are grouped as telephone
// numbers are.
func (m *marks) findPhones() {
	m.eachDigits(" ().-/", func(begin, end int, digits string) {
		isMarked := begin > 0 && (m.text[begin-1] == '+' || m.text[begin-1] == '(') || digits[0] == '0'
		isGrouped := end-begin >= len(digits)+2
		if n := len(digits); n >= 7 && n <= 16 && (isMarked || isGrouped) {
			m.mark(begin, end)
		}
	})
}

// findIBANs marks account numbers (ISO 13616), in groups or not.
func (m *marks) findIBANs() {
	for i := 0; i+15 <= len(m.text); i++ {
		t := m.text[i:]
		if !isLetter(t[0]) || !isLetter(t[1]) || !isDigit(t[2]) || !isDigit(t[3]) || i > 0 && isAlnum(m.text[i-1]) {
			continue
		}
		if n := ibanLength(t); n > 0 {
			m.mark(i, i+n)
			i += n - 1
		}
	}
}

// ibanLength returns how long the account number is that text begins with, or 0.
func ibanLength(text string) int {
	digits, found := []byte{}, 0
	for i := 0; i < len(text) && len(digits) < 34; i++ {
		switch c := text[i]; {
		case isAlnum(c):
			digits = append(digits, upper(c))
		case c == ' ' && i > 0 && text[i-1] != ' ':
			continue
		default:
			return found
		}
		if len(digits) >= 15 && mod97(digits) {
			found = i + 1
		}
	}
	return found
}

func upper(c byte) byte {
	if 'a' <= c && c <= 'z' {
		return c &^ 0x20
	}
	return c
}

// mod97 reports whether the check digits are right (ISO/IEC 7064, MOD 97-10).
func mod97(iban []byte) bool {
	rest := 0
	for i := range iban {
		c := iban[(i+4)%len(iban)]
		if isDigit(c) {
			rest = (rest*10 + int(c-'0')) % 97
		} else {
			rest = (rest*100 + int(c-'A') + 10) % 97
		}
	}
	return rest == 1
}

// eachRun calls visit with each stretch of letters, digits and what more holds.
func (m *marks) eachRun(more string, visit func(begin, end int)) {
	begin := 0
	for i := 0; i <= len(m.text); i++ {
		if i < len(m.text) && (isAlnum(m.text[i]) || strings.IndexByte(more, m.text[i]) >= 0) {
			continue
		}
		if i > begin {
			visit(begin, i)
		}
		begin = i + 1
	}
}

// findWallets marks addresses and keys of the usual chains: hexadecimal after 0x or alone, and the
// alphabets of base58, bech32 and base32, which are all letters with digits among them.
func (m *marks) findWallets() {
	m.eachRun("", func(begin, end int) {
		run := m.text[begin:end]
		isHex := strings.HasPrefix(run, "0x") || strings.HasPrefix(run, "0X")
		if isHex && len(run) >= 34 || len(run) >= 25 && hasBoth(run) {
			m.mark(begin, end)
		}
	})
}

// findTokens marks what nobody says: stretches of 12 and more letters, digits, _ and - with letters and
// digits mixed, and of 13 and more letters without. A token of several such parts is several labels.
func (m *marks) findTokens() {
	m.eachRun("_-", func(begin, end int) {
		run := strings.Trim(m.text[begin:end], "-")
		begin += strings.Index(m.text[begin:end], run)
		if len(run) >= 12 && hasBoth(run) {
			m.mark(begin, begin+len(run))
		}
	})
	m.eachRun("", func(begin, end int) {
		if end-begin >= 13 {
			m.mark(begin, end)
		}
	})
	m.eachRun("+/=_-", func(begin, end int) { // base64
		if run := m.text[begin:end]; end-begin >= 24 && hasBoth(run) && strings.ContainsAny(run, "+=") {
			m.mark(begin, end)
		}
	})
}

// hasBoth reports whether letters and digits are among run.
func hasBoth(run string) bool {
	letters, digits := false, false
	for i := range len(run) {
		letters, digits = letters || isLetter(run[i]), digits || isDigit(run[i])
	}
	return letters && digits
}
