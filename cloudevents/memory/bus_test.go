// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package memory_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	ce "github.com/cloudevents/sdk-go/v2/event"
	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"

	"github.com/spokewire/sdk-go/cloudevents"
	"github.com/spokewire/sdk-go/cloudevents/memory"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func event(id string) *ce.Event {
	e := ce.New()
	e.SetID(id)
	e.SetSource("test")
	e.SetType("test")
	return &e
}

func message(topic, id string) cloudevents.Message {
	return cloudevents.Message{Topic: topic, Event: event(id)}
}

// fixture runs in a synctest bubble: after synctest.Wait, all goroutines of the bubble are blocked.
type fixture struct {
	t   *testing.T
	bus *memory.Bus
}

func (f *fixture) connect(o cloudevents.ConnectOptions) cloudevents.Conn {
	f.t.Helper()
	if o.Receive == nil {
		o.Receive = func(cloudevents.Message) {}
	}
	if o.Refuse == nil {
		o.Refuse = func(topic string, err error) { f.t.Errorf("refused on %q: %v", topic, err) }
	}
	conn, err := f.bus.Transport().Connect(context.Background(), o)
	if err != nil {
		f.t.Fatal(err)
	}
	return conn
}

// receiver returns a connection, and a function that returns the ids of its received events.
func (f *fixture) receiver(filters ...string) (cloudevents.Conn, func() []string) {
	var mu sync.Mutex
	ids := []string{}
	conn := f.connect(cloudevents.ConnectOptions{Filters: filters, Receive: func(m cloudevents.Message) {
		mu.Lock()
		defer mu.Unlock()
		ids = append(ids, m.Event.ID())
	}})
	return conn, func() []string {
		mu.Lock()
		defer mu.Unlock()
		return slices.Clone(ids)
	}
}

// publish publishes messages and appends the arguments of done to results.
func (f *fixture) publish(conn cloudevents.Conn, results *[]error, topic string, ids ...string) {
	f.t.Helper()
	for _, id := range ids {
		err := conn.Publish(context.Background(), message(topic, id), func(err error) { *results = append(*results, err) })
		if err != nil {
			f.t.Fatalf("Publish of %q: %v", id, err)
		}
	}
}

func bubble(t *testing.T, test func(f *fixture)) {
	synctest.Test(t, func(t *testing.T) { test(&fixture{t: t, bus: memory.New()}) })
}

// TestIntercept checks that a test can lose, repeat, change, delay and reorder messages.
func TestIntercept(t *testing.T) {
	bubble(t, func(f *fixture) {
		conn, got := f.receiver("#")
		defer conn.Close()
		var held func()
		f.bus.Intercept(func(m cloudevents.Message, deliver func(cloudevents.Message)) {
			switch m.Event.ID() {
			case "lost":
			case "twice":
				deliver(m)
				deliver(m)
			case "changed":
				deliver(cloudevents.Message{Topic: m.Topic, Event: event("other")})
			case "late":
				held = func() { deliver(m) }
			case "delayed":
				go func() {
					time.Sleep(time.Hour) // in virtual time
					deliver(m)
				}()
			default:
				deliver(m)
			}
		})
		var results []error
		f.publish(conn, &results, "t", "lost", "twice", "delayed", "late", "changed", "last")
		synctest.Wait()
		held()
		synctest.Wait()
		if diff := cmp.Diff([]string{"twice", "twice", "other", "last", "late"}, got()); diff != "" {
			t.Errorf("received (-want +got):\n%s", diff)
		}
		time.Sleep(2 * time.Hour)
		synctest.Wait()
		if last := got()[len(got())-1]; last != "delayed" {
			t.Errorf("the last message is %q, want the delayed one", last)
		}
		if len(results) != 6 || slices.ContainsFunc(results, func(err error) bool { return err != nil }) {
			t.Errorf("acknowledgements: %v, want six without an error", results)
		}
		f.bus.Intercept(nil)
		f.publish(conn, &results, "t", "lost")
		synctest.Wait()
		if last := got()[len(got())-1]; last != "lost" {
			t.Errorf("the last message is %q, want the one that is no longer intercepted", last)
		}
	})
}

// TestInvalidEventIsRefused checks that a message that Intercept makes invalid is passed to Refuse.
func TestInvalidEventIsRefused(t *testing.T) {
	bubble(t, func(f *fixture) {
		var refused []string
		conn := f.connect(cloudevents.ConnectOptions{Filters: []string{"#"},
			Receive: func(m cloudevents.Message) { t.Errorf("received %v", m) },
			Refuse:  func(topic string, err error) { refused = append(refused, fmt.Sprint(topic, " ", err != nil)) }})
		defer conn.Close()
		f.bus.Intercept(func(m cloudevents.Message, deliver func(cloudevents.Message)) {
			deliver(cloudevents.Message{Topic: m.Topic})
			deliver(cloudevents.Message{Topic: m.Topic, Event: &ce.Event{}})
		})
		var results []error
		f.publish(conn, &results, "t", "x")
		synctest.Wait()
		if diff := cmp.Diff([]string{"t true", "t true"}, refused); diff != "" {
			t.Errorf("refused (-want +got):\n%s", diff)
		}
	})
}

// TestPublishRejectsInvalidMessages checks that Publish rejects invalid topics and events, as a
// broker does.
func TestPublishRejectsInvalidMessages(t *testing.T) {
	bubble(t, func(f *fixture) {
		conn := f.connect(cloudevents.ConnectOptions{})
		defer conn.Close()
		for _, m := range []cloudevents.Message{
			message("", "x"), message("a/+", "x"), message("#", "x"),
			{Topic: "t"}, {Topic: "t", Event: &ce.Event{}}, message("t", ""),
		} {
			err := conn.Publish(context.Background(), m, func(error) { t.Error("done was called") })
			if err == nil {
				t.Errorf("Publish of %+v returned nil", m)
			}
		}
	})
}

// TestDisconnect checks that Disconnect ends connections and gives up messages in flight. No client
// can connect before Reconnect.
func TestDisconnect(t *testing.T) {
	bubble(t, func(f *fixture) {
		conn, got := f.receiver("#")
		f.bus.Stall()
		var results []error
		f.publish(conn, &results, "t", "a", "b")
		f.bus.Disconnect()
		synctest.Wait()
		if !errors.Is(conn.Err(), memory.ErrDisconnected) {
			t.Errorf("Err is %v, want ErrDisconnected", conn.Err())
		}
		if len(results) != 2 || !errors.Is(results[0], cloudevents.ErrConnectionLost) {
			t.Errorf("acknowledgements: %v, want two times ErrConnectionLost", results)
		}
		if _, err := f.bus.Transport().Connect(context.Background(), cloudevents.ConnectOptions{}); !errors.Is(err,
			memory.ErrDisconnected) {
			t.Errorf("Connect returned %v, want ErrDisconnected", err)
		}
		f.bus.Resume()
		f.bus.Reconnect()
		again, gotAgain := f.receiver("#")
		f.publish(again, &results, "t", "c")
		synctest.Wait()
		if len(got()) != 0 || !slices.Equal(gotAgain(), []string{"c"}) {
			t.Errorf("received %v and %v, want nothing and c", got(), gotAgain())
		}
		_ = conn.Close()
		_ = again.Close()
	})
}

// TestSlowReceiverDelaysAcknowledgements checks that acknowledgements wait while QueueLength
// messages wait for a receiver, and that no message is lost.
func TestSlowReceiverDelaysAcknowledgements(t *testing.T) {
	bubble(t, func(f *fixture) {
		gate := make(chan struct{})
		count := 0
		conn := f.connect(cloudevents.ConnectOptions{Filters: []string{"t"}, Receive: func(cloudevents.Message) {
			<-gate
			count++
		}})
		defer conn.Close()
		publisher := f.connect(cloudevents.ConnectOptions{})
		defer publisher.Close()
		var results []error
		m := message("t", "x")
		total := memory.QueueLength + memory.Window
		for range total {
			if err := publisher.Publish(context.Background(), m,
				func(err error) { results = append(results, err) }); err != nil {
				t.Fatal(err)
			}
		}
		synctest.Wait()
		if len(results) != memory.QueueLength {
			t.Errorf("%d messages are acknowledged, want %d", len(results), memory.QueueLength)
		}
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		if err := publisher.Publish(ctx, m, nil); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("Publish into a full window returned %v, want context.DeadlineExceeded", err)
		}
		close(gate)
		synctest.Wait()
		if count != total || len(results) != total {
			t.Errorf("received %d, acknowledged %d, want %d", count, len(results), total)
		}
	})
}

// TestClosedReceiverReleasesPublisher checks that a publisher does not wait for a closed receiver.
func TestClosedReceiverReleasesPublisher(t *testing.T) {
	bubble(t, func(f *fixture) {
		gate := make(chan struct{})
		behind := f.connect(cloudevents.ConnectOptions{Filters: []string{"t"}, Receive: func(cloudevents.Message) { <-gate }})
		publisher := f.connect(cloudevents.ConnectOptions{})
		defer publisher.Close()
		var results []error
		m := message("t", "x")
		total := memory.QueueLength + 10
		for range total {
			if err := publisher.Publish(context.Background(), m,
				func(err error) { results = append(results, err) }); err != nil {
				t.Fatal(err)
			}
		}
		synctest.Wait()
		close(gate)
		_ = behind.Close()
		synctest.Wait()
		if len(results) != total {
			t.Errorf("%d messages of %d are acknowledged", len(results), total)
		}
	})
}

// TestSharedSubscriptionAlternates checks that members of a group receive in turn, also after a
// member has left.
func TestSharedSubscriptionAlternates(t *testing.T) {
	bubble(t, func(f *fixture) {
		a, gotA := f.receiver("$share/g/t")
		b, gotB := f.receiver("$share/g/t")
		defer b.Close()
		var results []error
		f.publish(b, &results, "t", "1", "2", "3", "4")
		synctest.Wait()
		if len(gotA()) != 2 || len(gotB()) != 2 {
			t.Errorf("the members got %v and %v, want two each", gotA(), gotB())
		}
		_ = a.Close()
		f.publish(b, &results, "t", "5", "6")
		synctest.Wait()
		if len(gotB()) != 4 {
			t.Errorf("the member that is left got %v, want four", gotB())
		}
	})
}

// TestOverlappingFilters checks that a connection receives a message once, even if several filters
// match.
func TestOverlappingFilters(t *testing.T) {
	bubble(t, func(f *fixture) {
		conn, got := f.receiver("a/b", "a/+", "#", "a/b")
		defer conn.Close()
		var results []error
		f.publish(conn, &results, "a/b", "x")
		f.publish(conn, &results, "$SYS/b", "not for #")
		synctest.Wait()
		if diff := cmp.Diff([]string{"x"}, got()); diff != "" {
			t.Errorf("received (-want +got):\n%s", diff)
		}
	})
}
