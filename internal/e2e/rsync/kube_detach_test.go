// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package rsync_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/spokewire/sdk-go/rsync"
	"github.com/spokewire/sdk-go/rsync/appcontext"
	kubeconnector "github.com/spokewire/sdk-go/rsync/connector/kube"
)

// configMaps returns the ConfigMaps of the namespace as "name=value name=value".
func (s *kubeSite) configMaps() string {
	s.t.Helper()
	list, err := s.client.CoreV1().ConfigMaps(s.namespace).List(s.t.Context(), metav1.ListOptions{})
	if err != nil {
		s.t.Fatal(err)
	}
	var out []string
	for _, m := range list.Items {
		if m.Name != "kube-root-ca.crt" {
			out = append(out, m.Name+"="+m.Data["key"])
		}
	}
	slices.Sort(out)
	return strings.Join(out, " ")
}

// TestKubeDetach: an API server no longer answers. The context is detached from it, terminated and
// deleted. When the server answers again, the objects of the context are deleted, except those of
// another context.
func TestKubeDetach(t *testing.T) {
	t.Parallel()
	s := newKubeSite(t, nil, kubeconnector.Options{})
	config, proxy := proxied(t, s.config)
	connectors := newKubeConnectors(t, map[string]kubeconnector.Cluster{"*": {Config: config}}, kubeconnector.Options{})
	engine := startEngine(t, connectors, rsync.Options{})
	resources := func(values map[string]string) func(*appcontext.Builder) {
		return func(b *appcontext.Builder) {
			for name, value := range values {
				b.App("web").Resource(kube1.Provider, kube1.Name,
					[]byte(strings.ReplaceAll(manifestOf(name, value), "NS", s.namespace)))
			}
		}
	}
	createContext(t, engine, "gone", resources(map[string]string{"own": "1", "shared": "1"}))
	createContext(t, engine, "stays", resources(map[string]string{"shared": "2", "other": "2"}))
	for _, id := range []string{"gone", "stays"} {
		ref, err := engine.Instantiate(t.Context(), id)
		if _, err := await(t, engine, ref, err); err != nil {
			t.Fatal(err)
		}
	}
	if got := s.configMaps(); got != "other=2 own=1 shared=2" {
		t.Fatal(got)
	}

	proxy.Stall()
	ref, err := engine.Terminate(t.Context(), "gone")
	if err != nil {
		t.Fatal(err)
	}
	short, cancel := context.WithTimeout(t.Context(), 3*time.Second)
	defer cancel()
	if _, err := engine.Wait(short, ref); !errors.As(err, new(*rsync.UnfinishedError)) {
		t.Fatalf("without the API server: %v", err)
	}
	if err := engine.Detach(t.Context(), "gone", kube1); err != nil {
		t.Fatal(err)
	}
	began := time.Now()
	status, err := await(t, engine, ref, nil)
	if err != nil || status.State != rsync.Terminated || status.Cluster("web", kube1).Reason != rsync.ReasonDetached {
		t.Fatalf("%+v, %v", status, err)
	}
	t.Logf("Terminate ended %s after Detach", time.Since(began))
	eventually(t, func() string {
		if err := engine.Delete(t.Context(), "gone"); err != nil {
			return err.Error()
		}
		return ""
	})
	pending, err := engine.Detached(t.Context())
	if err != nil || len(pending) != 1 || len(pending[0].Objects) != 2 {
		t.Fatalf("%+v, %v", pending, err)
	}

	proxy.Resume()
	began = time.Now()
	eventually(t, func() string {
		if pending, err := engine.Detached(t.Context()); err != nil || len(pending) > 0 {
			return fmt.Sprintf("%+v, %v", pending, err)
		}
		return ""
	})
	t.Logf("cleaned up after %s", time.Since(began))
	if got := s.configMaps(); got != "other=2 shared=2" {
		t.Errorf("the cluster has %s", got)
	}
	ref, err = engine.Terminate(t.Context(), "stays")
	if _, err := await(t, engine, ref, err); err != nil {
		t.Fatal(err)
	}
	if got := s.configMaps(); got != "" {
		t.Errorf("the cluster has %s", got)
	}
}
