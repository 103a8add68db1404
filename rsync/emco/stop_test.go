// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package emco_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/spokewire/sdk-go/rsync"
	"github.com/spokewire/sdk-go/rsync/appcontext"
	"github.com/spokewire/sdk-go/rsync/connector/fake"
	"github.com/spokewire/sdk-go/rsync/emco"
	"github.com/spokewire/sdk-go/rsync/store/memstore"
)

const stopFlag = "/context/7/stopflag/"

// TestStopFlag: the orchestrator stops a context while its clusters do not answer, and terminates
// it later. Then it sets the flag to false and calls UninstallApp immediately.
func TestStopFlag(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newScene(t, nil)
		s.importContext("7", "web@c1 a=1")
		s.put(write{stopFlag, "false"})
		s.clusters.Cluster("edge", "c1").SetMode(fake.ModeUnreachable)
		ref := s.ref(s.engine.Instantiate(t.Context(), "7"))
		settle()
		s.put(write{stopFlag, "maybe"}) // ignored; the next value is followed
		settle()
		s.put(write{stopFlag, "true"})
		s.stops(ref)
		settle()
		s.reads("7", "InstantiateFailed; web@c1 Available a=Failed")
		if err := s.bridge.FollowStop(t.Context(), "7"); err != nil {
			t.Error(err)
		}
		if _, err := s.engine.Terminate(t.Context(), "7"); !errors.Is(err, rsync.ErrStopped) {
			t.Errorf("Terminate of a stopped context: %v", err)
		}
		s.clusters.Cluster("edge", "c1").SetMode(fake.ModeWorks)
		s.put(write{stopFlag, "false"})
		if err := s.bridge.FollowStop(t.Context(), "7"); err != nil {
			t.Fatal(err)
		}
		s.done(s.engine.Terminate(t.Context(), "7"))
		settle()
		s.reads("7", "Terminated; web@c1 Available a=Deleted")
	})
}

// stops waits until an event has ended because of a stop.
func (s *scene) stops(ref rsync.EventRef) {
	s.t.Helper()
	ctx, cancel := context.WithTimeout(s.t.Context(), time.Minute)
	defer cancel()
	_, err := s.engine.Wait(ctx, ref)
	if !errors.Is(err, rsync.ErrStopped) {
		s.t.Fatalf("the event ended with %v, want ErrStopped", err)
	}
}

// TestStopFlagWithoutBridge: a bridge follows a flag that was set before the bridge started. It
// ignores the flag of a context that EMCO does not have.
func TestStopFlagWithoutBridge(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &scene{t: t, keys: memstore.New(memstore.Options{}), clusters: fake.New()}
		var err error
		if s.engine, err = rsync.New(memstore.New(memstore.Options{}), s.clusters, rsync.Options{}); err != nil {
			t.Fatal(err)
		}
		s.start(s.engine.Start)
		if s.bridge, err = emco.New(s.engine, s.keys); err != nil {
			t.Fatal(err)
		}
		s.importContext("7", "web@c1 a=1")
		s.clusters.Cluster("edge", "c1").SetMode(fake.ModeUnreachable)
		ref := s.ref(s.engine.Instantiate(t.Context(), "7"))
		s.put(write{stopFlag, "true"})
		settle()
		if status, err := s.engine.Status(t.Context(), "7"); err != nil || status.Stopped {
			t.Fatalf("without a bridge: %+v, %v", status, err)
		}
		s.start(s.bridge.Start)
		s.stops(ref)
	})
}

func TestInvalidStopFlag(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newScene(t, nil)
		if err := s.bridge.FollowStop(t.Context(), "7"); err != nil {
			t.Errorf("without a flag: %v", err)
		}
		if err := s.bridge.FollowStop(t.Context(), "a/b"); !errors.Is(err, rsync.ErrInvalidInput) {
			t.Errorf("an ID that cannot be: %v", err)
		}
		s.put(write{stopFlag, "true"})
		if err := s.bridge.FollowStop(t.Context(), "7"); !errors.Is(err, rsync.ErrNotFound) {
			t.Errorf("a context that the engine does not know: %v", err)
		}
		for _, value := range []string{`"true"`, "null", "", "{"} {
			s.put(write{stopFlag, value})
			err := s.bridge.FollowStop(t.Context(), "7")
			if !appcontext.Has(err, appcontext.FaultBadLayout) ||
				!strings.Contains(err.Error(), stopFlag+": must be true or false") {
				t.Errorf("the flag %s: %v", value, err)
			}
		}
	})
}
