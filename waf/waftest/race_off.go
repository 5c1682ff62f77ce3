//go:build !race

package waftest

// underRace is set where every access to memory is watched, at ten times the cost.
const underRace = false
