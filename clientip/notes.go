package clientip

import "github.com/weirgate/weir"

// A Note is what a code means for the one request that gave rise to it.
type Note struct {
	Code weir.Codes // a single one
	Text string     // in an operator's words
}

// notes are on each code that a resolver finds.
var notes = [...]Note{
	{weir.ChainMissing, "the proxy that is trusted sent no header to find the client in"},
	{weir.ChainShort, "the header ends before the client's entry"},
	{weir.ChainLong, "the client sent such a header itself, which is not believed, or there is one proxy more"},
	{weir.ChainInvalidEntry, "where a trusted proxy writes an address there is none"},
	{weir.ChainTooLong, "the header has more trusted entries than are read"},
	{weir.HeaderUnexpected, "the peer sent headers that proxies send, and no proxy is configured; they are not believed"},
	{weir.HeaderDuplicate, "a header that has one value came with several"},
	{weir.PeerUntrustedWithHeader, "the peer is not a trusted proxy, and the header it sent is not believed"},
	{weir.PeerUnixUntrusted, "the request came over a unix socket, which is not among the trusted proxies"},
	{weir.ClientPrivate, "the client's address is a private one"},
	{weir.ClientSharedKnown, "Cloudflare Workers of every zone share the client's address"},
	{weir.ConfigTrustsEveryone, "every address is trusted, so anyone can choose the address he is counted under"},
}

// Notes returns what codes, those of one request, mean.
func Notes(codes weir.Codes) []Note {
	var list []Note
	for _, n := range notes {
		if codes&n.Code != 0 {
			list = append(list, n)
		}
	}
	return list
}
