// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package e2e_test

import (
	"fmt"
	"testing"
	"time"

	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/spokewire/sdk-go/dynamicwatcher"
	"github.com/spokewire/sdk-go/internal/e2e/kube"
)

var consolidated = dynamicwatcher.Options{Consolidate: &dynamicwatcher.ConsolidateOptions{}}

// sharing returns the number of objects that share a watch.
func (w *watcher) sharing() int {
	n := 0
	for _, s := range w.Status() {
		if s.Consolidated {
			n++
		}
	}
	return n
}

// eventuallyShared waits until the given number of objects share a watch, and the API server serves
// the given number of single watches.
func (w *watcher) eventuallyShared(client *writer, shared, single int) {
	w.t.Helper()
	w.eventually(fmt.Sprintf("%d objects share a watch", shared), func() error {
		if got := w.sharing(); got != shared {
			return fmt.Errorf("there are %d", got)
		}
		return nil
	})
	client.eventuallySingleWatches("secrets", single)
}

// exactly changes a secret in each way, and expects one reconcile of its watcher for each change.
func (w *watcher) exactly(client *writer, i int) {
	w.t.Helper()
	ns, name, p := "default", fmt.Sprint("s", i), policyID("default", fmt.Sprint("p", i))
	n, all := w.count(p), w.total()
	client.setSecret(ns, name, fmt.Sprint("exactly ", n))
	w.eventuallyCount(p, n+1)
	client.deleteSecret(ns, name)
	w.eventuallyCount(p, n+2)
	if got := w.last(p); got != dynamicwatcher.TriggerDeleted {
		w.t.Errorf("the last reconcile is for %s", got)
	}
	client.setSecret(ns, name, "1")
	w.eventuallyCount(p, n+3)
	w.settled(all + 3)
}

// TestWatcherConsolidate runs the checks that count all watches of an API server. They use a
// separate API server, one after the other. The first check needs a namespace with few other
// objects.
func TestWatcherConsolidate(t *testing.T) {
	t.Parallel()
	cluster := kube.Start(t, kube.Options{})
	t.Run("Access", func(t *testing.T) { checkConsolidateAccess(t, cluster) })
	t.Run("Restart", func(t *testing.T) { checkConsolidateRestart(t, cluster) })
	t.Run("TooLarge", func(t *testing.T) { checkConsolidateTooLarge(t, cluster) })
}

// checkConsolidateRestart follows objects through the start of a shared watch, a killed API server,
// and the return to single watches.
func checkConsolidateRestart(t *testing.T, cluster *kube.Cluster) {
	const n = 100
	client := newWriter(t, cluster)
	createSecrets(client, "default", n)
	w := startWatcher(t, cluster.Config(), consolidated, nil)
	watchMany(w, "default", n)
	w.settled(n)
	w.eventuallyShared(client, n, 0)
	w.settled(n)
	if got := w.GetWatchCount(); got != n {
		t.Errorf("%d watched objects", got)
	}
	w.exactly(client, 7)

	absent := policyID("default", "absent")
	w.watch(absent, secretID("default", "absent"))
	w.eventuallyShared(client, n+1, 0)
	w.settled(n + 3)
	client.setSecret("default", "absent", "1")
	w.eventuallyCount(absent, 1)

	cluster.KillAPIServer()
	cluster.StartAPIServer()
	w.restarts()
	w.active()
	w.settled(n + 4)
	w.eventuallyShared(client, n+1, 0)
	w.exactly(client, 8)

	for i := 10; i < n; i++ {
		if err := w.RemoveWatcher(policyID("default", fmt.Sprint("p", i))); err != nil {
			t.Fatal(err)
		}
	}
	w.eventuallyShared(client, 0, 11)
	w.settled(n + 7)
	w.exactly(client, 9)
	w.stop()
}

// checkConsolidateAccess: rights to single objects are enough. New rights to the namespace are
// used, and lost rights do not affect the others.
func checkConsolidateAccess(t *testing.T, cluster *kube.Cluster) {
	const n = 40
	client := newWriter(t, cluster)
	createSecrets(client, "default", n)
	var names []string
	for i := range n {
		names = append(names, fmt.Sprint("s", i))
	}
	allow(t, client, "default", "narrow", names...)
	allow(t, client, "default", "wide") // all
	w := startWatcher(t, cluster.User("narrow"), consolidated, nil)
	watchMany(w, "default", n)
	w.settled(n)
	time.Sleep(2 * time.Second)
	w.eventuallyShared(client, 0, n)
	w.exactly(client, 1)
	w.stop()

	subject := rbacv1.Subject{Kind: rbacv1.UserKind, APIGroup: rbacv1.GroupName, Name: "narrow"}
	roles := client.RbacV1().RoleBindings("default")
	binding, err := roles.Get(t.Context(), "wide", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	binding.Subjects = []rbacv1.Subject{subject}
	if _, err := roles.Update(t.Context(), binding, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	config, g := gated(cluster.User("narrow"))
	time.Sleep(time.Second) // until the API server applies the change
	w = startWatcher(t, config, consolidated, nil)
	watchMany(w, "default", n)
	w.settled(n)
	w.eventuallyShared(client, n, 0)
	w.exactly(client, 2)
	if err := roles.Delete(t.Context(), "wide", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	time.Sleep(time.Second)
	g.cut() // the server continues watches that it has authorized
	w.eventuallyShared(client, 0, n)
	w.active()
	w.settled(n + 3)
	w.exactly(client, 3)
}

// checkConsolidateTooLarge: a namespace with many other objects keeps single watches.
func checkConsolidateTooLarge(t *testing.T, cluster *kube.Cluster) {
	client := newWriter(t, cluster)
	createSecrets(client, "default", 100)
	w := startWatcher(t, cluster.Config(),
		dynamicwatcher.Options{Consolidate: &dynamicwatcher.ConsolidateOptions{MinObjects: 10, MaxRatio: 2}}, nil)
	watchMany(w, "default", 20)
	w.settled(20)
	time.Sleep(2 * time.Second)
	w.eventuallyShared(client, 0, 20)
	for i := 20; i < 50; i++ {
		if err := w.AddWatcher(policyID("default", fmt.Sprint("p", i)), secretID("default", fmt.Sprint("s", i))); err != nil {
			t.Fatal(err)
		}
	}
	w.settled(50)
}
