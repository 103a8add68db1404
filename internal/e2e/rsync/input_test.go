// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package rsync_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"k8s.io/client-go/rest"
	workclientset "open-cluster-management.io/api/client/work/clientset/versioned"

	"github.com/spokewire/sdk-go/internal/e2e/kube"
	"github.com/spokewire/sdk-go/internal/testing/agenttest"
	"github.com/spokewire/sdk-go/rsync"
	"github.com/spokewire/sdk-go/rsync/appcontext"
	"github.com/spokewire/sdk-go/rsync/connector"
	kubeconnector "github.com/spokewire/sdk-go/rsync/connector/kube"
	"github.com/spokewire/sdk-go/rsync/connector/manifestwork"
)

// byProvider maps providers to the clusters of different connectors.
type byProvider map[string]connector.Connectors

func (m byProvider) Connector(ctx context.Context, provider, cluster string) (connector.Connector, error) {
	return m[provider].Connector(ctx, provider, cluster)
}

// badInput is an app on a cluster, where the app or the cluster is invalid.
type badInput struct {
	reason   string
	cluster  string // provider+name
	manifest string
	phase    rsync.Phase
	why      rsync.Reason
	parts    []string // of the status message
}

const (
	inputSecret = "s3cr3t"
	// inputLimit is the maximum size of a manifest and of a work.
	inputLimit = 4000
)

func inputs(namespace string) []badInput {
	good := strings.ReplaceAll(manifestOf("input", inputSecret), "NS", namespace)
	large := strings.ReplaceAll(manifestOf("large", strings.Repeat(inputSecret, inputLimit/6)), "NS", namespace)
	unknown := fmt.Sprintf("{apiVersion: nobody.example.com/v1, kind: Gadget, metadata: {name: a, namespace: %s}}",
		namespace)
	broken := fmt.Sprintf("{apiVersion: v1, kind: ConfigMap, metadata: {name: broken, namespace: %s}, data: [%s]}",
		namespace, inputSecret)
	refused, retrying := rsync.ReasonRefused, rsync.PhaseRetrying
	return []badInput{
		{"a kubeconfig that is none", "kube+garbage", good, rsync.PhaseFailed, refused, []string{"is not a kubeconfig"}},
		{"a kubeconfig that is not there", "kube+missing", good, rsync.PhaseFailed, refused, []string{"does not exist"}},
		{"a kubeconfig of nobody's address", "kube+nobody", good, retrying, rsync.ReasonUnreachable,
			[]string{"no connection"}},
		{"a kubeconfig with another's authority", "kube+authority", good, retrying, rsync.ReasonUnreachable,
			[]string{"cannot be verified"}},
		{"a kubeconfig with a wrong token", "kube+token", good, retrying, rsync.ReasonRefusedForNow,
			[]string{"does not accept the credentials"}},
		{"an unknown kind", "kube+good", unknown, rsync.PhaseFailed, refused,
			[]string{"nobody.example.com/Gadget", "does not serve this kind"}},
		{"a forbidden verb", "kube+forbidden", good, rsync.PhaseFailed, refused,
			[]string{"ConfigMap", "cannot patch resource"}},
		{"an object over the limit", "kube+good", large, rsync.PhaseFailed, refused, []string{"large", "MaxObjectBytes"}},
		{"a broken manifest", "kube+good", broken, rsync.PhaseFailed, refused, []string{"broken", "does not fit its kind"}},

		{"an unknown kind, to an agent", "work+good", unknown, retrying, rsync.ReasonNotReady,
			[]string{"Gadget", "could not apply it", "no matches for kind"}},
		{"a broken manifest, to an agent", "work+good", broken, retrying, rsync.ReasonNotReady,
			[]string{"broken", "could not apply it", "does not fit"}},
		{"a forbidden verb on the hub", "denied+good", good, rsync.PhaseFailed, refused, []string{"the hub denies access"}},
		{"an object over the limit of works", "work+good", large, rsync.PhaseFailed, refused,
			[]string{"large", "MaxWorkBytes"}},
		{"a cluster that no hub knows", "work+nowhere", good, retrying, rsync.ReasonRefusedForNow,
			[]string{"no such namespace on the hub"}},
	}
}

// TestBadInput: an error of one app on one cluster is reported in its status, with the right class
// and without secrets. It does not affect other apps and clusters.
func TestBadInput(t *testing.T) {
	shared := kube.Shared(t)
	s := newKubeSite(t, nil, kubeconnector.Options{})
	engine := startEngine(t, inputConnectors(t, s, shared), rsync.Options{
		PollInterval: 20 * time.Millisecond, ProbeInterval: time.Second, Backoff: rsync.Backoff{Base: 100 * time.Millisecond},
	})
	cases := inputs(s.namespace)
	createContext(t, engine, "input", func(b *appcontext.Builder) {
		for i, c := range cases {
			provider, cluster, _ := strings.Cut(c.cluster, "+")
			app := fmt.Sprint("app", i)
			b.App(app).Resource(provider, cluster, []byte(c.manifest))
			// An app that waits for it, and a neighbor on the same cluster.
			b.App(fmt.Sprint("after", i)).DependsOn(app, appcontext.OpStatusReady, 0).Cluster(provider, cluster)
		}
		b.App("fine").Resource("kube", "good", []byte(strings.ReplaceAll(manifestOf("fine", "1"), "NS", s.namespace))).
			Resource("work", "good", []byte(strings.ReplaceAll(manifestOf("fine", "1"), "NS", s.namespace)))
	})
	ref, err := engine.Instantiate(t.Context(), "input")
	if err != nil {
		t.Fatal(err)
	}
	for i, c := range cases {
		t.Run(c.reason, func(t *testing.T) {
			eventually(t, func() string { return inputStatus(t, engine, fmt.Sprint("app", i), c) })
		})
	}
	for _, id := range []appcontext.ClusterID{{Provider: "kube", Name: "good"}, {Provider: "work", Name: "good"}} {
		eventually(t, func() string {
			return inputStatus(t, engine, "fine", badInput{cluster: id.String(), phase: rsync.PhaseDone})
		})
	}
	if err := engine.Stop(t.Context(), "input"); err != nil { // otherwise the retries would never end
		t.Fatal(err)
	}
	if _, err := await(t, engine, ref, nil); !errors.As(err, new(*rsync.EventError)) ||
		strings.Contains(err.Error(), inputSecret) {
		t.Errorf("the event: %v", err)
	}
	// An invalid object is refused earlier.
	b := appcontext.NewBuilder("none")
	b.App("web").Resource("kube", "good", []byte("{"+inputSecret))
	_, err = b.Build()
	if err == nil || !strings.Contains(err.Error(), `app "web", cluster "kube+good", resource 0: `) ||
		strings.Contains(err.Error(), inputSecret) {
		t.Errorf("a manifest that is none: %v", err)
	}
}

func inputStatus(t *testing.T, engine *rsync.Engine, app string, want badInput) string {
	t.Helper()
	status, err := engine.Status(t.Context(), "input")
	if err != nil {
		t.Fatal(err)
	}
	provider, cluster, _ := strings.Cut(want.cluster, "+")
	got := status.Cluster(app, appcontext.ClusterID{Provider: provider, Name: cluster})
	if got == nil || got.Phase != want.phase || got.Reason != want.why {
		return fmt.Sprintf("%s on %s: %+v, want %s %s", app, want.cluster, got, want.phase, want.why)
	}
	for _, part := range want.parts {
		if !strings.Contains(got.Message, part) {
			return fmt.Sprintf("%s on %s says %q, want %q in it", app, want.cluster, got.Message, part)
		}
	}
	if strings.Contains(got.Message, inputSecret) {
		t.Errorf("%s on %s tells a secret: %q", app, want.cluster, got.Message)
	}
	return ""
}

// inputConnectors returns valid and invalid clusters, some with an API server and some with an
// agent.
func inputConnectors(t *testing.T, s *kubeSite, shared *kube.Cluster) connector.Connectors {
	t.Helper()
	garbage := filepath.Join(t.TempDir(), "kubeconfig")
	if err := os.WriteFile(garbage, []byte("{users: "+inputSecret), 0o600); err != nil {
		t.Fatal(err)
	}
	other := func(change func(*rest.Config)) kubeconnector.Cluster {
		config := shared.Config()
		change(config)
		return kubeconnector.Cluster{Config: config}
	}
	clusters := newKubeConnectors(t, map[string]kubeconnector.Cluster{
		"kube+good":      {Config: s.config},
		"kube+garbage":   {Kubeconfig: garbage},
		"kube+missing":   {Kubeconfig: garbage + "-nowhere"},
		"kube+nobody":    other(func(c *rest.Config) { c.Host = "https://127.0.0.1:1" }),
		"kube+authority": other(func(c *rest.Config) { c.CAData, c.CAFile = nil, "" }),
		"kube+token":     other(func(c *rest.Config) { c.CertData, c.KeyData, c.BearerToken = nil, nil, inputSecret }),
		"kube+forbidden": {Config: shared.User("input-" + s.namespace)},
	}, kubeconnector.Options{MaxObjectBytes: inputLimit})
	out := byProvider{"kube": clusters}
	for provider, config := range map[string]*rest.Config{"work": shared.Config(),
		"denied": shared.User("hub-" + s.namespace)} {
		works, err := manifestwork.New(workclientset.NewForConfigOrDie(config).WorkV1(), manifestwork.Options{
			MaxWorkBytes: inputLimit, Namespace: func(id appcontext.ClusterID) string {
				if id.Name == "good" {
					return s.namespace
				}
				return id.Name
			},
		})
		if err != nil {
			t.Fatal(err)
		}
		out[provider] = works
	}
	cluster := agenttest.NewCluster()
	cluster.Refuse(func(object string) string {
		switch {
		case strings.HasPrefix(object, "Gadget "):
			return `no matches for kind "Gadget"`
		case strings.HasSuffix(object, "/broken"):
			return "the manifest does not fit its kind"
		}
		return ""
	})
	background(t, func(ctx context.Context) error {
		return agenttest.Run(ctx, cluster, workclientset.NewForConfigOrDie(shared.Config()), s.namespace)
	})
	return out
}
