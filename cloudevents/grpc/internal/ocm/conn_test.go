// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package ocm_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	ce "github.com/cloudevents/sdk-go/v2/event"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/spokewire/sdk-go/cloudevents"
	"github.com/spokewire/sdk-go/cloudevents/grpc/internal/ocm"
	"github.com/spokewire/sdk-go/codec"
	"github.com/spokewire/sdk-go/internal/grpcwire"
)

// status makes a status of a work.
func statusOf(resource, id string) cloudevents.Message {
	e := event("status.update_request", "agent", "c", "kube")
	e.SetID(id)
	e.SetExtension("resourceid", resource)
	return cloudevents.Message{Topic: "sources/kube/clusters/c/agentevents", Event: e}
}

func list(id string) cloudevents.Message {
	e := event("spec.resync_request", "agent", "c", "")
	e.SetID(id)
	return cloudevents.Message{Topic: "clusters/c/agentbroadcast", Event: e}
}

func TestSubscribeErrors(t *testing.T) {
	for _, c := range []struct {
		code      codes.Code
		permanent bool
	}{
		{codes.PermissionDenied, true}, {codes.Unauthenticated, true}, {codes.Unimplemented, true},
		{codes.Unavailable, false}, {codes.Unknown, false}, {codes.ResourceExhausted, false},
	} {
		run(t, func(t *testing.T, s *server) {
			s.subscribe = func(grpcwire.SubscriptionRequest) error { return status.Error(c.code, "no") }
			_, err := s.open(newReceiver(codec.ManifestBundle.AgentFilters("c")...))
			var permanent *cloudevents.PermanentError
			if status.Code(err) != c.code || errors.As(err, &permanent) != c.permanent {
				t.Errorf("%v: %v, permanent %v", c.code, err, !c.permanent)
			}
		})
	}
}

// TestSubscribeWaitsForConfirmation checks that without the header, the first event or heartbeat
// confirms a subscription. Maestro sends no header to sources.
func TestSubscribeWaitsForConfirmation(t *testing.T) {
	run(t, func(t *testing.T, s *server) {
		s.unconfirmed = true
		_, err := s.open(newReceiver(codec.ManifestBundle.AgentFilters("c")...))
		if err == nil || !strings.Contains(err.Error(), "confirm the subscription") {
			t.Errorf("without an event: %v", err)
		}
		b, err := grpcwire.AppendEvent(nil, event("spec.create_request", "kube", "c", ""))
		if err != nil {
			t.Fatal(err)
		}
		go func() { s.events <- (*grpcwire.Raw)(&b) }()
		_, r := s.connect()
		synctest.Wait()
		if len(r.received) != 1 {
			t.Errorf("received %d events, want the first", len(r.received))
		}
	})
	run(t, func(_ *testing.T, s *server) {
		s.unconfirmed = true
		go s.beat()
		s.connect()
	})
}

// TestStatusesAreOfTheSubscribedSource checks that a source receives statuses that name another
// source: Maestro puts its own source in place of the actual one.
func TestStatusesAreOfTheSubscribedSource(t *testing.T) {
	run(t, func(t *testing.T, s *server) {
		r := newReceiver(codec.ManifestBundle.SourceFilters("hub")...)
		if _, err := s.open(r); err != nil {
			t.Fatal(err)
		}
		s.send(event("status.update_request", "agent", "c", "maestro"))
		s.send(event("spec.resync_request", "agent", "c", ""))
		synctest.Wait()
		var topics []string
		for _, m := range r.received {
			topics = append(topics, m.Topic)
		}
		if want := []string{"sources/hub/clusters/c/agentevents", "clusters/c/agentbroadcast"}; !slices.Equal(topics, want) {
			t.Errorf("received %q, want %q", topics, want)
		}
	})
}

func TestOptionalFiltersAreDenied(t *testing.T) {
	run(t, func(t *testing.T, s *server) {
		r := newReceiver(codec.ManifestBundle.AgentFilters("c")...)
		r.Optional = []string{codec.ManifestBundle.PresenceFilter("", "c")}
		if _, err := s.open(r); err != nil || !slices.Equal(r.denied, r.Optional) {
			t.Errorf("denied %q, %v; want %q", r.denied, err, r.Optional)
		}
	})
}

func TestOtherFiltersArePermanentErrors(t *testing.T) {
	run(t, func(t *testing.T, s *server) {
		_, err := s.open(newReceiver(codec.ManifestWork.AgentFilters("c")...))
		var permanent *cloudevents.PermanentError
		if !errors.As(err, &permanent) || !strings.Contains(err.Error(), "codec.ManifestBundle") {
			t.Error(err)
		}
	})
}

func TestEventsAreReceivedInOrder(t *testing.T) {
	run(t, func(t *testing.T, s *server) {
		conn, r := s.connect()
		s.beat()
		for i := range 100 {
			e := event("spec.create_request", "kube", "c", "")
			e.SetID(fmt.Sprint(i))
			s.send(e)
		}
		s.send(event("presence", "kube", "c", "")) // no topic
		broken := grpcwire.Raw("broken")
		s.events <- &broken
		s.events <- new(grpcwire.Raw)
		synctest.Wait()
		if len(r.received) != 100 || len(r.refused) != 3 || conn.Err() != nil {
			t.Fatalf("received %d, refused %v, %v", len(r.received), r.refused, conn.Err())
		}
		for i, m := range r.received {
			if m.Event.ID() != fmt.Sprint(i) || m.Topic != "sources/kube/clusters/c/sourceevents" {
				t.Fatalf("event %d is %s on %s", i, m.Event.ID(), m.Topic)
			}
		}
		if r.commits == 0 {
			t.Error("nothing was committed")
		}
	})
}

func TestFailedCommitEndsConnection(t *testing.T) {
	run(t, func(t *testing.T, s *server) {
		conn, r := s.connect()
		r.failure = errors.New("disk full")
		s.send(event("spec.create_request", "kube", "c", ""))
		<-conn.Done()
		if !errors.Is(conn.Err(), r.failure) {
			t.Error(conn.Err())
		}
	})
}

// TestPublishKeepsOrderOfAWork checks that statuses of one work are published one at a time, and that
// they do not delay other works.
func TestPublishKeepsOrderOfAWork(t *testing.T) {
	run(t, func(t *testing.T, s *server) {
		release := make(chan struct{})
		s.publish = func(e *ce.Event) error {
			if e.ID() == "slow" {
				<-release
			}
			return nil
		}
		conn, _ := s.connect()
		var acknowledged atomic.Int32
		done := func(err error) {
			if err != nil {
				t.Error(err)
			}
			acknowledged.Add(1)
		}
		for _, m := range []cloudevents.Message{statusOf("w", "slow"), statusOf("w", "2"), statusOf("w", "3"),
			statusOf("v", "4")} {
			if err := conn.Publish(t.Context(), m, done); err != nil {
				t.Fatal(err)
			}
		}
		if got := s.ids(); !slices.Equal(got, []string{"4"}) {
			t.Errorf("published %q before the first status", got)
		}
		close(release)
		if got := s.ids(); !slices.Equal(got, []string{"4", "slow", "2", "3"}) || acknowledged.Load() != 4 {
			t.Errorf("published %q, acknowledged %d", got, acknowledged.Load())
		}
	})
}

// TestPublishWaitsForRoom checks that a bounded number of calls is in flight.
func TestPublishWaitsForRoom(t *testing.T) {
	run(t, func(t *testing.T, s *server) {
		release := make(chan struct{})
		var calls atomic.Int32
		s.publish = func(*ce.Event) error {
			calls.Add(1)
			<-release
			return nil
		}
		conn, _ := s.connect()
		published, acknowledged := atomic.Int32{}, atomic.Int32{}
		go func() {
			for i := range 100 {
				err := conn.Publish(t.Context(), statusOf(fmt.Sprint(i), "1"), func(error) { acknowledged.Add(1) })
				if err != nil {
					t.Error(err)
				}
				published.Add(1)
			}
		}()
		synctest.Wait()
		if calls.Load() != 64 || published.Load() != 64 {
			t.Errorf("%d calls, %d published", calls.Load(), published.Load())
		}
		close(release)
		synctest.Wait()
		if acknowledged.Load() != 100 {
			t.Errorf("%d acknowledged", acknowledged.Load())
		}
	})
}

func TestCloseSettlesAllMessages(t *testing.T) {
	run(t, func(t *testing.T, s *server) {
		release := make(chan struct{})
		defer close(release)
		s.publish = func(*ce.Event) error {
			<-release
			return nil
		}
		conn, _ := s.connect()
		lost := 0
		for i := range 10 {
			err := conn.Publish(t.Context(), statusOf("w", fmt.Sprint(i)), func(err error) {
				if errors.Is(err, cloudevents.ErrConnectionLost) {
					lost++
				}
			})
			if err != nil {
				t.Fatal(err)
			}
		}
		if err := conn.Close(); err != nil || lost != 10 || conn.Err() != nil {
			t.Errorf("%d lost, %v, %v", lost, err, conn.Err())
		}
		err := conn.Publish(t.Context(), statusOf("w", "1"), func(error) { t.Error("called") })
		if !errors.Is(err, cloudevents.ErrConnectionLost) {
			t.Error(err)
		}
	})
}

func TestPublishErrors(t *testing.T) {
	const conflict = `{"ErrStatus":{"status":"Failure","message":"the object has been modified",` +
		`"reason":"Conflict","code":409}}`
	for _, c := range []struct {
		reason    string
		err       error
		temporary bool
		text      string
	}{
		{"conflict", status.Error(codes.FailedPrecondition, conflict), true,
			"FailedPrecondition: the object has been modified"},
		{"any error of the hub", status.Error(codes.FailedPrecondition, "{}"), true, "{}"},
		{"quota", status.Error(codes.ResourceExhausted, "quota"), true, "quota"},
		{"no right", status.Error(codes.PermissionDenied, "access denied"), false, "PermissionDenied: access denied"},
		{"invalid", status.Error(codes.InvalidArgument, "no"), false, "no"},
		{"long", status.Error(codes.Unknown, strings.Repeat("x", 4096)), false, "x…"},
	} {
		run(t, func(t *testing.T, s *server) {
			s.publish = func(*ce.Event) error { return c.err }
			conn, _ := s.connect()
			var got error
			if err := conn.Publish(t.Context(), statusOf("w", "1"), func(err error) { got = err }); err != nil {
				t.Fatal(err)
			}
			synctest.Wait()
			var temporary *cloudevents.TemporaryError
			if got == nil || errors.As(got, &temporary) != c.temporary || !strings.Contains(got.Error(), c.text) ||
				len(got.Error()) > 1024 || conn.Err() != nil {
				t.Errorf("%s: %v, temporary %v", c.reason, got, temporary != nil)
			}
		})
	}
}

// TestPublishErrorsEndConnection checks that a call that another connection may repeat with success
// ends the connection.
func TestPublishErrorsEndConnection(t *testing.T) {
	for _, code := range []codes.Code{codes.Unavailable, codes.Unauthenticated} {
		run(t, func(t *testing.T, s *server) {
			s.publish = func(*ce.Event) error { return status.Error(code, "no") }
			conn, _ := s.connect()
			var got error
			if err := conn.Publish(t.Context(), statusOf("w", "1"), func(err error) { got = err }); err != nil {
				t.Fatal(err)
			}
			<-conn.Done()
			synctest.Wait()
			if !errors.Is(got, cloudevents.ErrConnectionLost) || status.Code(conn.Err()) != code {
				t.Errorf("%v: %v, connection %v", code, got, conn.Err())
			}
		})
	}
}

func TestPublishOverTheServersLimit(t *testing.T) {
	run(t, func(t *testing.T, s *server) {
		conn, _ := s.connect()
		m := statusOf("w", "1")
		m.Event.DataEncoded = make([]byte, 6<<20)
		var got error
		if err := conn.Publish(t.Context(), m, func(err error) { got = err }); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		var tooLarge *cloudevents.TooLargeError
		if !errors.As(got, &tooLarge) || tooLarge.Limit != 5<<20 || tooLarge.Size <= 6<<20 {
			t.Error(got)
		}
		m.Event.DataEncoded = make([]byte, ocm.LargestMessage)
		if err := conn.Publish(t.Context(), m, func(error) { t.Error("called") }); !errors.As(err, &tooLarge) {
			t.Error(err)
		}
	})
}

func TestPresenceIsNotPublished(t *testing.T) {
	run(t, func(t *testing.T, s *server) {
		conn, _ := s.connect()
		m := cloudevents.Message{Topic: "clusters/c/presence", Event: event("presence", "agent", "c", "")}
		err := conn.Publish(t.Context(), m, func(error) { t.Error("called") })
		if !errors.Is(err, ocm.ErrType) || conn.Err() != nil {
			t.Errorf("%v, %v", err, conn.Err())
		}
	})
}

func TestServersEndEndsConnection(t *testing.T) {
	for name, end := range map[string]func(*server){
		"stopped": func(s *server) { s.stop() },
		"ended":   func(s *server) { close(s.events) },
	} {
		run(t, func(t *testing.T, s *server) {
			conn, _ := s.connect()
			end(s)
			<-conn.Done()
			if conn.Err() == nil {
				t.Errorf("%s: no error", name)
			}
		})
	}
}

func TestMissingHeartbeatsEndConnection(t *testing.T) {
	run(t, func(t *testing.T, s *server) {
		conn, r := s.connect()
		time.Sleep(time.Hour) // this server sends no heartbeats
		if conn.Err() != nil {
			t.Fatal(conn.Err())
		}
		r.hold = make(chan struct{})
		s.beat()
		for range 2 {
			s.send(event("spec.create_request", "kube", "c", ""))
		}
		time.Sleep(time.Hour) // the receiver is busy, so no heartbeats are read
		if conn.Err() != nil {
			t.Fatal(conn.Err())
		}
		close(r.hold)
		for range 10 {
			time.Sleep(10 * time.Second)
			s.beat()
		}
		begin := time.Now()
		<-conn.Done()
		if passed := time.Since(begin); passed > 5*time.Minute || !strings.Contains(conn.Err().Error(), "heartbeats") {
			t.Errorf("after %v: %v", passed, conn.Err())
		}
	})
}

func TestHeartbeatTimeoutFollowsInterval(t *testing.T) {
	for interval, want := range map[time.Duration]time.Duration{
		time.Second: 30 * time.Second, 20 * time.Second: time.Minute, time.Hour: 5 * time.Minute,
	} {
		run(t, func(t *testing.T, s *server) {
			conn, _ := s.connect()
			time.Sleep(interval)
			s.beat()
			begin := time.Now()
			<-conn.Done()
			if passed := time.Since(begin); passed != want {
				t.Errorf("interval %v: ended after %v, want %v", interval, passed, want)
			}
		})
	}
}

// TestListsAreRepeated checks that the last list is published again after the first heartbeat, or
// after a while from a server without heartbeats, and only once.
func TestListsAreRepeated(t *testing.T) {
	for name, c := range map[string]struct {
		beats bool
		wait  time.Duration
	}{"with heartbeats": {true, 0}, "without heartbeats": {false, time.Minute}} {
		run(t, func(t *testing.T, s *server) {
			conn, _ := s.connect()
			publish := func(m cloudevents.Message) {
				if err := conn.Publish(t.Context(), m, func(error) {}); err != nil {
					t.Fatal(err)
				}
			}
			publish(list("1"))
			publish(list("2"))
			publish(statusOf("w", "3"))
			if got := s.ids(); len(got) != 3 {
				t.Fatalf("%s: published %q", name, got)
			}
			if c.beats {
				s.beat()
				s.beat()
			}
			time.Sleep(c.wait)
			synctest.Wait()
			publish(list("4"))
			if got := s.ids(); len(got) != 5 || got[3] != "2" || got[4] != "4" {
				t.Errorf("%s: published %q", name, got)
			}
		})
	}
}

// TestDeletionsOfAnAnswer checks the source of deletions that have only the resource ID.
func TestDeletionsOfAnAnswer(t *testing.T) {
	run(t, func(t *testing.T, s *server) {
		deletion := event("spec.delete_request", "source", "c", "")
		deletion.SetExtension("resourceid", "w")
		deletion.SetExtension("deletiontimestamp", "2026-01-02T03:04:05Z")
		full := deletion.Clone()
		full.SetExtension("metadata", "{}")
		work := event("spec.update_request", "hub", "c", "")

		conn, r := s.connect()
		s.send(deletion)
		s.send(work)
		s.send(deletion)
		synctest.Wait()
		if err := conn.Close(); err != nil {
			t.Fatal(err)
		}
		_, r2 := s.connect()
		s.send(deletion)
		s.send(&full)
		synctest.Wait()
		var got []string
		for _, m := range append(r.received, r2.received...) {
			got = append(got, m.Event.Source())
			if want := "sources/" + m.Event.Source() + "/clusters/c/sourceevents"; m.Topic != want {
				t.Errorf("topic %s, want %s", m.Topic, want)
			}
		}
		if want := []string{"kube", "hub", "hub", "hub", "source"}; !slices.Equal(got, want) {
			t.Errorf("sources %q, want %q", got, want)
		}
	})
}

// TestSourceOfOwnEvents checks that an agent's list for one source gives the source of deletions.
func TestSourceOfOwnEvents(t *testing.T) {
	run(t, func(t *testing.T, s *server) {
		conn, r := s.connect()
		m := list("1")
		m.Topic = "sources/hub/clusters/c/agentevents"
		if err := conn.Publish(t.Context(), m, func(error) {}); err != nil {
			t.Fatal(err)
		}
		deletion := event("spec.delete_request", "source", "c", "")
		deletion.SetExtension("deletiontimestamp", "2026-01-02T03:04:05Z")
		s.send(deletion)
		synctest.Wait()
		if len(r.received) != 1 || r.received[0].Event.Source() != "hub" {
			t.Errorf("received %v", r.received)
		}
	})
}
