package weir

// A Credential is what became of the API key or token that a request bears.
type Credential uint8

const (
	// NoCredential: the request bears none.
	NoCredential Credential = iota
	// Verified: it is good, and says who asks.
	Verified
	// Refuted: it is no key of ours, or one that is no longer good. Which of these is not told.
	Refuted
	// Ambiguous: the request bears two that differ.
	Ambiguous
	// Unverifiable: whoever could tell does not answer.
	Unverifiable
)

var credentialNames = [...]string{"none", "verified", "refuted", "ambiguous", "unverifiable"}

func (c Credential) String() string { return credentialNames[c] }
