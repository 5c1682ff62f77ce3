package config

import "fmt"

// askedOnly warns of what no front can do that is asked by a proxy: it never sees a body, what the service
// answers, or when that ends.
func (k *checker) askedOnly() {
	if k.Listen != "" || k.broken("listen") || !k.served() {
		return
	}
	const cure = "put Weir in the road with listen and upstream, or remove it"
	k.inFlightUnseen("limits", k.Limits)
	k.inFlightUnseen("default.limits", k.Default.Limits)
	k.actsAsReject("default", k.Default.Action)
	for i := range k.Rules {
		r, at := &k.Rules[i], fmt.Sprintf("rules[%d]", i)
		k.inFlightUnseen(at+".limits", r.Limits)
		k.actsAsReject(at, r.Action)
		if len(r.Count.OnlyStatuses) > 0 {
			k.doubt(at+".count.only_statuses", "no front here sees what the service answers, so nothing is counted", cure)
		}
		if r.MaxBody > 0 {
			k.doubt(at+".max_body", "no front here sees a body", cure)
		}
	}
	for i := range k.Penalties {
		if len(k.Penalties[i].Statuses) > 0 {
			k.doubt(fmt.Sprintf("penalties[%d].statuses", i), "no front here sees what the service answers, so nobody offends", cure)
		}
	}
}

func (k *checker) inFlightUnseen(path string, limits []Limit) {
	for i, l := range limits {
		if l.InFlight != nil {
			k.doubt(fmt.Sprintf("%s[%d].in_flight", path, i), "no front here sees when an answer ends, so it limits nothing", "give a rate, or put Weir in the road with listen and upstream")
		}
	}
}

func (k *checker) actsAsReject(path, action string) {
	if action == "drop" || action == "tarpit" {
		k.doubt(path+".action", action+" acts as reject: a front that is asked holds and drops nothing", "write action: reject")
	}
}
