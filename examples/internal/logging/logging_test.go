// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package logging_test

import (
	"bytes"
	"errors"
	"strings"
	"testing"

	"k8s.io/klog/v2"

	"github.com/spokewire/sdk-go/examples/internal/logging"
)

func TestRoute(t *testing.T) {
	for _, verbose := range []bool{false, true} {
		var out bytes.Buffer
		ctx, restore := logging.Route(t.Context(), &out, verbose)
		klog.FromContext(ctx).Info("from the context")
		klog.InfoS("from everywhere")
		klog.Background().V(2).Info("details")
		klog.Background().V(5).Info("noise")
		restore()
		for _, want := range []string{"from the context", "from everywhere", "details"} {
			if strings.Contains(out.String(), want) != verbose {
				t.Errorf("verbose %v: %q; %q belongs there: %v", verbose, out.String(), want, verbose)
			}
		}
		if strings.Contains(out.String(), "noise") {
			t.Errorf("verbose %v: %q has noise", verbose, out.String())
		}
	}
}

// TestNotices checks that only notices are printed without --verbose, each on one line.
func TestNotices(t *testing.T) {
	var out bytes.Buffer
	ctx, restore := logging.Route(t.Context(), &out, false)
	defer restore()
	logger := klog.FromContext(logging.Notices(ctx)).WithValues("client", "hub")
	klog.FromContext(ctx).Info("from another part")
	logger.V(2).Info("details")
	for range 3 {
		logger.Error(errors.New("no\nway"), "Cannot connect", "attempt", "next")
	}
	logger.Info("Connected again")
	klog.FromContext(logging.Notices(ctx)).Error(nil, "Odd", "left over")
	const want = "Cannot connect: no way (client: hub, attempt: next)\nConnected again (client: hub)\nOdd\n"
	if out.String() != want {
		t.Errorf("%q, want %q", out.String(), want)
	}
}

// TestNoticesAreInTheLog checks that notices are part of the log with --verbose. Without Route they
// are logged by klog as usual.
func TestNoticesAreInTheLog(t *testing.T) {
	var out bytes.Buffer
	ctx, restore := logging.Route(t.Context(), &out, true)
	defer restore()
	klog.FromContext(logging.Notices(ctx)).Info("Connected again")
	if !strings.Contains(out.String(), `"Connected again"`) {
		t.Errorf("%q", out.String())
	}
	if ctx := t.Context(); logging.Notices(ctx) != ctx {
		t.Error("there is nothing to change without Route")
	}
}
