// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

// Package quietlog logs errors that somebody else can cause at any rate: a peer that sends what cannot be decoded, a
// broker that refuses. The first of each kind is logged at once and after it one line a minute at most, which tells
// how many there were meanwhile. Metrics have the exact number; a log must not grow with the attack.
package quietlog

import (
	"strings"
	"sync"
	"time"

	"k8s.io/klog/v2"
	"k8s.io/utils/clock"
)

const (
	// Interval is the least time between two lines of one kind.
	Interval = time.Minute
	// MaxKinds is how many kinds are told apart. What is beyond, as of a peer that makes up topics, is told apart by
	// its reason alone.
	MaxKinds = 32
)

// Log is a log of errors. Its methods may be called from any goroutine.
type Log struct {
	message string
	subject string
	clock   clock.PassiveClock

	mu    sync.Mutex
	kinds map[kind]*state
}

// kind is what errors are told apart by.
type kind struct{ reason, subject string }

// state is what is known of a kind.
type state struct {
	logged time.Time
	more   int // since then
	last   error
}

// New returns a log of lines with a message. The key of their subject is, for example, "topic".
func New(message, subject string, c clock.PassiveClock) *Log {
	return &Log{message: message, subject: subject, clock: c, kinds: map[kind]*state{}}
}

// Error logs an error, or counts it for the next line of its kind. The reason must be one of few; the subject, such
// as a topic, is free.
func (l *Log) Error(logger klog.Logger, err error, reason, subject string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	now := l.clock.Now()
	k := kind{reason, subject}
	s := l.kinds[k]
	if s == nil && len(l.kinds) >= MaxKinds {
		l.sweep(logger, now)
		if len(l.kinds) >= MaxKinds {
			k.subject = ""
			s = l.kinds[k]
		}
	}
	if s == nil {
		l.kinds[k] = &state{logged: now}
		l.line(logger, err, kind{reason, subject}, 0)
		return
	}
	if now.Sub(s.logged) < Interval {
		s.more++
		s.last = err
		return
	}
	l.line(logger, err, k, s.more)
	*s = state{logged: now}
}

// Flush logs what was counted and not told yet, for the end of a process.
func (l *Log) Flush(logger klog.Logger) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for k, s := range l.kinds {
		l.rest(logger, k, s)
	}
	clear(l.kinds)
}

// sweep forgets kinds that have been quiet.
func (l *Log) sweep(logger klog.Logger, now time.Time) {
	for k, s := range l.kinds {
		if now.Sub(s.logged) >= Interval {
			l.rest(logger, k, s)
			delete(l.kinds, k)
		}
	}
}

// rest logs what a kind has counted, if anything. Its last error is one of the counted.
func (l *Log) rest(logger klog.Logger, k kind, s *state) {
	if s.more > 0 {
		l.line(logger, s.last, k, s.more-1)
	}
}

// maxSubject is how much of a subject a line shows, in bytes: MQTT allows topics of 64 KiB.
const maxSubject = 256

func cut(s string) string {
	if len(s) <= maxSubject {
		return s
	}
	return strings.ToValidUTF8(s[:maxSubject], "") + "…"
}

func (l *Log) line(logger klog.Logger, err error, k kind, more int) {
	kv := []any{"reason", k.reason}
	if k.subject != "" {
		kv = append(kv, l.subject, cut(k.subject))
	}
	if more > 0 {
		kv = append(kv, "notLogged", more)
	}
	logger.WithCallDepth(2).Error(err, l.message, kv...) // where Error was called
}
