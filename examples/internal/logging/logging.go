// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

// Package logging is the log of the programs: one record a line, as text or JSON, of the program
// itself, the SDK and client-go. Each record has a time, a level, a constant message and keys such
// as application, cluster and work.
//
//	time=2026-11-30T11:33:37.123Z level=INFO msg="Connected to the broker again" client=hub
//	{"time":"2026-11-30T11:33:37.123Z","level":"INFO","msg":"Connected to the broker again","client":"hub"}
package logging

import (
	"context"
	"errors"
	"flag"
	"io"
	"log/slog"
	"strconv"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/klog/v2"
)

// Options configures the log. The zero value logs failures, recoveries and changes as text.
type Options struct {
	// JSON selects JSON instead of text.
	JSON bool
	// Verbosity is the highest klog level in the log: 0 for what an operator acts on, 1 for
	// failures that are retried, 2 for connections, 4 and more for requests.
	Verbosity int
}

// AddFlags adds the flags --log-format and -v.
func (o *Options) AddFlags(flags *flag.FlagSet) {
	flags.Func("log-format", "the form of the log: `text or json`", func(format string) error {
		if format != "text" && format != "json" {
			return errors.New("must be text or json")
		}
		o.JSON = format == "json"
		return nil
	})
	flags.Func("v", "log details up to level `N`", func(text string) error {
		n, err := strconv.Atoi(text)
		if err != nil || n < 0 || n > 10 {
			return errors.New("must be from 0 to 10")
		}
		o.Verbosity = n
		return nil
	})
}

// New returns a logger that writes to w. It may be used concurrently.
func New(w io.Writer, o Options) klog.Logger {
	options := &slog.HandlerOptions{Level: slog.Level(-o.Verbosity), ReplaceAttr: plain}
	if o.JSON {
		return logr.FromSlogHandler(slog.NewJSONHandler(w, options))
	}
	return logr.FromSlogHandler(slog.NewTextHandler(w, options))
}

// plain writes times in UTC with milliseconds, and details as the level DEBUG.
func plain(groups []string, a slog.Attr) slog.Attr {
	if len(groups) > 0 {
		return a
	}
	switch v := a.Value.Any().(type) {
	case time.Time:
		return slog.String(a.Key, v.UTC().Format("2006-01-02T15:04:05.000Z07:00"))
	case slog.Level:
		if v < slog.LevelInfo {
			return slog.Any(a.Key, slog.LevelDebug)
		}
	case time.Duration:
		return slog.String(a.Key, v.String()) // JSON would have nanoseconds
	}
	return a
}

// Start directs klog to a log on w, which the context has too. restore resets klog.
func Start(ctx context.Context, w io.Writer, o Options) (_ context.Context, restore func()) {
	state := klog.CaptureState()
	var flags flag.FlagSet
	klog.InitFlags(&flags)
	_ = flags.Set("v", strconv.Itoa(o.Verbosity)) // for calls without a logger
	logger := New(w, o)
	klog.SetLoggerWithOptions(logger, klog.ContextualLogger(true))
	reset := handleRepeated()
	return klog.NewContext(ctx, logger), func() { reset(); state.Restore() }
}
