// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package manifestwork_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/url"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"
	worktyped "open-cluster-management.io/api/client/work/clientset/versioned/typed/work/v1"
	workv1 "open-cluster-management.io/api/work/v1"

	"github.com/spokewire/sdk-go/cloudevents/mqtt"
	"github.com/spokewire/sdk-go/internal/testing/mosquitto"
	"github.com/spokewire/sdk-go/rsync/appcontext"
	"github.com/spokewire/sdk-go/rsync/connector"
	"github.com/spokewire/sdk-go/rsync/connector/manifestwork"
)

// secret is in manifests, and in the error texts of a hub.
const secret = "s3cr3t-content"

// refusing is a hub without works that refuses each write.
type refusing struct {
	worktyped.ManifestWorkInterface
	err    error
	writes int
}

func (r *refusing) ManifestWorks(string) worktyped.ManifestWorkInterface { return r }

func (r *refusing) Get(ctx context.Context, name string, _ metav1.GetOptions) (*workv1.ManifestWork, error) {
	return nil, apierrors.NewNotFound(works, name)
}

func (r *refusing) List(context.Context, metav1.ListOptions) (*workv1.ManifestWorkList, error) {
	return &workv1.ManifestWorkList{}, nil
}

func (r *refusing) Create(context.Context, *workv1.ManifestWork, metav1.CreateOptions) (*workv1.ManifestWork, error) {
	r.writes++
	return nil, r.err
}

var (
	works = schema.GroupResource{Group: workv1.GroupName, Resource: "manifestworks"}
	kind  = schema.GroupKind{Group: workv1.GroupName, Kind: "ManifestWork"}
)

func status(code int32, reason metav1.StatusReason, message string) error {
	return &apierrors.StatusError{ErrStatus: metav1.Status{Status: metav1.StatusFailure, Code: code, Reason: reason,
		Message: message}}
}

func terminating() error {
	err := apierrors.NewForbidden(works, "w", errors.New("because it is being terminated"))
	err.ErrStatus.Details.Causes = []metav1.StatusCause{{Type: "NamespaceTerminating", Field: "cluster1"}}
	return err
}

// TestClasses: each error has the class that the engine needs, and no error has content of a
// manifest.
func TestClasses(t *testing.T) {
	broken := &url.Error{Op: "Post", URL: "https://hub", Err: &net.OpError{Op: "dial", Err: syscall.ECONNREFUSED}}
	for _, tt := range []struct {
		reason string
		err    error
		class  error
		text   string
	}{
		{"no namespace", apierrors.NewNotFound(schema.GroupResource{Resource: "namespaces"}, "cluster1"),
			connector.ErrRetryable, "no such namespace"},
		{"a namespace that ends", terminating(), connector.ErrRetryable, "the namespace is being deleted"},
		{"no rights", apierrors.NewForbidden(works, "w", errors.New("user x cannot")), connector.ErrTerminal,
			"denies access"},
		{"no credentials", apierrors.NewUnauthorized("who"), connector.ErrTerminal, "credentials"},
		{"invalid", apierrors.NewInvalid(kind, "w",
			field.ErrorList{field.Invalid(field.NewPath("spec", "workload"), secret, "bad")}),
			connector.ErrTerminal, "the hub refused: write the work x-"},
		{"invalid, and why", apierrors.NewInvalid(kind, "w",
			field.ErrorList{field.Invalid(field.NewPath("spec", "workload"), "\""+secret, "must be: good")}),
			connector.ErrTerminal, "it is invalid: spec.workload (FieldValueInvalid): must be: good"},
		{"invalid, with the value once more",
			apierrors.NewInvalid(kind, "w", field.ErrorList{field.Invalid(field.NewPath("spec"), secret, "it is "+secret),
				field.Required(field.NewPath("x"), secret)}),
			connector.ErrTerminal, "spec (FieldValueInvalid), x (FieldValueRequired)"},
		{"invalid, with a value that is no text", apierrors.NewInvalid(kind, "w",
			field.ErrorList{field.Invalid(field.NewPath("spec"), map[string]string{"a": ": " + secret}, "bad "+secret)}),
			connector.ErrTerminal, "spec (FieldValueInvalid)"},
		{"a bad request", apierrors.NewBadRequest("cannot parse " + secret), connector.ErrTerminal, "BadRequest"},
		{"a webhook denies",
			status(403, metav1.StatusReasonForbidden, `admission webhook "v.example.com" denied the request: not `+secret),
			connector.ErrTerminal, `admission webhook "v.example.com"`},
		{"a webhook is down", status(500, metav1.StatusReasonInternalError,
			`Internal error occurred: failed calling webhook: admission webhook `+secret),
			connector.ErrRetryable, "an admission webhook of the hub does not work"},
		{"too large", apierrors.NewRequestEntityTooLargeError("limit is 3145728"), connector.ErrTerminal, "limit is 3145728"},
		{"too large for etcd", status(500, "", "etcdserver: request is too large"), connector.ErrTerminal, "divide the app"},
		{"busy", apierrors.NewTooManyRequests("slow down", 1), connector.ErrRetryable, "TooManyRequests"},
		{"a timeout of the server", apierrors.NewServerTimeout(works, "create", 1), connector.ErrRetryable, "ServerTimeout"},
		{"an internal error", apierrors.NewInternalError(errors.New(secret)), connector.ErrRetryable, "InternalError"},
		{"no service", apierrors.NewServiceUnavailable("not connected to the broker"), connector.ErrUnreachable,
			"not connected"},
		{"a gateway", status(502, "", "bad gateway"), connector.ErrUnreachable, "does not answer"},
		{"refused", broken, connector.ErrUnreachable, "connection refused"},
		{"a connection that breaks within an answer", errors.New("http2: client connection lost"), connector.ErrUnreachable,
			"connection broke"},
		{"a body that ends too early",
			fmt.Errorf("unexpected error when reading response body. Please retry. Original error: %w", errors.New(secret)),
			connector.ErrUnreachable, "connection broke"},
		{"an answer that is none", fmt.Errorf("couldn't get version/kind: %s", secret), connector.ErrRetryable,
			"cannot be understood"},
		{"rivals", apierrors.NewConflict(works, "w", errors.New(secret)), connector.ErrRetryable, "too often"},
	} {
		t.Run(tt.reason, func(t *testing.T) {
			hub := &refusing{err: tt.err}
			connectors, err := manifestwork.New(hub, manifestwork.Options{})
			if err != nil {
				t.Fatal(err)
			}
			c, err := connectors.Connector(t.Context(), cluster1.Provider, cluster1.Name)
			if err != nil {
				t.Fatal(err)
			}
			err = c.Apply(t.Context(), batch("v1", "x", [2]string{"a", secret}))
			var classed *connector.Error
			if !errors.As(err, &classed) || !errors.Is(err, tt.class) || !strings.Contains(err.Error(), tt.text) ||
				strings.Contains(err.Error(), secret) {
				t.Errorf("%v, want %v with %q", err, tt.class, tt.text)
			}
			if most := 10; hub.writes > most {
				t.Errorf("%d attempts", hub.writes)
			}
		})
	}
}

// TestInvalidInput: Apply refuses invalid input before it writes anything.
func TestInvalidInput(t *testing.T) {
	hub := &refusing{err: errors.New("it was written")}
	connectors, err := manifestwork.New(hub, manifestwork.Options{MaxWorkBytes: 2000})
	if err != nil {
		t.Fatal(err)
	}
	c, err := connectors.Connector(t.Context(), cluster1.Provider, cluster1.Name)
	if err != nil {
		t.Fatal(err)
	}
	one := func(manifest string) connector.Batch {
		b := batch("v1", "x", [2]string{"a", ""})
		b.Resources[0].Manifest = []byte(manifest)
		return b
	}
	many := batch("v1", "x")
	for i := range 30 {
		many.Resources = append(many.Resources, batch("v1", "x", [2]string{fmt.Sprint("n", i), secret}).Resources...)
	}
	for _, tt := range []struct {
		reason, text string
		batch        connector.Batch
	}{
		{"no manifest", "ConfigMap shop/a", one(": " + secret)},
		{"of another object", "has another object", one(string(manifest("b", secret)))},
		{"one that is too large", "ConfigMap shop/a: the manifest has",
			one(string(manifest("a", strings.Repeat(secret, 200))))},
		{"too many", "divide the app", many},
	} {
		err := c.Apply(t.Context(), tt.batch)
		if !errors.Is(err, connector.ErrTerminal) || !strings.Contains(err.Error(), tt.text) ||
			strings.Contains(err.Error(), secret) {
			t.Errorf("%s: %v", tt.reason, err)
		}
	}
	if hub.writes > 0 {
		t.Errorf("%d writes", hub.writes)
	}
}

func TestInvalidOptions(t *testing.T) {
	hub := &refusing{}
	for reason, o := range map[string]manifestwork.Options{
		"Manager":      {Manager: "not a label"},
		"Labels":       {Labels: map[string]string{"a b": ""}},
		"own":          {Labels: map[string]string{manifestwork.LabelManager: "x"}},
		"Annotations":  {Annotations: map[string]string{"a b": ""}},
		"MaxWorkBytes": {MaxWorkBytes: -1},
	} {
		if _, err := manifestwork.New(hub, o); !errors.Is(err, manifestwork.ErrInvalid) ||
			!strings.Contains(err.Error(), reason) {
			t.Errorf("%s: %v", reason, err)
		}
	}
	if _, err := manifestwork.New(nil, manifestwork.Options{}); !errors.Is(err, manifestwork.ErrInvalid) {
		t.Errorf("no clientset: %v", err)
	}
	connectors, err := manifestwork.New(hub,
		manifestwork.Options{Namespace: func(appcontext.ClusterID) string { return "a/b" }})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := connectors.Connector(t.Context(), "work", "c"); !errors.Is(err, connector.ErrTerminal) {
		t.Errorf("a namespace that is none: %v", err)
	}
}

// TestReachable: an error of Options.Reachable makes each call fail as unreachable.
func TestReachable(t *testing.T) {
	away := errors.New("the lease has expired")
	connectors, err := manifestwork.New(&refusing{},
		manifestwork.Options{Reachable: func(_ context.Context, id appcontext.ClusterID) error {
			if id != cluster1 {
				t.Errorf("asked for %v", id)
			}
			return away
		}})
	if err != nil {
		t.Fatal(err)
	}
	c, err := connectors.Connector(t.Context(), cluster1.Provider, cluster1.Name)
	if err != nil {
		t.Fatal(err)
	}
	b := batch("v1", "x", [2]string{"a", "1"})
	_, getErr := c.Get(t.Context(), b)
	for _, err := range []error{c.Probe(t.Context()), c.Apply(t.Context(), b), c.Delete(t.Context(), b), getErr} {
		if !errors.Is(err, connector.ErrUnreachable) || !errors.Is(err, away) {
			t.Errorf("%v", err)
		}
	}
	away = nil
	if err := c.Probe(t.Context()); err != nil {
		t.Errorf("reachable again: %v", err)
	}
}

// silent is a hub that does not answer.
type silent struct{ refusing }

func (s *silent) ManifestWorks(string) worktyped.ManifestWorkInterface { return s }

func (s *silent) Get(ctx context.Context, _ string, _ metav1.GetOptions) (*workv1.ManifestWork, error) {
	<-ctx.Done()
	return nil, ctx.Err()
}

// TestDeadline: a hub that does not answer in time is unreachable. A call that its caller cancels
// is not an unreachable hub.
func TestDeadline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		connectors, err := manifestwork.New(&silent{}, manifestwork.Options{})
		if err != nil {
			t.Fatal(err)
		}
		c, err := connectors.Connector(t.Context(), cluster1.Provider, cluster1.Name)
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		if err := c.Apply(ctx, batch("v1", "x", [2]string{"a", "1"})); !errors.Is(err, connector.ErrUnreachable) {
			t.Errorf("no answer in time: %v", err)
		}
		ctx, cancel = context.WithCancel(t.Context())
		time.AfterFunc(time.Minute, cancel)
		err = c.Apply(ctx, batch("v1", "x", [2]string{"a", "1"}))
		if !errors.Is(err, context.Canceled) || errors.Is(err, connector.ErrUnreachable) {
			t.Errorf("given up: %v", err)
		}
	})
}

// TestRivals: other writers change the same work between a read and a write, and no change is lost.
func TestRivals(t *testing.T) {
	s := newScene(t)
	c := open(t, s.source, manifestwork.Options{})
	var names []string
	errs := make(chan error)
	const rivals = 8
	for i := range rivals {
		name := fmt.Sprint("n", i)
		names = append(names, name+"=1")
		go func() {
			var err error
			for range 5 { // the engine would also retry
				if err = c.Apply(t.Context(), batch("v1", "x", [2]string{name, "1"})); !errors.Is(err, connector.ErrRetryable) {
					break
				}
			}
			errs <- err
		}()
	}
	for range rivals {
		if err := <-errs; err != nil {
			t.Error(err)
		}
	}
	got := s.held(t)["v1/x"]
	for _, name := range names {
		if !strings.Contains(got+" ", name+" ") {
			t.Errorf("no %s in %q", name, got)
		}
	}
	if n := len(strings.Fields(got)); n != rivals {
		t.Errorf("%q has %d objects, want %d", got, n, rivals)
	}
}

// TestBrokerLimit: a work that exceeds the packet limit of the broker is refused immediately.
func TestBrokerLimit(t *testing.T) {
	broker := mosquitto.Start(t, mosquitto.Options{MaxPacketSize: 4000})
	limited, err := mqtt.New(mqtt.Options{BrokerURL: broker.URL()})
	if err != nil {
		t.Fatal(err)
	}
	c := open(t, newSource(t, limited).Clientset(), manifestwork.Options{})
	err = c.Apply(t.Context(), batch("v1", "x", [2]string{"a", strings.Repeat(secret, 500)}))
	if !errors.Is(err, connector.ErrTerminal) || !strings.Contains(err.Error(), "the broker's limit is 4000") ||
		strings.Contains(err.Error(), secret) {
		t.Errorf("%v", err)
	}
	if err := c.Apply(t.Context(), batch("v1", "x", [2]string{"a", "1"})); err != nil {
		t.Errorf("one that fits: %v", err)
	}
}

// TestWatchStatus: WatchStatus notifies at its start, and after a report of the agent.
func TestWatchStatus(t *testing.T) {
	s := newScene(t)
	c := open(t, s.source, manifestwork.Options{})
	if err := c.Apply(t.Context(), batch("v1", "x", [2]string{"a", "1"})); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	heard, ended := make(chan struct{}, 100), make(chan error, 1)
	go func() {
		ended <- c.(connector.StatusWatcher).WatchStatus(ctx, func() { heard <- struct{}{} })
	}()
	next := func(what string) {
		t.Helper()
		select {
		case <-heard:
		case <-time.After(patience):
			t.Fatalf("%s is not heard of", what)
		}
	}
	next("the beginning")
	s.report(t, nameOf(t, s, "v1", "x"), nil)
	next("the status")
	cancel()
	if err := <-ended; err != nil {
		t.Error(err)
	}
}

// TestManyRemoved: after the removal of very many objects from a work, the record of them stays
// small. It then covers too many objects rather than too few.
func TestManyRemoved(t *testing.T) {
	s := newScene(t)
	c := open(t, s.source, manifestwork.Options{})
	all, most := batch("v1", "x"), batch("v1", "x")
	for i := range 600 {
		r := batch("v1", "x", [2]string{fmt.Sprint("n", i), "1"}).Resources[0]
		all.Resources = append(all.Resources, r)
		if i > 0 {
			most.Resources = append(most.Resources, r)
		}
	}
	if err := errors.Join(c.Apply(t.Context(), all), c.Delete(t.Context(), most)); err != nil {
		t.Fatal(err)
	}
	name := nameOf(t, s, "v1", "x")
	w, err := s.source.WorkV1().ManifestWorks(cluster1.Name).Get(t.Context(), name, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if size, _ := json.Marshal(w.Annotations); len(size) > 1000 {
		t.Errorf("the annotations have %d bytes", len(size))
	}
	if got := stateOf(t, c, "v1", "x", all.Resources[5]); !strings.HasPrefix(got, "exists (it is being removed") {
		t.Errorf("%q", got)
	}
	if err := c.Apply(t.Context(), batch("v2", "y", [2]string{"other", "1"})); err != nil {
		t.Fatal(err)
	}
	s.expect(t, "an apply by others", "v1/x: n0=1", "v2/y: other=1")
	s.report(t, name, nil)
	if got := stateOf(t, c, "v1", "x", all.Resources[5]); got != "" {
		t.Errorf("confirmed: %q", got)
	}
}
