// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

// Package quietlog logs errors that others can cause at any rate, such as undecodable messages of a
// peer or refusals of a broker. The first error of each kind is logged at once. After that, there
// is at most one line a minute, with the number of errors since the last line.
package quietlog

import (
	"sync"
	"time"

	"k8s.io/klog/v2"
	"k8s.io/utils/clock"

	"github.com/spokewire/sdk-go/internal/cut"
)

const (
	// Interval is the minimum time between two lines of one kind.
	Interval = time.Minute
	// MaxKinds is the maximum number of kinds. Further errors, for example of a peer that invents
	// topics, are distinguished only by their reason.
	MaxKinds = 32
)

// Log is a log of errors. Its methods may be called from any goroutine.
type Log struct {
	message string
	subject string
	clock   clock.PassiveClock
	info    bool // the level is Info

	mu    sync.Mutex
	kinds map[kind]*state
}

type kind struct{ reason, subject string }

// state has the last line of a kind and the errors since then.
type state struct {
	logged time.Time
	more   int // since then
	last   error
}

// New returns a log with a constant message. subject is the key of the subject, for example
// "topic".
func New(message, subject string, c clock.PassiveClock) *Log {
	return &Log{message: message, subject: subject, clock: c, kinds: map[kind]*state{}}
}

// NewInfo is [New] for errors that an operator expects. Their level is Info.
func NewInfo(message, subject string, c clock.PassiveClock) *Log {
	l := New(message, subject, c)
	l.info = true
	return l
}

// Error logs an error, or counts it for the next line of its kind. There must be few different
// reasons. Subjects, such as topics, are not limited.
func (l *Log) Error(logger klog.Logger, err error, reason, subject string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	now := l.clock.Now()
	k := kind{reason, subject}
	s := l.kinds[k]
	if s == nil && len(l.kinds) >= MaxKinds {
		l.removeLocked(logger, func(s *state) bool { return now.Sub(s.logged) >= Interval })
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

// Flush logs the errors that were only counted so far, for the end of a process.
func (l *Log) Flush(logger klog.Logger) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.removeLocked(logger, func(*state) bool { return true })
}

func (l *Log) removeLocked(logger klog.Logger, which func(*state) bool) {
	for k, s := range l.kinds {
		if !which(s) {
			continue
		}
		if s.more > 0 {
			l.line(logger, s.last, k, s.more-1) // the last error is one of them
		}
		delete(l.kinds, k)
	}
}

// maxSubject is the maximum length of a subject in a line, in bytes. MQTT allows topics of 64 KiB.
const maxSubject = 256

func (l *Log) line(logger klog.Logger, err error, k kind, more int) {
	kv := []any{"reason", k.reason}
	if k.subject != "" {
		kv = append(kv, l.subject, cut.Text(k.subject, maxSubject))
	}
	if more > 0 {
		kv = append(kv, "notLogged", more)
	}
	logger = logger.WithCallDepth(2) // the caller of Error
	if l.info {
		logger.Info(l.message, append(kv, "err", err)...)
		return
	}
	logger.Error(err, l.message, kv...)
}
