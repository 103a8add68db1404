// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package ocmgrpc_test

import (
	"errors"
	"fmt"
	"sync"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/util/retry"
	worktyped "open-cluster-management.io/api/client/work/clientset/versioned/typed/work/v1"
	workinformers "open-cluster-management.io/api/client/work/informers/externalversions"
	workv1 "open-cluster-management.io/api/work/v1"
	ocmoptions "open-cluster-management.io/sdk-go/pkg/cloudevents/clients/options"
	ocmwork "open-cluster-management.io/sdk-go/pkg/cloudevents/clients/work"
	agentcodec "open-cluster-management.io/sdk-go/pkg/cloudevents/clients/work/agent/codec"
	ocmstore "open-cluster-management.io/sdk-go/pkg/cloudevents/clients/work/store"
	ocmbuilder "open-cluster-management.io/sdk-go/pkg/cloudevents/generic/options/builder"

	"github.com/spokewire/sdk-go/cloudevents/grpc"
	"github.com/spokewire/sdk-go/cloudevents/work"
	"github.com/spokewire/sdk-go/codec"
	"github.com/spokewire/sdk-go/internal/e2e/e2etest"
	"github.com/spokewire/sdk-go/internal/e2e/ocmgrpc"
)

// addFinalizer and applied are the patches of an agent's controllers.
const addFinalizer = `{"metadata":{"finalizers":["` + workv1.ManifestWorkFinalizer + `"]}}`

func applied(message int) []byte {
	return fmt.Appendf(nil,
		`{"status":{"conditions":[{"type":"Applied","status":"True","reason":"AppliedManifestComplete",`+
			`"message":"%d","lastTransitionTime":"2026-01-02T03:04:05Z"}]}}`, message)
}

// side is the hub or the agent.
type side struct {
	t *testing.T
	worktyped.ManifestWorkInterface
}

// configMap returns the manifests of a work with one ConfigMap.
func configMap(name, value string) []workv1.Manifest {
	return []workv1.Manifest{{RawExtension: runtime.RawExtension{
		Raw: []byte(`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"` + name +
			`","namespace":"shop"},"data":{"value":"` + value + `"}}`)}}}
}

func (s side) create(name string) {
	s.t.Helper()
	w := &workv1.ManifestWork{ObjectMeta: metav1.ObjectMeta{Name: name}}
	w.Spec.Workload.Manifests = configMap(name, "1")
	if _, err := s.Create(s.t.Context(), w, metav1.CreateOptions{}); err != nil {
		s.t.Fatal(err)
	}
}

// patch patches a work. OCM's server adds its finalizer before the first status, and then returns a
// conflict.
func (s side) patch(name string, data []byte, subresources ...string) {
	s.t.Helper()
	err := retry.OnError(retry.DefaultBackoff, apierrors.IsConflict, func() error {
		return s.tryPatch(name, data, subresources...)
	})
	if err != nil {
		s.t.Error(err)
	}
}

func (s side) tryPatch(name string, data []byte, subresources ...string) error {
	_, err := s.Patch(s.t.Context(), name, types.MergePatchType, data, metav1.PatchOptions{}, subresources...)
	return err
}

func (s side) delete(name string) {
	s.t.Helper()
	if err := s.Delete(s.t.Context(), name, metav1.DeleteOptions{}); err != nil {
		s.t.Fatal(err)
	}
}

// eventually waits until a work exists and fulfills a condition.
func (s side) eventually(what, name string, holds func(*workv1.ManifestWork) bool) {
	s.t.Helper()
	e2etest.Eventually(s.t, what, func() error {
		w, err := s.Get(s.t.Context(), name, metav1.GetOptions{})
		if err == nil && !holds(w) {
			err = fmt.Errorf("deletion %v, finalizers %v, conditions %v", w.DeletionTimestamp, w.Finalizers, w.Status.Conditions)
		}
		return err
	})
}

func (s side) deleting(name string) bool {
	s.t.Helper()
	w, err := s.Get(s.t.Context(), name, metav1.GetOptions{})
	if err != nil {
		s.t.Fatal(err)
	}
	return w.DeletionTimestamp != nil
}

func exists(*workv1.ManifestWork) bool     { return true }
func deletion(w *workv1.ManifestWork) bool { return w.DeletionTimestamp != nil }
func reported(w *workv1.ManifestWork) bool { return len(w.Status.Conditions) == 1 }

// slowStore is the store of OCM's agent client. It can pause a patch between its last read and its
// write. Received events do not call Update of slowStore.
type slowStore struct {
	*ocmstore.AgentInformerWatcherStore
	mu      sync.Mutex
	pause   chan struct{} // closed to continue; nil for no pause
	reached chan struct{} // closed when the patch has paused
}

func (s *slowStore) Update(obj runtime.Object) error {
	s.mu.Lock()
	pause, reached := s.pause, s.reached
	s.pause = nil
	s.mu.Unlock()
	if pause != nil {
		close(reached)
		<-pause
	}
	return s.AgentInformerWatcherStore.Update(obj)
}

// hold pauses the next patch.
func (s *slowStore) hold() (reached <-chan struct{}, release func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.pause, s.reached = make(chan struct{}), make(chan struct{})
	pause := s.pause
	return s.reached, sync.OnceFunc(func() { close(pause) })
}

// erase replays https://github.com/open-cluster-management-io/sdk-go/issues/232 on OCM's client with
// its gRPC driver. A deletion arrives between the last read and the write of a patch. The write
// restores the work without its deletion.
func erase(t *testing.T, onHub side, config string) (agent side) {
	t.Helper()
	agent, store := theirs(t, config)
	onHub.create("app")
	agent.eventually("the agent receives the work", "app", exists)
	agent.patch("app", []byte(addFinalizer))
	agent.patch("app", applied(1), "status")
	onHub.eventually("the hub has the status", "app", reported) // OCM's hub adds its finalizer before

	reached, release := store.hold()
	defer release()
	patched := make(chan struct{})
	go func() {
		defer close(patched)
		agent.patch("app", applied(2), "status")
	}()
	<-reached
	onHub.delete("app")
	agent.eventually("the agent receives the deletion", "app", deletion)
	release()
	<-patched
	if agent.deleting("app") {
		t.Fatal("the deletion is kept: issue 232 is fixed, change COMPATIBILITY.md")
	}
	return agent
}

// TestOCMPatchErasesDeletion replays the issue on OCM's real server.
func TestOCMPatchErasesDeletion(t *testing.T) {
	hub := ocmgrpc.StartHub(t, cluster)
	server := hub.StartServer()
	onHub := side{t, hub.Works(cluster)}
	agent := erase(t, onHub, ocmgrpc.AgentCredentials(t, hub.CA, cluster).Config(t, server.Addr()))

	// Controllers see a work that is not deleted: they report the same status, and the hub does not
	// send the deletion again. A later work shows that all events before it have arrived.
	agent.patch("app", applied(2), "status")
	onHub.create("later")
	agent.eventually("the agent receives a later work", "later", exists)
	if agent.deleting("app") || !onHub.deleting("app") {
		t.Errorf("deletion at the agent: %v, at the hub: %v", agent.deleting("app"), onHub.deleting("app"))
	}
}

// TestServerRepeatsErasedDeletion replays the issue on a server of this SDK. Its source repeats a
// deletion that the agent does not confirm.
func TestServerRepeatsErasedDeletion(t *testing.T) {
	hub := startOurHub(t, hubOptions{})
	agent := erase(t, side{t, hub}, ocmgrpc.AgentCredentials(t, hub.ca, cluster).Config(t, hub.Addr()))
	agent.eventually("the agent receives the deletion again", "app", deletion)
}

// theirs starts an agent client of the OCM SDK.
func theirs(t *testing.T, file string) (side, *slowStore) {
	t.Helper()
	_, config, err := ocmbuilder.NewConfigLoader("grpc", file).LoadConfig()
	if err != nil {
		t.Fatal(err)
	}
	store := &slowStore{AgentInformerWatcherStore: ocmstore.NewAgentInformerWatcherStore()}
	holder, err := ocmwork.NewAgentClientHolder(t.Context(), ocmoptions.NewGenericClientOptions(
		config, agentcodec.NewManifestBundleCodec(), cluster+"-agent").
		WithClusterName(cluster).WithClientWatcherStore(store))
	if err != nil {
		t.Fatal(err)
	}
	// Without a reader of its watch, the client blocks.
	factory := workinformers.NewSharedInformerFactory(holder.WorkInterface(), 0)
	informer := factory.Work().V1().ManifestWorks().Informer()
	factory.Start(t.Context().Done())
	if !cache.WaitForCacheSync(t.Context().Done(), informer.HasSynced) {
		t.Fatal("an informer did not sync")
	}
	return side{t, holder.WorkInterface().WorkV1().ManifestWorks(cluster)}, store
}

// TestPatchKeepsDeletion patches works on an agent of this SDK while their deletions arrive from a
// server of this SDK. An agent replaces only the object that the patch was made from, so no deletion
// is lost.
func TestPatchKeepsDeletion(t *testing.T) {
	const rounds, patchers, patches = 100, 4, 20
	hub := startOurHub(t, hubOptions{})
	credentials := ocmgrpc.AgentCredentials(t, hub.ca, cluster)
	transport, err := grpc.New(grpc.Options{Address: hub.Addr(),
		CAFile: credentials.CAFile, CertFile: credentials.CertFile, KeyFile: credentials.KeyFile})
	if err != nil {
		t.Fatal(err)
	}
	client, err := work.NewAgent(transport, work.AgentOptions{ClusterName: cluster, Profile: codec.ManifestBundle})
	if err != nil {
		t.Fatal(err)
	}
	e2etest.Background(t, client.Start)
	onHub, agent := side{t, hub}, side{t, client.Clientset().WorkV1().ManifestWorks(cluster)}
	for round := range rounds {
		name := fmt.Sprint("app-", round)
		onHub.create(name)
		agent.eventually("the agent receives the work", name, exists)
		agent.patch(name, []byte(addFinalizer))
		var running sync.WaitGroup
		for patcher := range patchers {
			running.Go(func() {
				for i := range patches {
					agent.patch(name, applied(patcher+patchers*i), "status")
				}
			})
		}
		onHub.delete(name)
		running.Wait()
		agent.eventually("the agent has the deletion", name, deletion)
		agent.patch(name, []byte(`{"metadata":{"finalizers":null}}`))
		e2etest.Eventually(t, "the hub's work is gone", func() error {
			if _, err := onHub.Get(t.Context(), name, metav1.GetOptions{}); !apierrors.IsNotFound(err) {
				return errors.Join(errors.New("it is not"), err)
			}
			return nil
		})
	}
}
