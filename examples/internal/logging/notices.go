// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package logging

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
	"unicode"

	"github.com/go-logr/logr"
	"k8s.io/klog/v2"
)

// noticesKey is the context key for the logger of [Notices].
type noticesKey struct{}

// Notices returns the context for a long-running part that depends on other programs, such as the
// connection to a broker. Its logs of level 0 and its errors are written without --verbose too, one
// line each: they show the operator why a program waits. A line that repeats the previous one is
// omitted. With --verbose, and without [Route], the context is unchanged.
func Notices(ctx context.Context) context.Context {
	if sink, ok := ctx.Value(noticesKey{}).(*notices); ok {
		return klog.NewContext(ctx, logr.New(sink))
	}
	return ctx
}

// notices is a [logr.LogSink] that writes lines for users.
type notices struct {
	line func(text string)
	with []any // key-value pairs of the logger
}

// newNotices returns a sink that omits a line that repeats the previous one.
func newNotices(w io.Writer) *notices {
	var mu sync.Mutex
	var last string
	return &notices{line: func(text string) {
		mu.Lock()
		defer mu.Unlock()
		if text != last {
			last = text
			_, _ = fmt.Fprintln(w, text) // errors are ignored, as in a log
		}
	}}
}

// Init implements [logr.LogSink].
func (n *notices) Init(logr.RuntimeInfo) {}

// Enabled implements [logr.LogSink]: details are for --verbose.
func (n *notices) Enabled(level int) bool { return level == 0 }

// Info implements [logr.LogSink].
func (n *notices) Info(_ int, message string, pairs ...any) { n.write(message, pairs) }

// Error implements [logr.LogSink].
func (n *notices) Error(err error, message string, pairs ...any) {
	if err != nil {
		message = fmt.Sprintf("%s: %v", message, err)
	}
	n.write(message, pairs)
}

// WithValues implements [logr.LogSink].
func (n *notices) WithValues(pairs ...any) logr.LogSink {
	return &notices{line: n.line, with: slices.Concat(n.with, pairs)}
}

// WithName implements [logr.LogSink].
func (n *notices) WithName(string) logr.LogSink { return n }

// write writes the message, with the key-value pairs in brackets.
func (n *notices) write(message string, pairs []any) {
	var details []string
	for pair := range slices.Chunk(slices.Concat(n.with, pairs), 2) {
		if len(pair) == 2 {
			details = append(details, fmt.Sprintf("%v: %v", pair[0], pair[1]))
		}
	}
	if len(details) > 0 {
		message += " (" + strings.Join(details, ", ") + ")"
	}
	n.line(strings.Map(printable, message))
}

// printable replaces control characters, since other programs choose values such as topics.
func printable(r rune) rune {
	if unicode.IsControl(r) {
		return ' '
	}
	return r
}
