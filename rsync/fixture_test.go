// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package rsync_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/spokewire/sdk-go/rsync"
	"github.com/spokewire/sdk-go/rsync/appcontext"
	"github.com/spokewire/sdk-go/rsync/connector"
	"github.com/spokewire/sdk-go/rsync/connector/fake"
	"github.com/spokewire/sdk-go/rsync/store"
	"github.com/spokewire/sdk-go/rsync/store/memstore"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// scene is a store, clusters and an engine.
type scene struct {
	t        *testing.T
	memory   *memstore.Store
	clusters *fake.Clusters
	engine   *rsync.Engine
	stop     func()
}

// newScene starts an engine on a store. If s is nil, it creates a memstore.
func newScene(t *testing.T, s store.Store, options rsync.Options) *scene {
	t.Helper()
	out := &scene{t: t, clusters: fake.New()}
	if s == nil {
		out.memory = memstore.New(memstore.Options{})
		s = out.memory
	}
	out.engine, out.stop = startEngine(t, s, out.clusters, options)
	t.Cleanup(func() {
		out.stop()
		if n := out.clusters.Open(); n != 0 {
			t.Errorf("%d connectors are open after the end", n)
		}
	})
	return out
}

// startEngine starts an engine. The returned function stops the engine, and may be called twice.
func startEngine(t *testing.T, s store.Store, clusters *fake.Clusters, options rsync.Options) (*rsync.Engine, func()) {
	t.Helper()
	return startEngineWith(t, s, clusters, options)
}

type contextT = context.Context

func startEngineWith(
	t *testing.T, s store.Store, clusters connector.Connectors, options rsync.Options,
) (*rsync.Engine, func()) {
	t.Helper()
	engine, err := rsync.New(s, clusters, options)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- engine.Start(ctx) }()
	over := false
	return engine, func() {
		cancel()
		if !over {
			over = true
			if err := <-ended; err != nil {
				t.Errorf("Start: %v", err)
			}
		}
	}
}

func manifest(kind, name, value string) []byte {
	return fmt.Appendf(nil, "apiVersion: v1\nkind: %s\nmetadata:\n  name: %q\n  namespace: default\nvalue: %s\n", kind,
		name, value)
}

func object(kind, name string) appcontext.Object {
	return appcontext.Object{Kind: kind, Namespace: "default", Name: name}
}

// parse builds a context from a text: "app@cluster object=value object=value; app2@…". All objects
// are ConfigMaps. An app that depends on another app is "app<other" or "app<other:Ready". The
// default status is Deployed. A hook is "hook!object=value", and its kind is Job. An object in wave
// 2 is "2/object=value". A hook with delete policies is "hook+policy+policy!2/object=value".
func parse(t testing.TB, id, text string) *appcontext.AppContext {
	t.Helper()
	b := appcontext.NewBuilder(id)
	for part := range strings.SplitSeq(text, ";") {
		fields := strings.Fields(part)
		if len(fields) == 0 {
			continue
		}
		app, cluster, _ := strings.Cut(fields[0], "@")
		app, needs, depends := strings.Cut(app, "<")
		builder := b.App(app)
		if depends {
			other, status, _ := strings.Cut(needs, ":")
			if status == "" {
				status = "Deployed"
			}
			builder.DependsOn(other, appcontext.OpStatus(status), 0)
		}
		builder.Cluster("edge", cluster)
		for _, field := range fields[1:] {
			name, value, _ := strings.Cut(field, "=")
			builder.Add("edge", cluster, parseResource(t, name, value))
		}
	}
	c, err := b.Build()
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func parseResource(t testing.TB, name, value string) appcontext.Resource {
	t.Helper()
	hook, rest, hooked := strings.Cut(name, "!")
	kind := "Job"
	if !hooked {
		hook, rest, kind = "", name, "ConfigMap"
	}
	var r appcontext.Resource
	hook, policies, _ := strings.Cut(hook, "+")
	r.Hook = appcontext.Hook(hook)
	for policy := range strings.SplitSeq(policies, "+") {
		if policy != "" {
			r.DeletePolicies = append(r.DeletePolicies, appcontext.HookDeletePolicy(policy))
		}
	}
	if wave, object, ok := strings.Cut(rest, "/"); ok {
		var err error
		if r.Wave, err = strconv.Atoi(wave); err != nil {
			t.Fatal(err)
		}
		rest = object
	}
	r.Manifest = manifest(kind, rest, value)
	return r
}

func (s *scene) create(id, text string) {
	s.t.Helper()
	if err := s.engine.Create(s.t.Context(), parse(s.t, id, text)); err != nil {
		s.t.Fatal(err)
	}
}

// done waits for an event and ends the test if the event fails.
func (s *scene) done(ref rsync.EventRef, err error) *rsync.Status {
	s.t.Helper()
	status, err := s.wait(ref, err)
	if err != nil {
		s.t.Fatal(err)
	}
	return status
}

func (s *scene) wait(ref rsync.EventRef, err error) (*rsync.Status, error) {
	s.t.Helper()
	if err != nil {
		s.t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(s.t.Context(), 10*time.Minute)
	defer cancel()
	return s.engine.Wait(ctx, ref)
}

// ref returns the reference from a call that queues an event. It ends the test if the call failed.
func (s *scene) ref(ref rsync.EventRef, err error) rsync.EventRef {
	s.t.Helper()
	if err != nil {
		s.t.Fatal(err)
	}
	return ref
}

// fails waits for an event and ends the test unless the event fails with the reason.
func (s *scene) fails(reason rsync.Reason, ref rsync.EventRef, err error) {
	s.t.Helper()
	_ = s.failure(reason, ref, err)
}

// failure is like fails, and returns the error.
func (s *scene) failure(reason rsync.Reason, ref rsync.EventRef, err error) *rsync.EventError {
	s.t.Helper()
	_, err = s.wait(ref, err)
	var failure *rsync.EventError
	if !errors.As(err, &failure) || failure.Reason != reason {
		s.t.Fatalf("%+v ended with %v, want reason %s", ref, err, reason)
	}
	return failure
}

func (s *scene) state(id string, want rsync.State) {
	s.t.Helper()
	status, err := s.engine.Status(s.t.Context(), id)
	if err != nil {
		s.t.Fatal(err)
	}
	if status.State != want {
		s.t.Errorf("%s is %s, want %s", id, status.State, want)
	}
}

// objects returns the objects on a cluster as "name=value name=value".
func (s *scene) objects(cluster string) string { return objectsOn(s.clusters, cluster) }

func objectsOn(clusters *fake.Clusters, cluster string) string {
	all := clusters.Cluster("edge", cluster).Objects()
	var out []string
	for o, text := range all {
		_, value, _ := strings.Cut(text, "value: ")
		out = append(out, o.Name+"="+strings.TrimSpace(value))
	}
	slices.Sort(out)
	return strings.Join(out, " ")
}

func (s *scene) shows(cluster, want string) {
	s.t.Helper()
	if got := s.objects(cluster); got != want {
		s.t.Errorf("cluster %s has %q, want %q", cluster, got, want)
	}
}

// verbs returns the calls that a cluster received, without Gets, as "Apply a, Delete b".
func (s *scene) verbs(cluster string) string {
	var out []string
	for _, c := range s.clusters.Cluster("edge", cluster).Calls() {
		out = append(out, fmt.Sprintf("%s %s", c.Verb, c.Object.Name))
	}
	return strings.Join(out, ", ")
}
