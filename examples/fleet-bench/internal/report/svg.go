// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package report

import (
	"fmt"
	"html"
	"io"
	"math"
	"strings"
)

// The sizes in the drawing, in pixels.
const (
	width      = 900
	left       = 110 // start of plots
	right      = 700 // end of plots; values are next to them
	rowHeight  = 34
	plotHeight = 220
	points     = 80 // limit for a line
)

// style makes the drawing readable on light and on dark pages. It has no variables, since not all
// SVG renderers support them. Phase n has the class pn.
const style = `
text { font: 13px system-ui, sans-serif; fill: #1f2328; } .page { fill: #ffffff; }
text.soft { font-size: 11px; fill: #59636e; }
text.title { font-size: 17px; font-weight: 600; } text.head { font-weight: 600; }
line.grid { stroke: #d1d9e0; stroke-width: 1; } .line { fill: none; stroke-width: 2; stroke-linejoin: round; }
` + `@media (prefers-color-scheme: dark) {
  text { fill: #f0f6fc; } .page { fill: #0d1117; } text.soft { fill: #9198a1; } line.grid { stroke: #3d444d; } }
`

// colours are the colours of the phases in drawn, for light and for dark pages.
var colours = [][2]string{
	{"#59636e", "#9198a1"}, {"#0969da", "#4493f8"}, {"#bc4c00", "#f0883e"}, {"#1a7f37", "#3fb950"},
	{"#8250df", "#ab7df8"}, {"#bf3989", "#f778ba"},
}

// palette returns the style rules for the colours of the phases.
func palette() string {
	var light, dark strings.Builder
	for i, colour := range colours {
		const rules = ".p%[1]d { fill: %[2]s; stroke: %[2]s; } .line.p%[1]d { fill: none; }\n"
		fmt.Fprintf(&light, rules, i, colour[0])
		fmt.Fprintf(&dark, rules, i, colour[1])
	}
	return light.String() + "@media (prefers-color-scheme: dark) {\n" + dark.String() + "}\n"
}

// drawn are the phases in a drawing, in the order of their colours.
var drawn = []string{"floor", "create", "paced", "update", "probe", "delete"}

// canvas collects elements.
type canvas struct{ strings.Builder }

func (c *canvas) text(x, y float64, class, anchor, format string, args ...any) {
	fmt.Fprintf(c, `<text x="%.1f" y="%.1f" class="%s" text-anchor="%s">%s</text>`+"\n",
		x, y, class, anchor, html.EscapeString(fmt.Sprintf(format, args...)))
}

func (c *canvas) grid(x1, y1, x2, y2 float64) {
	fmt.Fprintf(c, `<line x1="%.1f" y1="%.1f" x2="%.1f" y2="%.1f" class="grid"/>`+"\n", x1, y1, x2, y2)
}

// series is a phase in the drawing.
type series struct {
	*Phase
	class string // its colour
}

func (r *Report) drawn(has func(*Phase) bool) []series {
	var all []series
	for i, name := range drawn {
		if p := r.Phase(name); p != nil && has(p) {
			all = append(all, series{p, fmt.Sprintf("p%d", i)})
		}
	}
	return all
}

// Draw writes latencies and throughput as an SVG.
func Draw(w io.Writer, r *Report) error {
	latencies := r.drawn(func(p *Phase) bool { return p.Latency != nil && p.Latency.P50 > 0 })
	rates := r.drawn(func(p *Phase) bool { return len(p.Series) > 1 && p.Name != "probe" })
	var c canvas
	s := r.Settings
	c.text(24, 34, "title", "start", "%s works of %s on %s agents", count(int64(s.Works)), size(int64(s.Size)),
		count(int64(s.Agents)))
	c.text(24, 54, "soft", "start", "%s, %d processors, %s", r.Machine.System, r.Machine.CPUs, r.Machine.Go)
	y := c.latency(86, latencies)
	y = c.throughput(y+48, rates)
	document := fmt.Sprintf(`<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %d %.0f" width="%d" height="%.0f" `+
		`role="img" aria-label="fleet-bench: latency and throughput">`+
		"\n<style>%s</style>\n<rect class=\"page\" width=\"100%%\" height=\"100%%\"/>\n%s</svg>\n",
		width, y+24, width, y+24, style+palette(), c.String())
	_, err := io.WriteString(w, document)
	return err
}

// latency draws a row for each phase, from p50 to p99.9, on a logarithmic scale.
func (c *canvas) latency(y float64, rows []series) float64 {
	c.text(24, y, "head", "start", "Latency")
	c.text(left+16, y, "soft", "start", "of a round trip, logarithmic: p50, p90, p99 and p99.9")
	if len(rows) == 0 {
		return y
	}
	low, high := math.Inf(1), 0.0
	for _, p := range rows {
		low, high = min(low, p.Latency.P50), max(high, p.Latency.P999)
	}
	from, to := math.Floor(math.Log10(low)), math.Ceil(math.Log10(high))
	if from == to {
		to++
	}
	at := func(ms float64) float64 { return left + (math.Log10(ms)-from)/(to-from)*(right-left) }
	top, bottom := y+16, y+16+float64(len(rows))*rowHeight
	for e := from; e <= to; e++ {
		x := at(math.Pow(10, e))
		c.grid(x, top, x, bottom)
		c.text(x, bottom+16, "soft", "middle", "%s", short(math.Pow(10, e)))
	}
	for i, p := range rows {
		middle := top + (float64(i)+0.5)*rowHeight
		l := p.Latency
		c.text(left-12, middle+4, "", "end", "%s", p.Name)
		fmt.Fprintf(c, `<line x1="%.1f" y1="%.1f" x2="%.1f" y2="%.1f" class="line %s"/>`+"\n", at(l.P50), middle,
			at(l.P999), middle, p.class)
		for n, ms := range []float64{l.P50, l.P90, l.P99, l.P999} {
			fmt.Fprintf(c, `<circle cx="%.1f" cy="%.1f" r="%.1f" class="%s"/>`+"\n", at(ms), middle, 6-float64(n),
				p.class)
		}
		c.text(right+14, middle+4, "", "start", "p50 %s, p99 %s", millis(l.P50), millis(l.P99))
	}
	return bottom + 16
}

// short formats a power of ten for an axis.
func short(ms float64) string {
	if ms >= 1000 {
		return fmt.Sprintf("%g s", ms/1000)
	}
	return fmt.Sprintf("%g ms", ms)
}

// throughput draws a line for each phase, all from the same start.
func (c *canvas) throughput(y float64, lines []series) float64 {
	c.text(24, y, "head", "start", "Throughput")
	c.text(left+16, y, "soft", "start", "per second, over the time of each phase")
	if len(lines) == 0 {
		return y
	}
	var longest, most float64
	for _, p := range lines {
		thin, step := thinned(p.Series, p.StepSeconds)
		longest = max(longest, float64(len(thin))*step)
		for _, rate := range thin {
			most = max(most, rate)
		}
	}
	most = nice(max(most, 1))
	top, bottom := y+20, y+20+plotHeight
	for i := range 5 {
		rate := most * float64(i) / 4
		gy := bottom - rate/most*plotHeight
		c.grid(left, gy, right, gy)
		c.text(left-12, gy+4, "soft", "end", "%s", count(int64(rate)))
		seconds := longest * float64(i) / 4
		c.text(left+float64(i)/4*(right-left), bottom+16, "soft", "middle", "%.3g s", seconds)
	}
	for i, p := range lines {
		thin, step := thinned(p.Series, p.StepSeconds)
		var path strings.Builder
		for n, rate := range thin {
			fmt.Fprintf(&path, "%.1f,%.1f ", left+(float64(n)+0.5)*step/longest*(right-left),
				bottom-rate/most*plotHeight)
		}
		fmt.Fprintf(c, `<polyline class="line %s" points="%s"/>`+"\n", p.class, strings.TrimSpace(path.String()))
		ly := top + 8 + float64(i)*22
		fmt.Fprintf(c, `<rect x="%d" y="%.1f" width="14" height="4" rx="2" class="%s"/>`+"\n", right+14, ly-6, p.class)
		c.text(right+36, ly, "", "start", "%s %s/s", p.Name, count(int64(p.PerSecond)))
	}
	return bottom + 16
}

// thinned joins steps until at most points are left.
func thinned(values []float64, step float64) ([]float64, float64) {
	by := max(1, (len(values)+points-1)/points)
	var thin []float64
	for i := 0; i+by <= len(values); i += by {
		sum := 0.0
		for _, v := range values[i : i+by] {
			sum += v
		}
		thin = append(thin, sum/float64(by))
	}
	return thin, step * float64(by)
}

// nice returns the smallest round number that is at least v and divides well by four.
func nice(v float64) float64 {
	power := math.Pow(10, math.Floor(math.Log10(v)))
	for _, factor := range []float64{1, 1.2, 1.6, 2, 2.4, 3.2, 4, 6, 8} {
		if v <= factor*power {
			return factor * power
		}
	}
	return 10 * power
}
