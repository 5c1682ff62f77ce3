package config

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"regexp"
	"strconv"
	"strings"
	"unicode/utf8"

	"go.yaml.in/yaml/v3"
)

// maxFile is the largest configuration file, in bytes.
const maxFile = 4 << 20

// scan returns the tree of the file's only document, or nil for an empty file. A text that is not one
// YAML document gives one problem, the first, since what follows it cannot be told.
func scan(data []byte) (*yaml.Node, *Problem) {
	if len(data) > maxFile {
		return nil, &Problem{Line: 1, Col: 1, What: "the file is too large", Cure: "want at most 4MiB"}
	}
	if p := scanBytes(data); p != nil {
		return nil, p
	}
	in := &countingReader{data: data}
	decoder := yaml.NewDecoder(in)
	var document, second yaml.Node
	if err := decoder.Decode(&document); err != nil {
		return nil, syntaxProblem(data, in.read, err)
	}
	if err := decoder.Decode(&second); err == nil {
		return nil, &Problem{Line: second.Line, Col: max(1, second.Column), What: "a second document begins", Cure: "want one document in the file"}
	} else if !errors.Is(err, io.EOF) {
		return nil, syntaxProblem(data, in.read, err)
	}
	return document.Content[0], nil
}

// scanBytes looks for what no text holds.
func scanBytes(data []byte) *Problem {
	for _, bom := range []string{"\xff\xfe", "\xfe\xff"} {
		if bytes.HasPrefix(data, []byte(bom)) {
			return &Problem{Line: 1, Col: 1, What: "the file is UTF-16", Cure: "save it as UTF-8"}
		}
	}
	for i := 0; i < len(data); {
		r, size := utf8.DecodeRune(data[i:])
		if r == utf8.RuneError && size == 1 || r < ' ' && r != '\t' && r != '\n' && r != '\r' || r == 0x7f {
			return byteProblem(data, i)
		}
		i += size
	}
	return nil
}

// byteProblem says what is wrong with the byte data[i].
func byteProblem(data []byte, i int) *Problem {
	line, col := position(data, i)
	p := &Problem{Line: line, Col: col, What: fmt.Sprintf("byte 0x%02x is not UTF-8", data[i]), Cure: "save the file as UTF-8"}
	if data[i] < utf8.RuneSelf {
		p.What = fmt.Sprintf("control character 0x%02x", data[i])
		p.Cure = fmt.Sprintf(`remove it, or write "\x%02x" in double quotes`, data[i])
	}
	return p
}

// position returns the line and column of data[i], both from 1; a column is a character.
func position(data []byte, i int) (line, col int) {
	before := data[:i]
	start := bytes.LastIndexByte(before, '\n') + 1
	return 1 + bytes.Count(before, []byte("\n")), 1 + utf8.RuneCount(before[start:])
}

// A countingReader hands out one byte at a time, so that what was read when a parser gave up tells
// where it stood.
type countingReader struct {
	data []byte
	read int
}

func (r *countingReader) Read(p []byte) (int, error) {
	if r.read == len(r.data) {
		return 0, io.EOF
	}
	p[0] = r.data[r.read]
	r.read++
	return 1, nil
}

var (
	yamlError     = regexp.MustCompile(`(?s)^yaml: (?:line (\d+): )?(.*)$`)
	unknownAnchor = regexp.MustCompile(`^unknown anchor '(.*)' referenced$`)
)

// syntaxProblem says where data stopped being YAML, or returns nil if it holds nothing. The parser
// names the line on which the collection begins whose end it misses, if any, and had taken read bytes.
func syntaxProblem(data []byte, read int, err error) *Problem {
	if errors.Is(err, io.EOF) {
		return nil
	}
	m := yamlError.FindStringSubmatch(err.Error())
	if m == nil {
		return &Problem{Line: 1, Col: 1, What: err.Error(), Cure: "want YAML"}
	}
	p := &Problem{Line: 1, Col: 1, What: m[2], Cure: "want YAML"}
	line, _ := strconv.Atoi(m[1])
	here, _ := position(data, len(bytes.TrimRight(data[:read], " \r\n")))
	if a := unknownAnchor.FindStringSubmatch(m[2]); a != nil {
		at := max(0, bytes.LastIndex(data[:read], []byte("*"+a[1])))
		p.Line, p.Col = position(data, at)
		p.Cure = "write &" + a[1] + " at the value that is meant, above this place"
		return p
	}
	if missing := strings.Contains(m[2], "did not find expected"); missing {
		p.Line = here
		if line+1 < here {
			p.What = fmt.Sprintf("%s, in what begins on line %d", m[2], line+1)
		}
	} else {
		p.Line = max(1, line)
	}
	p.Line = min(p.Line, here)
	blame(p, data)
	return p
}

// blame points p at what usually is the reason on its line.
func blame(p *Problem, data []byte) {
	lines := strings.SplitN(string(data), "\n", p.Line+1)
	for _, n := range []int{p.Line, p.Line - 1} {
		if n < 1 || n > len(lines) {
			continue
		}
		text := lines[n-1]
		indent := text[:len(text)-len(strings.TrimLeft(text, " \t"))]
		if tab := strings.IndexByte(indent, '\t'); tab >= 0 {
			p.Line, p.Col, p.What, p.Cure = n, tab+1, "a tab in the indentation", "indent with spaces"
			return
		}
	}
	indent := len(lines[p.Line-1]) - len(strings.TrimLeft(lines[p.Line-1], " "))
	p.Col = indent + 1
	switch {
	case strings.HasPrefix(p.What, "mapping values are not allowed"):
		p.Cure = "put a value that holds \": \" in quotes, and check the indentation"
	case strings.HasPrefix(p.What, "found character that cannot start"):
		p.Cure = "put a value that begins with @, ` or % in quotes"
	case strings.Contains(p.What, "did not find expected") && strings.Contains(lines[p.Line-1], "${"):
		p.Cure = "put ${VAR} between { } or [ ] in quotes, and check that brackets and quotes are closed"
	case strings.Contains(p.What, "did not find expected"):
		p.Cure = "check the indentation, and that brackets and quotes are closed"
	case strings.Contains(p.What, "unexpected end of stream"):
		p.What, p.Cure = "a quoted text does not end", "close the quote, which may begin further up"
	}
}
