// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

// Package logging redirects the logs of the SDK and of client-go, to keep them out of the output of
// a program.
package logging

import (
	"context"
	"io"

	"k8s.io/klog/v2"
	"k8s.io/klog/v2/textlogger"
)

// verbosity is klog's level for --verbose: events, but not each request.
const verbosity = 2

// Route redirects klog to w if verbose is set. Otherwise klog is discarded: progress and errors are
// reported to the user in other ways. The context has the logger, and that of [Notices]. restore
// resets klog.
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
