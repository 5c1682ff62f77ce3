//go:build !race

package spoe

const raced = false
