package config

// A Problem is one thing that is wrong with a configuration file, or suspicious.
type Problem struct {
	File      string
	Line, Col int
	Field     string // the path of the field, as in rules[3].limits[0].rate
	What      string // what is wrong
	Cure      string // what to write instead
	Warning   bool   // legal, but suspicious
}
