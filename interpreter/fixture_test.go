// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package interpreter_test

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"flag"
	"io"
	"net/http"
	"testing"
	"time"

	"go.uber.org/goleak"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/klog/v2"

	"github.com/spokewire/sdk-go/internal/testing/certtest"
	"github.com/spokewire/sdk-go/interpreter"
)

func TestMain(m *testing.M) {
	quiet := flag.NewFlagSet("klog", flag.PanicOnError) // handlers panic on purpose in tests
	klog.InitFlags(quiet)
	_ = quiet.Parse([]string{"-logtostderr=false", "-stderrthreshold=FATAL"})
	klog.SetOutput(io.Discard)
	goleak.VerifyTestMain(m)
}

// Workload is a custom resource. It has only some of the fields of the objects in the tests.
type Workload struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`
	Spec              WorkloadSpec   `json:"spec,omitempty"`
	Status            WorkloadStatus `json:"status,omitempty"`
}

type WorkloadSpec struct {
	Replicas *int32     `json:"replicas,omitempty"`
	Paused   bool       `json:"paused,omitempty"`
	Config   string     `json:"config,omitempty"`
	Parts    []PartSpec `json:"parts,omitempty"`
}

type PartSpec struct {
	Name     string `json:"name"`
	Replicas int32  `json:"replicas"`
}

type WorkloadStatus struct {
	Ready int32 `json:"ready,omitempty"`
}

// workloads answers every operation on a Workload.
var workloads = interpreter.HandlerFor[*Workload]{
	Replica: func(_ context.Context, w *Workload) (int32, *interpreter.ReplicaRequirements, error) {
		if w.Spec.Replicas == nil {
			return 1, nil, nil
		}
		return *w.Spec.Replicas, &interpreter.ReplicaRequirements{Namespace: w.Namespace}, nil
	},
	Components: func(_ context.Context, w *Workload) ([]interpreter.Component, error) {
		var out []interpreter.Component
		for _, p := range w.Spec.Parts {
			out = append(out, interpreter.Component{Name: p.Name, Replicas: p.Replicas})
		}
		return out, nil
	},
	Revise: func(_ context.Context, w *Workload, replicas int32) error {
		w.Spec.Replicas = &replicas
		return nil
	},
	Retain: func(_ context.Context, desired, observed *Workload) error {
		desired.Spec.Paused = observed.Spec.Paused
		return nil
	},
	Aggregate: func(_ context.Context, w *Workload, items []interpreter.AggregatedStatusItem) error {
		w.Status.Ready = int32(len(items))
		return nil
	},
	Dependencies: func(_ context.Context, w *Workload) ([]interpreter.DependentObjectReference, error) {
		d := interpreter.DependentObjectReference{APIVersion: "v1", Kind: "ConfigMap", Namespace: w.Namespace,
			Name: w.Spec.Config}
		return []interpreter.DependentObjectReference{d, d}, nil
	},
	Status: func(_ context.Context, w *Workload) (any, error) { return w.Status, nil },
	Health: func(_ context.Context, w *Workload) (bool, error) {
		switch w.Name {
		case "panics":
			panic("a secret of " + w.Name)
		case "fails":
			return false, errors.New("no idea")
		}
		return w.Spec.Replicas != nil && w.Status.Ready == *w.Spec.Replicas, nil
	},
	Prune: func(_ context.Context, w *Workload) error {
		w.UID, w.ResourceVersion = "", ""
		w.Status = WorkloadStatus{}
		return nil
	},
}

// webhook is a running server.
type webhook struct {
	*interpreter.Server
	ca     *certtest.Authority
	folder string
	client *http.Client
	stop   func() error
}

func (w *webhook) url(path string) string { return "https://" + w.Addr().String() + path }

// start runs a server on real TLS until the test ends.
func start(t testing.TB, options interpreter.ServerOptions, handlers map[string]interpreter.Handler) *webhook {
	t.Helper()
	w := &webhook{ca: certtest.New(t), folder: t.TempDir()}
	w.ca.Issue(t, "webhook", "hook.prod.svc").Write(t, w.folder, "tls")
	options.Addr, options.CertDir = "127.0.0.1:0", w.folder
	var err error
	if w.Server, err = interpreter.NewServer(options); err != nil {
		t.Fatal(err)
	}
	for path, h := range handlers {
		if err := interpreter.Register(w.Server, path, h); err != nil {
			t.Fatal(err)
		}
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- w.Start(ctx) }()
	select {
	case <-w.Ready():
	case err := <-ended:
		t.Fatal(err)
	}
	w.client = &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: w.ca.Pool()},
		ForceAttemptHTTP2: true}}
	stopped := false
	w.stop = func() error {
		if stopped {
			return nil
		}
		stopped = true
		cancel()
		w.client.CloseIdleConnections()
		select {
		case err := <-ended:
			return err
		case <-time.After(30 * time.Second):
			return errors.New("Start has not returned")
		}
	}
	t.Cleanup(func() {
		if err := w.stop(); err != nil {
			t.Error(err)
		}
	})
	return w
}

// post sends a body and returns the answer.
func (w *webhook) post(t testing.TB, path string, body string) (int, string) {
	t.Helper()
	return w.do(t, http.MethodPost, path, "application/json", body)
}

func (w *webhook) do(t testing.TB, method, path, contentType, body string) (int, string) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), method, w.url(path), bytes.NewReader([]byte(body)))
	if err != nil {
		t.Fatal(err)
	}
	if contentType != "" {
		r.Header.Set("Content-Type", contentType)
	}
	response, err := w.client.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	answer, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	return response.StatusCode, string(answer)
}
