package replay

import (
	"fmt"
	"math"
	"strings"
	"time"
)

// The plot of hours, in the units of its view box.
const (
	hoursLeft, hoursRight = 40.0, 950.0
	hoursTop, hoursFloor  = 10.0, 190.0
	mostBars              = 400
)

// An hourPlot is requests over time, as bars.
type hourPlot struct {
	Bars     []bar
	Most     int64
	From, To string
	Each     string
}

// A bar is a stack: admitted at the bottom, then over a shadow limit, then refused.
type bar struct {
	Title                   string
	X, Width                float64
	PassY, ShadowY, RefuseY float64
	Pass, Shadow, Refuse    float64
}

// plotHours plots hours, or of many so many together that the bars can be seen. Nil if there are none.
func plotHours(list []Hour) *hourPlot {
	if len(list) == 0 {
		return nil
	}
	first, last := list[0].Start, list[len(list)-1].Start
	each := time.Hour * time.Duration(int(last.Sub(first)/time.Hour)/mostBars+1)
	merged := merge(list, each)
	p := &hourPlot{From: first.Format("2006-01-02 15:04"), To: last.Format("2006-01-02 15:04"), Each: fmt.Sprintf("%d h", int(each/time.Hour))}
	for _, h := range merged {
		p.Most = max(p.Most, h.Requests)
	}
	width := (hoursRight - hoursLeft) / float64(last.Sub(first)/each+1)
	for _, h := range merged {
		p.Bars = append(p.Bars, h.bar(hoursLeft+width*float64(h.Start.Sub(first)/each), max(width-1, 0.5), p.Most))
	}
	return p
}

// merge adds up what lies in the same stretch of each, from the first hour on.
func merge(list []Hour, each time.Duration) []Hour {
	var merged []Hour
	for _, h := range list {
		h.Start = list[0].Start.Add(h.Start.Sub(list[0].Start) / each * each)
		if n := len(merged); n == 0 || merged[n-1].Start != h.Start {
			merged = append(merged, Hour{Start: h.Start})
		}
		to := &merged[len(merged)-1]
		to.Requests, to.Refused, to.Shadow = to.Requests+h.Requests, to.Refused+h.Refused, to.Shadow+h.Shadow
	}
	return merged
}

func (h *Hour) bar(x, width float64, most int64) bar {
	scale := (hoursFloor - hoursTop) / float64(most)
	b := bar{
		Title: fmt.Sprintf("%s: %d requests, %d refused, %d over shadow limits", h.Start.Format("2006-01-02 15:04"), h.Requests, h.Refused, h.Shadow),
		X:     fine(x), Width: fine(width),
		Pass: fine(scale * float64(h.Requests-h.Refused-h.Shadow)), Shadow: fine(scale * float64(h.Shadow)), Refuse: fine(scale * float64(h.Refused)),
	}
	b.PassY = fine(hoursFloor - b.Pass)
	b.ShadowY = fine(b.PassY - b.Shadow)
	b.RefuseY = fine(b.ShadowY - b.Refuse)
	return b
}

// fine is x with as many digits as a plot needs.
func fine(x float64) float64 { return math.Round(x*100) / 100 }

// The plot of a curve, in the units of its view box.
const (
	curveLeft, curveRight = 50.0, 940.0
	curveTop, curveFloor  = 10.0, 170.0
)

// A curvePlot is the share that a limit would refuse, over the limit on a logarithmic scale.
type curvePlot struct {
	Line     string
	Points   []dot
	Now      float64 // where the limit in force is; 0 if it is not on the plot
	Most     string
	From, To uint64
}

// A dot is one candidate.
type dot struct {
	X, Y  float64
	Title string
}

// plotCurve plots the curve of a limit. Nil if there is nothing to see.
func plotCurve(l LimitReport) *curvePlot {
	if len(l.Curve) < 2 || l.Curve[0].Refused == 0 {
		return nil
	}
	first, last := l.Curve[0], l.Curve[len(l.Curve)-1]
	p := &curvePlot{From: first.Limit, To: last.Limit, Most: percent(first.Share)}
	low, span := math.Log(float64(first.Limit)), math.Log(float64(last.Limit))-math.Log(float64(first.Limit))
	var line strings.Builder
	for _, c := range l.Curve {
		d := dot{
			X:     fine(curveLeft + (curveRight-curveLeft)*(math.Log(float64(c.Limit))-low)/span),
			Y:     fine(curveFloor - (curveFloor-curveTop)*c.Share/first.Share),
			Title: fmt.Sprintf("%d per window would refuse %d (%s), in %d windows", c.Limit, c.Refused, percent(c.Share), c.Windows),
		}
		fmt.Fprintf(&line, "%g,%g ", d.X, d.Y)
		p.Points = append(p.Points, d)
		if int64(c.Limit) == l.Max {
			p.Now = d.X
		}
	}
	p.Line = line.String()
	return p
}
