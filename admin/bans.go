package admin

import (
	"errors"
	"net/http"
	"net/netip"
	"time"

	"github.com/weirgate/weir"
	"github.com/weirgate/weir/ban"
	"github.com/weirgate/weir/config"
	"github.com/weirgate/weir/respond"
)

// noBans is the answer where nobody keeps bans.
func (s *Server) noBans() error {
	if s.o.Bans == nil {
		return problem(http.StatusNotImplemented, "not_in_this_version", "nothing here keeps bans")
	}
	return nil
}

func (s *Server) bans(c *call) (any, error) {
	if err := s.noBans(); err != nil {
		return nil, err
	}
	list, all := s.o.Bans.List(c.number("limit"))
	v := Bans{Total: all, Bans: []Ban{}}
	for i := range list {
		v.Bans = append(v.Bans, respond.ViewBan(&list[i]))
	}
	return v, nil
}

// addBan keeps a client out.
func (s *Server) addBan(c *call) (any, error) {
	if err := s.noBans(); err != nil {
		return nil, err
	}
	var body NewBan
	if err := c.read(&body); err != nil {
		return nil, err
	}
	subject, err := ban.ParseSubject(body.Subject)
	if err != nil {
		return nil, badRequest("subject: %s", err)
	}
	b := weir.Ban{Reason: cut(body.Reason), Author: string(c.who)}
	if body.For != "" {
		d, err := config.ParseDuration(body.For)
		if err != nil || d < config.Duration(time.Second) {
			return nil, badRequest("for: %s: want at least 1s, as in 10m or 24h; without it the ban ends when it is lifted", cut(body.For))
		}
		b.Until = s.o.Now().Add(time.Duration(d))
	}
	if why := s.protects(c, subject); why != "" && !body.Force {
		p := problem(http.StatusConflict, "protected", why)
		p.Detail += ". To ban it all the same, say force"
		return nil, p
	}
	line := AuditLine{What: "ban.add", Target: subject.String(), Reason: body.Reason}
	err = s.change(c, &line, func() error {
		before, err := s.o.Bans.Add(c.r.Context(), subject, b)
		line.Before, line.After = shownBan(before), shownBan(s.o.Bans.Covering(subject))
		return banFailed(err)
	})
	if err != nil {
		return nil, err
	}
	return shownBan(s.o.Bans.Covering(subject)), nil
}

// protects returns why subject should not be banned without meaning it, or nothing.
func (s *Server) protects(c *call, subject ban.Subject) string {
	p := s.snapshot().Policy
	if subject.Key != "" {
		return p.ProtectsKey(subject.Key)
	}
	if peer, err := netip.ParseAddrPort(c.r.RemoteAddr); err == nil && subject.Network.Contains(weir.Canonical(peer.Addr())) && !peer.Addr().IsLoopback() {
		return subject.String() + " holds " + peer.Addr().Unmap().String() + ", the address that you ask from"
	}
	return p.Protects(subject.Network)
}

// removeBan lifts a ban.
func (s *Server) removeBan(c *call) (any, error) {
	if err := s.noBans(); err != nil {
		return nil, err
	}
	subject, err := ban.ParseSubject(c.r.PathValue("subject"))
	if err != nil {
		return nil, badRequest("subject: %s", err)
	}
	line := AuditLine{What: "ban.remove", Target: subject.String(), Reason: c.query["reason"]}
	var before *weir.Ban
	err = s.change(c, &line, func() error {
		var err error
		before, err = s.o.Bans.Remove(c.r.Context(), subject)
		line.Before = shownBan(before)
		return banFailed(err)
	})
	if err != nil {
		return nil, err
	}
	v := Lifted{Ban: *shownBan(before)}
	if wider := s.o.Bans.Covering(subject); wider != nil {
		v.StillBy = wider.Subject
	}
	return v, nil
}

// shownBan is a ban as it is shown, or nil.
func shownBan(b *weir.Ban) *Ban {
	if b == nil {
		return nil
	}
	v := respond.ViewBan(b)
	return &v
}

// banFailed is why a ban was not changed, as an answer.
func banFailed(err error) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, ban.ErrNone):
		return notFound(err.Error())
	case errors.Is(err, ban.ErrFull), errors.Is(err, ban.ErrTooLong):
		return problem(http.StatusUnprocessableEntity, "refused", err.Error())
	}
	return problem(http.StatusServiceUnavailable, "failed", err.Error())
}
