// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

// Package logging sends the logs of the SDK and of client-go where they do not disturb.
package logging

import (
	"context"
	"io"

	"k8s.io/klog/v2"
	"k8s.io/klog/v2/textlogger"
)

// verbosity is klog's level for --verbose: what happens, but not each request.
const verbosity = 2

// Route makes everything that logs through klog write to w if verbose is set and otherwise nothing, since what
// concerns the user is shown as progress or returned as an error. The context carries the logger, and that of [Notices];
// restore puts klog back as it was.
func Route(ctx context.Context, w io.Writer, verbose bool) (_ context.Context, restore func()) {
	state := klog.CaptureState()
	var logger klog.Logger // discards
	if verbose {
		logger = textlogger.NewLogger(textlogger.NewConfig(textlogger.Output(w), textlogger.Verbosity(verbosity)))
	} else {
		ctx = context.WithValue(ctx, noticesKey{}, newNotices(w))
	}
	klog.SetLoggerWithOptions(logger, klog.ContextualLogger(true))
	return klog.NewContext(ctx, logger), state.Restore
}
