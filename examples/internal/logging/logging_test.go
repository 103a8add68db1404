// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package logging_test

import (
	"bytes"
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
