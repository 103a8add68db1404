// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package rsync_test

import (
	"context"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/spokewire/sdk-go/rsync"
	"github.com/spokewire/sdk-go/rsync/appcontext"
	"github.com/spokewire/sdk-go/rsync/connector"
	kubeconnector "github.com/spokewire/sdk-go/rsync/connector/kube"
)

// TestKubeDriftIsReportedAndHealed: others edit and delete objects, and a Deployment becomes ready.
// Watches report all changes within seconds, and the objects match their manifests again.
func TestKubeDriftIsReportedAndHealed(t *testing.T) {
	t.Parallel()
	s := newKubeSite(t, nil, kubeconnector.Options{})
	engine := startEngine(t,
		newKubeConnectors(t, map[string]kubeconnector.Cluster{"*": {Config: s.config}},
			kubeconnector.Options{Force: true}),
		rsync.Options{Observe: rsync.ObserveHeal, ObserveInterval: time.Hour}) // so every observation is due to a watch
	manifests := []string{
		manifestOf("settings", "1"), manifestOf("other", "1"),
		"{apiVersion: v1, kind: Secret, metadata: {name: token, namespace: NS}, stringData: {token: s3cr3t}}",
		"{apiVersion: apps/v1, kind: Deployment, metadata: {name: web, namespace: NS}, spec: {replicas: 1, selector: " +
			"{matchLabels: {a: b}}, " +
			"template: {metadata: {labels: {a: b}}, spec: {containers: [{name: a, image: a}]}}}}",
	}
	s.create(engine, "observed", manifests...)
	ref, err := engine.Instantiate(t.Context(), "observed")
	if _, err := await(t, engine, ref, err); err != nil {
		t.Fatal(err)
	}
	seen := s.observations(engine, "observed")
	next := func(what string, is func(o *rsync.Observation) bool) *rsync.Observation {
		t.Helper()
		timeout := time.After(time.Minute)
		for {
			select {
			case o := <-seen:
				if is(o) {
					return o
				}
			case <-timeout:
				status, err := engine.Status(t.Context(), "observed")
				t.Fatalf("not observed within a minute: %s: %+v, %v", what, status.Observed, err)
			}
		}
	}
	next("all but the Deployment are ready", func(o *rsync.Observation) bool {
		return o.Objects == 4 && o.Ready == 3 && o.Compared && o.Drifted == 0 && o.NotReady[0].Name == "web"
	})

	// A controller reports the Deployment as ready.
	ready := `{"status":{"observedGeneration":1,"replicas":1,"updatedReplicas":1,"readyReplicas":1,"availableReplicas":1,"conditions":[` +
		`{"type":"Available","status":"True"},{"type":"Progressing","status":"True","reason":"NewReplicaSetAvailable"}]}}`
	if _, err := s.client.AppsV1().Deployments(s.namespace).Patch(t.Context(), "web", types.MergePatchType,
		[]byte(ready), metav1.PatchOptions{}, "status"); err != nil {
		t.Fatal(err)
	}
	next("the Deployment is ready", func(o *rsync.Observation) bool { return o.Ready == 4 && o.Drifted == 0 })

	// A user edits a ConfigMap and a Secret. A field that no manifest has is no drift.
	edit := func(resource func(context.Context, string) error, name string) {
		t.Helper()
		if err := resource(t.Context(), name); err != nil {
			t.Fatal(err)
		}
	}
	configMaps, secrets := s.client.CoreV1().ConfigMaps(s.namespace), s.client.CoreV1().Secrets(s.namespace)
	edit(func(ctx context.Context, name string) error {
		_, err := configMaps.Patch(ctx, name, types.MergePatchType, []byte(`{"data":{"key":"edited","more":"x"}}`),
			metav1.PatchOptions{FieldManager: "kubectl-edit"})
		return err
	}, "settings")
	o := next("the ConfigMap has drifted", func(o *rsync.Observation) bool { return o.Drifted > 0 })
	if c := o.Drift[0]; c.Name != "settings" || c.Kind != connector.ChangeKindUpdate || len(c.Fields) != 1 ||
		c.Fields[0] != (connector.FieldChange{Path: ".data.key", Before: `"edited"`, After: `"1"`}) {
		t.Errorf("drift %+v", c)
	}
	next("it is healed", func(o *rsync.Observation) bool { return o.Drifted == 0 && o.Heals == 1 })
	if m, err := configMaps.Get(t.Context(), "settings", metav1.GetOptions{}); err != nil || m.Data["key"] != "1" ||
		m.Data["more"] != "x" {
		t.Errorf("%+v, %v", m, err)
	}
	// The next heal waits 30 s. Another app context is healed immediately. Its deletions and edits
	// affect only its own objects.
	s.healsAnother(engine, func() {
		edit(func(ctx context.Context, name string) error {
			return configMaps.Delete(ctx, name, metav1.DeleteOptions{})
		}, "deleted")
		edit(func(ctx context.Context, name string) error {
			_, err := secrets.Patch(ctx, name, types.MergePatchType, []byte(`{"data":{"token":"ZWRpdGVk"}}`),
				metav1.PatchOptions{FieldManager: "kubectl-edit"})
			return err
		}, "another")
	})
	if status, err := engine.Status(t.Context(), "observed"); err != nil || status.State != rsync.Instantiated ||
		len(status.Queue) != 2 {
		t.Errorf("%+v, %v", status, err)
	}
}

// TestKubeDriftOfOwnedField: another field manager has taken a field. Without Options.Force the
// drift is reported with the field and the manager, and no heal is tried.
func TestKubeDriftOfOwnedField(t *testing.T) {
	t.Parallel()
	s := newKubeSite(t, nil, kubeconnector.Options{})
	engine := startEngine(t,
		newKubeConnectors(t, map[string]kubeconnector.Cluster{"*": {Config: s.config}}, kubeconnector.Options{}),
		rsync.Options{Observe: rsync.ObserveHeal, ObserveInterval: time.Hour})
	s.create(engine, "owned", manifestOf("settings", "1"))
	ref, err := engine.Instantiate(t.Context(), "owned")
	if _, err := await(t, engine, ref, err); err != nil {
		t.Fatal(err)
	}
	seen := s.observations(engine, "owned")
	if _, err := s.client.CoreV1().ConfigMaps(s.namespace).Patch(t.Context(), "settings", types.MergePatchType,
		[]byte(`{"data":{"key":"edited"}}`), metav1.PatchOptions{FieldManager: "kubectl-edit"}); err != nil {
		t.Fatal(err)
	}
	for timeout := time.After(time.Minute); ; {
		select {
		case o := <-seen:
			if o.Drifted == 0 {
				continue
			}
			if c := o.Drift[0]; c.Kind != connector.ChangeKindRefused || !strings.Contains(c.Message, ".data.key") ||
				!strings.Contains(c.Message, "kubectl-edit") {
				t.Errorf("%+v", o)
			}
		case <-timeout:
			t.Fatal("not observed within a minute")
		}
		break
	}
	if status, err := engine.Status(t.Context(), "owned"); err != nil || len(status.Queue) != 1 {
		t.Errorf("%+v, %v", status, err)
	}
}

// healsAnother calls edit to change the objects of another context, and waits until they match
// their manifests.
func (s *kubeSite) healsAnother(engine *rsync.Engine, edit func()) {
	t := s.t
	t.Helper()
	s.create(engine, "another", manifestOf("deleted", "1"),
		"{apiVersion: v1, kind: Secret, metadata: {name: another, namespace: NS}, stringData: {token: s3cr3t}}")
	ref, err := engine.Instantiate(t.Context(), "another")
	if _, err := await(t, engine, ref, err); err != nil {
		t.Fatal(err)
	}
	seen := s.observations(engine, "another")
	awaitReady := func() {
		t.Helper()
		for timeout := time.After(2 * time.Minute); ; {
			select {
			case o := <-seen:
				for _, c := range o.Drift {
					for _, f := range c.Fields {
						if c.Object.Kind == "Secret" && strings.Contains(f.Before+f.After, "ZWRp") {
							t.Errorf("a value of a Secret is reported: %+v", c)
						}
					}
				}
				if o.Ready == 2 && o.Drifted == 0 && o.Reason == "" {
					return
				}
			case <-timeout:
				t.Fatal("not healed within 2 minutes")
			}
		}
	}
	awaitReady()
	edit()
	for end := time.Now().Add(2 * time.Minute); ; time.Sleep(200 * time.Millisecond) {
		m, err := s.client.CoreV1().ConfigMaps(s.namespace).Get(t.Context(), "deleted", metav1.GetOptions{})
		secret, secretErr := s.client.CoreV1().Secrets(s.namespace).Get(t.Context(), "another", metav1.GetOptions{})
		if err == nil && m.Data["key"] == "1" && secretErr == nil && string(secret.Data["token"]) == "s3cr3t" {
			break
		}
		if time.Now().After(end) {
			t.Fatalf("%+v, %v, %+v, %v", m, err, secret, secretErr)
		}
	}
	awaitReady()
}

// create creates a context with one app on the cluster.
func (s *kubeSite) create(engine *rsync.Engine, id string, manifests ...string) {
	s.t.Helper()
	createContext(s.t, engine, id, func(b *appcontext.Builder) {
		for _, m := range manifests {
			b.App("app").Resource("edge", "c1", []byte(strings.ReplaceAll(m, "NS", s.namespace)))
		}
	})
}

// observations returns the observations of a context, the current ones first.
func (s *kubeSite) observations(engine *rsync.Engine, id string) <-chan *rsync.Observation {
	seen := make(chan *rsync.Observation, 1000)
	ctx, cancel := context.WithCancel(context.WithoutCancel(s.t.Context()))
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for change, err := range engine.Watch(ctx, id, 0) {
			if err != nil {
				s.t.Error(err)
			} else if change.Observed != nil {
				seen <- change.Observed
			}
		}
	}()
	s.t.Cleanup(func() { cancel(); <-ended })
	return seen
}
