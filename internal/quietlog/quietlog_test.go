// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package quietlog_test

import (
	"bytes"
	"errors"
	"fmt"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/klog/v2"
	"k8s.io/klog/v2/textlogger"
	testingclock "k8s.io/utils/clock/testing"

	"github.com/spokewire/sdk-go/internal/quietlog"
)

// script is a log with readable lines and a fake clock.
type script struct {
	t      *testing.T
	log    *quietlog.Log
	clock  *testingclock.FakePassiveClock
	logger klog.Logger
	out    bytes.Buffer
}

func newScript(t *testing.T) *script {
	s := &script{t: t, clock: testingclock.NewFakePassiveClock(time.Unix(0, 0))}
	s.logger = textlogger.NewLogger(textlogger.NewConfig(textlogger.Output(&s.out)))
	s.log = quietlog.New("Refused", "topic", s.clock)
	return s
}

func (s *script) fail(err, reason, subject string) {
	s.log.Error(s.logger, errors.New(err), reason, subject)
}

func (s *script) wait(d time.Duration) { s.clock.SetTime(s.clock.Now().Add(d)) }

// head matches the beginning of a line, up to the message.
var head = regexp.MustCompile(`(?m)^E[^"]*`)

// lines returns the lines since the last call.
func (s *script) lines() []string {
	text := strings.TrimSpace(head.ReplaceAllString(s.out.String(), ""))
	s.out.Reset()
	if text == "" {
		return []string{}
	}
	return strings.Split(text, "\n")
}

func (s *script) expect(want ...string) {
	s.t.Helper()
	if diff := cmp.Diff(append([]string{}, want...), s.lines()); diff != "" {
		s.t.Errorf("lines (-want +got):\n%s", diff)
	}
}

// TestFlood checks that 100 errors per second give one line immediately and then one each minute.
// Together the lines count all errors.
func TestFlood(t *testing.T) {
	s := newScript(t)
	for i := range 15_000 { // two and a half minutes
		s.fail(fmt.Sprint("bad ", i), "data", "/t")
		s.wait(10 * time.Millisecond)
	}
	s.expect(
		`"Refused" err="bad 0" reason="data" topic="/t"`,
		`"Refused" err="bad 6000" reason="data" topic="/t" notLogged=5999`,
		`"Refused" err="bad 12000" reason="data" topic="/t" notLogged=5999`,
	)
	s.log.Flush(s.logger)
	s.expect(`"Refused" err="bad 14999" reason="data" topic="/t" notLogged=2998`)
	s.log.Flush(s.logger)
	s.expect()
}

// TestKinds checks that a failure with another reason or topic is not suppressed.
func TestKinds(t *testing.T) {
	s := newScript(t)
	for range 3 {
		s.fail("a", "data", "/t")
		s.fail("b", "mismatch", "/t")
		s.fail("c", "data", "/u")
		s.fail("d", "overrun", "")
	}
	s.expect(
		`"Refused" err="a" reason="data" topic="/t"`,
		`"Refused" err="b" reason="mismatch" topic="/t"`,
		`"Refused" err="c" reason="data" topic="/u"`,
		`"Refused" err="d" reason="overrun"`,
	)
}

// TestManyTopics checks that a peer with many topics gets lines for some of the topics, and then
// one line for each reason.
func TestManyTopics(t *testing.T) {
	s := newScript(t)
	for i := range 10_000 {
		s.fail("a", "data", fmt.Sprint("/t", i))
		s.fail("b", "mismatch", fmt.Sprint("/t", i))
	}
	if n := len(s.lines()); n != quietlog.MaxKinds+2 {
		t.Errorf("%d lines, want %d", n, quietlog.MaxKinds+2)
	}
	s.wait(quietlog.Interval)
	s.fail("c", "data", "/new") // all topics have been quiet, so this error gets its own line
	got := s.lines()
	if len(got) != 3 { // plus one line for each of the two reasons, with its count
		t.Errorf("after a quiet minute: %q", got)
	}
	if last := got[len(got)-1]; last != `"Refused" err="c" reason="data" topic="/new"` {
		t.Errorf("the new one is logged as %s", last)
	}
}

// TestInfo checks that the level can be Info.
func TestInfo(t *testing.T) {
	s := newScript(t)
	s.log = quietlog.NewInfo("Requested", "topic", s.clock)
	s.fail("a", "data", "/t")
	if got := s.out.String(); !strings.HasPrefix(got, "I") || !strings.Contains(got, "quietlog_test.go") ||
		!strings.HasSuffix(got, `"Requested" reason="data" topic="/t" err="a"`+"\n") {
		t.Errorf("logged as %s", got)
	}
}

// TestCaller checks that the logged position is the caller of Error.
func TestCaller(t *testing.T) {
	s := newScript(t)
	s.log.Error(s.logger, errors.New("a"), "data", "")
	if !strings.Contains(s.out.String(), "quietlog_test.go") {
		t.Errorf("logged as %s", s.out.String())
	}
}
