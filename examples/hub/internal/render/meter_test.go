// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package render

import (
	"errors"
	"strings"
	"testing"
	"text/template"
	"time"

	clocktesting "k8s.io/utils/clock/testing"

	"github.com/spokewire/sdk-go/dynamicwatcher/values"
	"github.com/spokewire/sdk-go/examples/hub/internal/document"
	"github.com/spokewire/sdk-go/examples/internal/boundtemplate"
)

// slow returns each value after a minute of fake time.
type slow struct {
	clock *clocktesting.FakePassiveClock
}

func (s slow) Value(values.Ref) (string, error) {
	s.clock.SetTime(s.clock.Now().Add(time.Minute))
	return "value", nil
}

// TestLimits checks the limits of a template for steps and time. The time to read values does not
// count.
func TestLimits(t *testing.T) {
	for _, tt := range []struct {
		reason, template, want string
		round                  time.Duration // duration of a call of tick
	}{
		{"few steps", "{{ range 90000 }}{{ end }}...", "", 0},
		{"many steps", "x\n\n{{ range 100000 }}{{ end }}",
			"bad.yaml, document 1: t: for the cluster c: line 3: more than 1000000 steps on a cluster", 0},
		{"in time", "{{ range 3 }}{{ tick }}{{ end }}", "", 3 * time.Second},
		{"too long", "x\n{{ range 4 }}{{ tick }}{{ end }}",
			"bad.yaml, document 1: t: for the cluster c: line 2: more than 10s on a cluster", 4 * time.Second},
		{"reading", `{{ fromSecret "n" "s" "k" }}{{ range 3 }}{{ tick }}{{ end }}`, "", 3 * time.Second},
		{"reading and too long", `{{ fromSecret "n" "s" "k" }}{{ range 4 }}{{ tick }}{{ end }}`, "line 1: more than 10s",
			4 * time.Second},
	} {
		t.Run(tt.reason, func(t *testing.T) {
			c := clocktesting.NewFakePassiveClock(time.Now())
			r := &renderer{where: "bad.yaml, document 1", objects: slow{c}, values: map[string]string{},
				meter: boundtemplate.New(c, boundtemplate.StepsOf(0))}
			functions := r.functions()
			functions["tick"] = func() string {
				c.SetTime(c.Now().Add(tt.round))
				return "."
			}
			parsed := template.Must(template.New("template").Funcs(functions).Parse(tt.template))
			r.meter.Instrument(parsed, tt.template)
			r.meter.Begin()
			var out strings.Builder
			err := parsed.Execute(&out, nil)
			if tt.want == "" {
				if err != nil || !strings.HasSuffix(out.String(), "...") {
					t.Errorf("%v, %q", err, out.String())
				}
				return
			}
			var wrong *document.Error
			if err == nil || !errors.As(r.failed("t", "c", err), &wrong) || !strings.Contains(wrong.Error(), tt.want) {
				t.Errorf("%v, want %q", wrong, tt.want)
			}
		})
	}
}
