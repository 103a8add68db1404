// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package ocmgrpc_test

import (
	"context"
	"fmt"
	"log"
	"net"
	"os"
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/cache"
	workinformers "open-cluster-management.io/api/client/work/informers/externalversions"
	workv1 "open-cluster-management.io/api/work/v1"
	ocmoptions "open-cluster-management.io/sdk-go/pkg/cloudevents/clients/options"
	ocmwork "open-cluster-management.io/sdk-go/pkg/cloudevents/clients/work"
	sourcecodec "open-cluster-management.io/sdk-go/pkg/cloudevents/clients/work/source/codec"
	ocmstore "open-cluster-management.io/sdk-go/pkg/cloudevents/clients/work/store"
	ocmclients "open-cluster-management.io/sdk-go/pkg/cloudevents/generic/clients"
	ocmbuilder "open-cluster-management.io/sdk-go/pkg/cloudevents/generic/options/builder"

	"github.com/spokewire/sdk-go/cloudevents/grpc"
	"github.com/spokewire/sdk-go/internal/e2e/e2etest"
	"github.com/spokewire/sdk-go/internal/e2e/ocmgrpc"
	"github.com/spokewire/sdk-go/internal/testing/agenttest"
	"github.com/spokewire/sdk-go/internal/testing/certtest"
	"github.com/spokewire/sdk-go/internal/testing/tcpproxy"
)

func TestMain(m *testing.M) {
	if options := os.Getenv(hubVariable); options != "" {
		log.Fatal(runHub(options))
	}
	// Otherwise the clients of the OCM SDK in this process connect again after up to a minute.
	ocmclients.DelayFn = func() time.Duration { return time.Second }
	os.Exit(e2etest.Main(m))
}

// sourceStore is a store of OCM's source client, which checks the informer while it is being set.
type sourceStore struct {
	*ocmstore.SourceInformerWatcherStore
	set atomic.Bool
}

func (s *sourceStore) HasInitiated() bool {
	return s.set.Load() && s.SourceInformerWatcherStore.HasInitiated()
}

// theirSource starts a source client of the OCM SDK.
func theirSource(t *testing.T, id, file string) side {
	t.Helper()
	_, config, err := ocmbuilder.NewConfigLoader("grpc", file).LoadConfig()
	if err != nil {
		t.Fatal(err)
	}
	store := &sourceStore{SourceInformerWatcherStore: ocmstore.NewSourceInformerWatcherStore(t.Context())}
	holder, err := ocmwork.NewSourceClientHolder(t.Context(), ocmoptions.NewGenericClientOptions(
		config, sourcecodec.NewManifestBundleCodec(), id+"-client").
		WithSourceID(id).WithClientWatcherStore(store))
	if err != nil {
		t.Fatal(err)
	}
	factory := workinformers.NewSharedInformerFactory(holder.WorkInterface(), 0)
	informer := factory.Work().V1().ManifestWorks().Informer()
	store.SetInformer(informer)
	store.set.Store(true)
	factory.Start(t.Context().Done())
	if !cache.WaitForCacheSync(t.Context().Done(), informer.HasSynced) {
		t.Fatal("an informer did not sync")
	}
	return side{t, holder.WorkInterface().WorkV1().ManifestWorks(cluster)}
}

// TestOCMSourceOnServer runs a source of the OCM SDK and an agent of this SDK on a server of this
// SDK. The source uses OCM's service, and the agent the server's own.
func TestOCMSourceOnServer(t *testing.T) {
	const id = "maestro"
	ca, folder := certtest.New(t), t.TempDir()
	o := grpc.ServerOptions{ClientCAFile: ca.Write(t, folder, "ca"), Authorizer: grpc.AuthorizeNames(id)}
	o.CertFile, o.KeyFile = ca.Issue(t, "hub", "localhost").Write(t, folder, "server")
	server, err := grpc.NewServer(o)
	if err != nil {
		t.Fatal(err)
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	e2etest.Background(t, func(ctx context.Context) error { return server.Serve(ctx, listener) })
	link := tcpproxy.Start(t, listener.Addr().String())
	identity := func(name string) ocmgrpc.Credentials {
		c := ocmgrpc.Credentials{CAFile: o.ClientCAFile}
		c.CertFile, c.KeyFile = ca.IssueFor(t, name).Write(t, folder, name)
		return c
	}
	source := theirSource(t, id, identity(id).Config(t, link.Addr()))
	m, file := managed{agenttest.NewCluster()}, filepath.Join(folder, "works.db")
	start := func() ourAgent { return startOurs(t, listener.Addr().String(), identity(cluster), m, file) }
	has := func(values map[string]string) {
		t.Helper()
		e2etest.Eventually(t, fmt.Sprintf("the cluster has %v", values), func() error { return onlyHas(m, values) })
	}
	update := func(name, value string) {
		t.Helper()
		e2etest.Eventually(t, "the source publishes", func() error { // it fails while the link is cut
			return source.tryPatch(name, fmt.Appendf(nil,
				`{"spec":{"workload":{"manifests":[{"apiVersion":"v1","kind":"ConfigMap",`+
					`"metadata":{"name":%q,"namespace":"shop"},"data":{"value":%q}}]}}}`, name, value))
		})
	}

	agent := start()
	source.create("a")
	source.create("b")
	has(map[string]string{"a": "1", "b": "1"})
	for _, name := range []string{"a", "b"} {
		source.eventually("the source has the status of "+name, name, func(w *workv1.ManifestWork) bool {
			return meta.IsStatusConditionTrue(w.Status.Conditions, workv1.WorkApplied)
		})
	}
	agent.Kill()
	update("a", "2")
	source.delete("b")
	agent = start()
	has(map[string]string{"a": "2"})
	link.Cut()
	update("a", "3")
	has(map[string]string{"a": "3"})
	source.delete("a")
	has(map[string]string{})
	e2etest.Eventually(t, "the source removes its works", func() error {
		for _, name := range []string{"a", "b"} {
			if w, err := source.Get(t.Context(), name, metav1.GetOptions{}); !apierrors.IsNotFound(err) {
				return fmt.Errorf("%s: %v, %w", name, w, err)
			}
		}
		return nil
	})
	agent.Kill()
}
