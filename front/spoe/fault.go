package spoe

import (
	"errors"

	"github.com/weirgate/weir/front/spoe/spop"
)

// What connections are ended for, as metrics name it.
const (
	faultNoHello = "spop_no_hello"
	faultVersion = "spop_version"
	faultTooBig  = "spop_frame_too_big"
	faultFrame   = "spop_invalid_frame"
)

// Faults returns the names of everything that a connection is ended for.
func Faults() []string {
	return []string{faultNoHello, faultVersion, faultTooBig, faultFrame}
}

// faultOf returns the fault that err is, or nothing if it is none: the connection ended, or was ended.
func faultOf(err error) (fault string, status spop.Status) {
	if !errors.As(err, &status) {
		return "", spop.Normal
	}
	switch status {
	case spop.Normal:
		return "", status
	case spop.TimedOut:
		return faultNoHello, status
	case spop.NoVersion, spop.UnsupportedVersion:
		return faultVersion, status
	case spop.TooBig:
		return faultTooBig, status
	}
	return faultFrame, status
}
