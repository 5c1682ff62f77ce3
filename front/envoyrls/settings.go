package envoyrls

import "github.com/weirgate/weir/front/envoyrls/environment"

// SettingsOf returns the part of a deployment's environment that is the service's own.
func SettingsOf(e *environment.Settings) Settings {
	s := Settings{
		NearLimitRatio: e.NearLimitRatio, KeyPrefix: e.CacheKeyPrefix, Shadow: e.ShadowMode, Quota: e.QuotaMode,
		DynamicMetadata: e.ResponseDynamicMetadata,
	}
	if e.LimitResponseHeadersEnabled {
		s.Headers = &HeaderNames{Limit: e.LimitLimitHeader, Remaining: e.LimitRemainingHeader, Reset: e.LimitResetHeader}
	}
	return s
}
