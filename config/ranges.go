package config

import (
	"fmt"
	"reflect"
)

// maxRanges is the largest file of ranges, in bytes.
const maxRanges = 1 << 20

// Ranges returns the networks that client.ranges_file gives presets, by preset.
func (c *Config) Ranges() map[string][]string { return c.ranges }

// readRanges reads client.ranges_file: a mapping of preset to list of networks.
func (k *checker) readRanges() {
	name := k.Client.RangesFile
	if name == "" || k.broken("client.ranges_file") {
		return
	}
	data, err := readBounded(name, maxRanges)
	if err != nil {
		k.wrong("client.ranges_file", err.Error(), "want a readable file of presets and their networks")
		return
	}
	file := &Config{file: name, places: map[string]place{}}
	d := &decoder{config: file, lookup: func(string) (string, bool) { return "", false }}
	root, broken := scan(data)
	if broken != nil {
		broken.File = name
		k.bad["client.ranges_file"] = true
		k.problems = append(k.problems, *broken)
		return
	}
	if root != nil {
		d.decode(root, reflect.ValueOf(&k.ranges).Elem(), field{}, "", 0)
	}
	inFile := &checker{Config: file, bad: map[string]bool{}, problems: d.problems}
	for preset, networks := range k.ranges {
		for i, network := range networks {
			at := fmt.Sprintf("%s[%d]", preset, i)
			inFile.wrongIf(wantNetwork(network), at, network)
		}
	}
	if len(inFile.problems) > 0 {
		k.bad["client.ranges_file"] = true
	}
	k.problems = append(k.problems, inFile.problems...)
}
