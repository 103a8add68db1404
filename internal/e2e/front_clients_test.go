// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package e2e_test

import (
	"context"
	"encoding/json"
	"fmt"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"
	workv1 "open-cluster-management.io/api/work/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/spokewire/sdk-go/cloudevents/work"
	"github.com/spokewire/sdk-go/cloudevents/work/restconfig"
	"github.com/spokewire/sdk-go/internal/e2e/kube"
	"github.com/spokewire/sdk-go/internal/testing/mosquitto"
)

// clientRun is the run of a script on one kind of server. It writes the answers to the clients to a
// transcript, without the values that differ between runs.
type clientRun struct {
	*testing.T
	namespace  string
	hub, agent *rest.Config
	client     client.WithWatch // for hub
	transcript []string

	mu       sync.Mutex
	warnings []string
}

// clientScripts are run on an API server and on a source and an agent, with equal transcripts.
var clientScripts = map[string]func(*clientRun){
	"writes":     (*clientRun).writes,
	"validation": (*clientRun).validation,
	"apply":      (*clientRun).apply,
	"status":     (*clientRun).status,
	"caches":     (*clientRun).caches,
	"selected":   (*clientRun).selectedCaches,
	"metadata":   (*clientRun).metadataOnly,
	"dynamic":    (*clientRun).dynamicInformers,
	"typed":      (*clientRun).typedClientset,
	"discovery":  (*clientRun).discovery,
	"watches":    (*clientRun).watches,
}

// TestClientsRunUnchanged runs the clients of controller-runtime and client-go on an API server with
// the CRD, and on a source and an agent over Mosquitto.
func TestClientsRunUnchanged(t *testing.T) {
	t.Parallel()
	cluster := kube.Shared(t)
	admin, err := client.New(cluster.Config(), client.Options{Scheme: worksScheme})
	if err != nil {
		t.Fatal(err)
	}
	broker := mosquitto.Start(t, mosquitto.Options{})
	source, err := work.NewSource(transport(t, broker), work.SourceOptions{SourceID: "clients"})
	if err != nil {
		t.Fatal(err)
	}
	background(t, source.Start)
	if err := source.InventoryComplete(t.Context()); err != nil {
		t.Fatal(err)
	}
	for name, script := range clientScripts {
		ns := "clients-" + name
		t.Run(name, func(t *testing.T) {
			if err := admin.Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: ns}}); err != nil {
				t.Fatal(err)
			}
			agent, err := work.NewAgent(transport(t, broker), work.AgentOptions{ClusterName: ns, Sources: []string{"clients"}})
			if err != nil {
				t.Fatal(err)
			}
			background(t, agent.Start)
			fromSource, err := restconfig.FromSource(source)
			if err != nil {
				t.Fatal(err)
			}
			fromAgent, err := restconfig.FromAgent(agent)
			if err != nil {
				t.Fatal(err)
			}
			finishDeletions(t, fromAgent)
			want := runClients(t, ns, cluster.Config(), cluster.Config(), script)
			got := runClients(t, ns, fromSource, fromAgent, script)
			if len(want) == 0 {
				t.Fatal("the script has no transcript")
			}
			if diff := cmp.Diff(strings.Join(want, "\n"), strings.Join(got, "\n")); diff != "" {
				t.Errorf("the source differs from the API server (-apiserver +source):\n%s", diff)
			}
		})
	}
}

// finishDeletions runs a work controller that only completes the deletion of works. A work that is
// deleted at once arrives with a finalizer: the agent does not know whether it was applied.
func finishDeletions(t *testing.T, agent *rest.Config) {
	t.Helper()
	mgr, err := ctrl.NewManager(agent, managerOptions())
	if err != nil {
		t.Fatal(err)
	}
	if err := ctrl.NewControllerManagedBy(mgr).Named("finisher").For(&workv1.ManifestWork{}).Complete(reconcile.Func(
		func(ctx context.Context, r ctrl.Request) (ctrl.Result, error) {
			var w workv1.ManifestWork
			err := mgr.GetClient().Get(ctx, r.NamespacedName, &w)
			if err == nil && w.DeletionTimestamp != nil && controllerutil.RemoveFinalizer(&w, workv1.ManifestWorkFinalizer) {
				err = mgr.GetClient().Update(ctx, &w)
			}
			return ctrl.Result{}, client.IgnoreNotFound(err)
		})); err != nil {
		t.Fatal(err)
	}
	background(t, mgr.Start)
}

func runClients(t *testing.T, namespace string, hub, agent *rest.Config, script func(*clientRun)) []string {
	t.Helper()
	r := &clientRun{T: t, namespace: namespace, hub: hub, agent: agent}
	hub.WarningHandlerWithContext = r
	var err error
	if r.client, err = client.NewWithWatch(hub, client.Options{Scheme: worksScheme}); err != nil {
		t.Fatal(err)
	}
	script(r)
	return r.transcript
}

// HandleWarningHeaderWithContext implements [rest.WarningHandlerWithContext].
func (r *clientRun) HandleWarningHeaderWithContext(_ context.Context, code int, _ string, text string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.warnings = append(r.warnings, fmt.Sprintf("warning %d %s", code, text))
}

// varying are values that differ between two runs.
var varying = regexp.MustCompile(`[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}|\d{4}-\d\d-\d\dT[0-9:.]+Z|\b\d{3,}\b`)

// log adds a line to the transcript, with the warnings since the last line.
func (r *clientRun) log(format string, args ...any) {
	line := varying.ReplaceAllString(fmt.Sprintf(format, args...), "*")
	r.mu.Lock()
	defer r.mu.Unlock()
	r.transcript = append(append(r.transcript, line), r.warnings...)
	r.warnings = nil
}

// must ends the test if a step fails that every server must accept.
func (r *clientRun) must(err error) {
	r.Helper()
	if err != nil {
		r.Fatal(err)
	}
}

// outcome adds the result of a request to the transcript.
func (r *clientRun) outcome(what string, err error) {
	if err == nil {
		r.log("%s: ok", what)
		return
	}
	r.log("%s: %s: %v", what, apierrors.ReasonForError(err), err)
}

// show adds an object to the transcript.
func (r *clientRun) show(what string, obj client.Object) {
	r.Helper()
	if reflect.ValueOf(obj).IsNil() {
		r.Fatalf("%s: there is no object after %q", what, r.transcript)
	}
	if in, ok := obj.(*unstructured.Unstructured); ok { // a source does not keep empty members
		obj = &workv1.ManifestWork{}
		r.must(runtime.DefaultUnstructuredConverter.FromUnstructured(in.Object, obj))
	}
	content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(obj)
	r.must(err)
	u := &unstructured.Unstructured{Object: content}
	managed := u.GetManagedFields() // in the order of their times
	slices.SortFunc(managed, func(a, b metav1.ManagedFieldsEntry) int { return strings.Compare(a.Manager, b.Manager) })
	for _, fields := range managed {
		r.log("%s %s has fields of %s %s %s", what, u.GetName(), fields.Manager, fields.Operation, fields.Subresource)
	}
	for _, volatile := range []string{"uid", "resourceVersion", "creationTimestamp", "managedFields"} {
		unstructured.RemoveNestedField(u.Object, "metadata", volatile)
	}
	// Each side of a source has finalizers of its own, and the source adds one to deleted works.
	u.SetFinalizers(slices.DeleteFunc(u.GetFinalizers(), func(f string) bool { return f == workv1.ManifestWorkFinalizer }))
	delete(u.Object, "apiVersion") // some clients set the kind, depending on the request before
	delete(u.Object, "kind")
	text, err := json.Marshal(u.Object)
	r.must(err)
	r.log("%s: %s", what, text)
}

// work returns a work with one manifest.
func (r *clientRun) work(name string) *workv1.ManifestWork {
	return &workv1.ManifestWork{
		ObjectMeta: metav1.ObjectMeta{Namespace: r.namespace, Name: name},
		Spec:       spec(`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"a","namespace":"default"}}`),
	}
}

// live returns the object that the server has.
func (r *clientRun) live(name string) *workv1.ManifestWork {
	r.Helper()
	w := r.work(name)
	r.must(r.client.Get(r.Context(), client.ObjectKeyFromObject(w), w))
	return w
}

// names returns the sorted names of the objects of a list.
func names[T any, P interface {
	*T
	client.Object
}](items []T) string {
	var out []string
	for i := range items {
		out = append(out, P(&items[i]).GetName())
	}
	slices.Sort(out)
	return strings.Join(out, " ")
}

// clear deletes all works and waits until they are gone.
func (r *clientRun) clear() {
	r.Helper()
	r.must(r.client.DeleteAllOf(r.Context(), &workv1.ManifestWork{}, client.InNamespace(r.namespace)))
	eventually(r.T, "all works gone", func() error {
		var list workv1.ManifestWorkList
		if err := r.client.List(r.Context(), &list, client.InNamespace(r.namespace)); err != nil {
			return err
		}
		if len(list.Items) > 0 {
			w := list.Items[0]
			return fmt.Errorf("%d works: %s deletion %v finalizers %v", len(list.Items), w.Name, w.DeletionTimestamp,
				w.Finalizers)
		}
		return nil
	})
}
