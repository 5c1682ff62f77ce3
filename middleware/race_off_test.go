//go:build !race

package middleware

const raced = false
