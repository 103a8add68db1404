// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"fmt"
	"io"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/types"

	"github.com/spokewire/sdk-go/examples/agent/internal/controller"
	"github.com/spokewire/sdk-go/examples/internal/logging"
)

// TestJournal checks the records and the Events of the results of works.
func TestJournal(t *testing.T) {
	const record = types.UID("u")
	refused := errors.New("refused")
	failed := controller.Event{Work: "w", Generation: 2, Application: "shop", Record: record, Err: refused}
	applied := controller.Event{Work: "w", Generation: 2, Application: "shop", Record: record}
	const log = `cluster=c1 work=w application=shop generation=2`
	for _, tt := range []struct {
		reason  string
		results []controller.Event
		records []string
		events  []string
	}{
		{"an apply without a change", []controller.Event{applied}, nil, nil},
		{"an apply with a change", []controller.Event{{Work: "w", Generation: 1, Changed: true}},
			[]string{`INFO msg="Applied a work" cluster=c1 work=w generation=1`}, nil},
		{"one failure and the recovery, once each", []controller.Event{failed, failed, failed, applied, applied},
			[]string{
				`ERROR msg="Failed to apply a work, retrying" ` + log + ` err=refused`,
				`INFO msg="Recovered a work" ` + log,
			}, []string{"WorkFailed w: refused", "WorkRecovered w: all manifests are applied again"}},
		{"another failure", []controller.Event{failed, {Work: "w", Generation: 3, Record: record, Err: errors.New("late")}},
			[]string{
				`ERROR msg="Failed to apply a work, retrying" ` + log + ` err=refused`,
				`ERROR msg="Failed to apply a work, retrying" cluster=c1 work=w generation=3 err=late`,
			}, []string{"WorkFailed w: refused", "WorkFailed w: late"}},
		{"a failure after a recovery", []controller.Event{failed, applied, failed}, []string{
			`ERROR msg="Failed to apply a work, retrying" ` + log + ` err=refused`,
			`INFO msg="Recovered a work" ` + log,
			`ERROR msg="Failed to apply a work, retrying" ` + log + ` err=refused`,
		}, []string{"WorkFailed w: refused", "WorkRecovered w: all manifests are applied again", "WorkFailed w: refused"}},
		{"a removal", []controller.Event{{Work: "w", Generation: 2, Deleted: true, Changed: true}},
			[]string{`INFO msg="Removed a work, its objects are deleted or orphaned" cluster=c1 work=w generation=2`}, nil},
		{"a work of another hub", []controller.Event{{Work: "w", Err: refused}},
			[]string{`ERROR msg="Failed to remove the objects of a work that the hub does not have" cluster=c1 work=w err=refused`},
			[]string{"WorkFailed w: refused"}},
		{"an API server that is away", []controller.Event{{Work: "w", Generation: 2, Err: io.ErrUnexpectedEOF}, applied},
			nil, nil},
	} {
		var out strings.Builder
		var events []string
		j := newJournal(logging.New(&out, logging.Options{}).WithValues("cluster", "c1"),
			func(e controller.Event, reason, message string) {
				events = append(events, fmt.Sprintf("%s %s: %s", reason, e.Work, message))
			})
		for _, result := range tt.results {
			j.record(result)
		}
		var records []string
		for line := range strings.Lines(out.String()) {
			records = append(records, regexp.MustCompile(`^time=\S+ level=|\n`).ReplaceAllString(line, ""))
		}
		if diff := cmp.Diff(tt.records, records); diff != "" {
			t.Errorf("%s, the log (-want +got):\n%s", tt.reason, diff)
		}
		if diff := cmp.Diff(tt.events, events); diff != "" {
			t.Errorf("%s, the Events (-want +got):\n%s", tt.reason, diff)
		}
	}
}
