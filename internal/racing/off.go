//go:build !race

package racing

// On is set where the race detector is on.
const On = false
