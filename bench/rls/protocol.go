package main

import (
	"errors"

	ratelimitv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/common/ratelimit/v3"
	pb "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
)

// A protocol is how a service is asked.
type protocol struct {
	method  string
	message func(key, client string) ([]byte, error)
	refused func(answer []byte) (bool, error)
}

func protocols() map[string]protocol {
	return map[string]protocol{
		"envoy":      {pb.RateLimitService_ShouldRateLimit_FullMethodName, descriptor, overLimit},
		"gubernator": {"/pb.gubernator.V1/GetRateLimits", gubernatorLimit, gubernatorRefused},
	}
}

// descriptor asks about one descriptor of one entry.
func descriptor(key, client string) ([]byte, error) {
	entry := &ratelimitv3.RateLimitDescriptor_Entry{Key: key, Value: client}
	return proto.Marshal(&pb.RateLimitRequest{Domain: "bench", Descriptors: []*ratelimitv3.RateLimitDescriptor{{Entries: []*ratelimitv3.RateLimitDescriptor_Entry{entry}}}})
}

// overLimit reads the first field of an answer, the overall code.
func overLimit(answer []byte) (bool, error) {
	code, err := firstNumber(answer)
	return code == uint64(pb.RateLimitResponse_OVER_LIMIT), err
}

// Fields of gubernator.proto, v2.13.0.
const (
	gubernatorName, gubernatorKey, gubernatorHits, gubernatorMax, gubernatorDuration = 1, 2, 3, 4, 5
	gubernatorStatus, gubernatorError                                                = 1, 5
)

// gubernatorLimit asks gubernator, whose limits come with the question: what the descriptors of the others say.
func gubernatorLimit(key, client string) ([]byte, error) {
	most, milliseconds := uint64(1_000_000_000), uint64(3_600_000)
	if key == "hot" {
		most, milliseconds = 10, 86_400_000
	}
	var b []byte
	b = protowire.AppendString(protowire.AppendTag(b, gubernatorName, protowire.BytesType), key)
	b = protowire.AppendString(protowire.AppendTag(b, gubernatorKey, protowire.BytesType), client)
	for _, field := range []struct {
		number protowire.Number
		value  uint64
	}{{gubernatorHits, 1}, {gubernatorMax, most}, {gubernatorDuration, milliseconds}} {
		b = protowire.AppendVarint(protowire.AppendTag(b, field.number, protowire.VarintType), field.value)
	}
	return protowire.AppendBytes(protowire.AppendTag(nil, 1, protowire.BytesType), b), nil
}

// gubernatorRefused reads the status of the only limit. An error stands in the answer, whose status then says nothing.
func gubernatorRefused(answer []byte) (refused bool, err error) {
	_, _, n := protowire.ConsumeTag(answer)
	if n < 0 {
		return false, errors.New("gubernator: an answer without a limit")
	}
	b, n := protowire.ConsumeBytes(answer[n:])
	if n < 0 {
		return false, protowire.ParseError(n)
	}
	for len(b) > 0 {
		number, kind, n := protowire.ConsumeTag(b)
		if n < 0 {
			return false, protowire.ParseError(n)
		}
		b = b[n:]
		if number == gubernatorError {
			text, _ := protowire.ConsumeString(b)
			return false, errors.New("gubernator: " + text)
		}
		if number == gubernatorStatus {
			status, _ := protowire.ConsumeVarint(b)
			refused = status == 1
		}
		if n = protowire.ConsumeFieldValue(number, kind, b); n < 0 {
			return false, protowire.ParseError(n)
		}
		b = b[n:]
	}
	return refused, nil
}

// firstNumber returns the first field of a message if it is number 1, else 0.
func firstNumber(message []byte) (uint64, error) {
	number, kind, n := protowire.ConsumeTag(message)
	if n < 0 || number != 1 || kind != protowire.VarintType {
		return 0, nil
	}
	v, n := protowire.ConsumeVarint(message[n:])
	return v, protowire.ParseError(min(n, 0))
}
