// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package logging

import (
	"context"
	"fmt"
	"io"
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
	lines *distinct
	with  []any // key-value pairs of the logger
}

// distinct writes lines, except for a line that repeats the previous one.
type distinct struct {
	mu   sync.Mutex
	w    io.Writer
	last string
}

func newNotices(w io.Writer) *notices { return &notices{lines: &distinct{w: w}} }

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
	return &notices{lines: n.lines, with: append(n.with[:len(n.with):len(n.with)], pairs...)}
}

// WithName implements [logr.LogSink].
func (n *notices) WithName(string) logr.LogSink { return n }

// write writes the message, with the key-value pairs in brackets.
func (n *notices) write(message string, pairs []any) {
	pairs = append(n.with[:len(n.with):len(n.with)], pairs...)
	var details []string
	for i := 0; i+1 < len(pairs); i += 2 {
		details = append(details, fmt.Sprintf("%v: %v", pairs[i], pairs[i+1]))
	}
	if len(details) > 0 {
		message += " (" + strings.Join(details, ", ") + ")"
	}
	n.lines.write(strings.Map(printable, message))
}

// printable replaces control characters, since other programs choose values such as topics.
func printable(r rune) rune {
	if unicode.IsControl(r) {
		return ' '
	}
	return r
}

func (d *distinct) write(line string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if line != d.last {
		d.last = line
		_, _ = fmt.Fprintln(d.w, line) // errors are ignored, as in a log
	}
}
