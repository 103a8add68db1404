// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

// Package logging sends the logs of the SDK and of client-go where they do not disturb.
package logging

import (
	"io"

	"k8s.io/klog/v2"
	"k8s.io/klog/v2/textlogger"
)

// Route makes everything that logs through klog write to w if verbose is set, and otherwise nothing.
func Route(w io.Writer, verbose bool) (restore func()) {
	state := klog.CaptureState()
	var logger klog.Logger // discards
	if verbose {
		logger = textlogger.NewLogger(textlogger.NewConfig(textlogger.Output(w), textlogger.Verbosity(2)))
	}
	klog.SetLoggerWithOptions(logger, klog.ContextualLogger(true))
	return state.Restore
}
