// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package ocmgrpc

import (
	"errors"
	"fmt"
	"sync"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	worktyped "open-cluster-management.io/api/client/work/clientset/versioned/typed/work/v1"
	workv1 "open-cluster-management.io/api/work/v1"

	"github.com/spokewire/sdk-go/internal/e2e/e2etest"
	"github.com/spokewire/sdk-go/internal/testing/daemon"
)

// Namespace is the namespace of the objects that the works of [Steps] apply.
const Namespace = "shop"

// Steps are the steps that each pair of a hub and an agent must pass: create, update, status,
// delete, deletions while the agent is away, a cut and a stall of each link, kills of the server during
// each kind of change, and a frozen agent and server. In each step no work is lost, and no object stays
// behind.
type Steps struct {
	Works   worktyped.ManifestWorkInterface // of the cluster, on the hub
	Managed *Cluster
	Server  *Server
	Start   func() *daemon.Daemon // starts the agent, which connects to the server's link
	Slow    bool                  // the agent may need minutes to connect again, unless it is started again
	More    int                   // works that exist during all steps

	t     testing.TB
	agent *daemon.Daemon
}

// Run runs all steps.
func (s Steps) Run(t *testing.T) {
	t.Helper()
	s.t = t
	s.agent = s.Start()
	defer func() { s.agent.Kill() }()
	var more []string
	for i := range s.More {
		more = append(more, fmt.Sprintf("more%d", i))
	}
	s.create(more...)
	s.applied(1, more...)
	for _, step := range []struct {
		name string
		run  func()
	}{
		{"create, update and delete", s.ordinary},
		{"the agent is away", s.away},
		{"the link is cut", s.cut},
		{"the link stalls", s.stalled},
		{"the server is killed", s.killed},
		{"the agent is frozen", s.frozenAgent},
		{"the server is frozen", s.frozenServer},
	} {
		step.run()
		if t.Failed() {
			t.Fatalf("%s: failed", step.name)
		}
		t.Logf("%s: passed", step.name)
	}
	s.applied(1, more...)
	more = append(more, "a", "i")
	s.delete(more...)
	s.gone(more...)
	s.empty()
}

// restartAgent kills the agent and starts it again.
func (s *Steps) restartAgent() {
	s.t.Helper()
	s.agent.Kill()
	s.agent = s.Start()
}

// settle starts a slow agent again, after the server was restarted.
func (s *Steps) settle() {
	if s.Slow {
		s.restartAgent()
	}
}

func (s *Steps) ordinary() {
	s.create("a", "b", "c")
	s.applied(1, "a", "b", "c")
	s.update(2, "a", "b", "c")
	s.applied(2, "a", "b", "c")
	s.delete("b")
	s.gone("b")
	s.applied(2, "a", "c")
}

func (s *Steps) away() {
	s.agent.Kill()
	s.create("d")
	s.update(3, "a")
	s.delete("c")
	s.agent = s.Start()
	s.applied(3, "a")
	s.applied(1, "d")
	s.gone("c")
}

func (s *Steps) cut() {
	s.Server.Link.Block()
	s.Server.Link.Cut()
	s.create("e")
	s.update(4, "a")
	s.delete("d")
	s.Server.Link.Unblock()
	s.applied(4, "a")
	s.applied(1, "e")
	s.gone("d")
}

func (s *Steps) stalled() {
	s.Server.Link.Stall()
	s.create("g")
	s.update(5, "a")
	s.delete("e")
	s.Server.Link.Resume()
	s.applied(5, "a")
	s.applied(1, "g")
	s.gone("e")
}

func (s *Steps) killed() {
	s.duringRestart(func() { s.create("f") })
	s.value(1, "f")
	s.Server.Restart() // it may have the status or not
	s.settle()
	s.applied(1, "f")
	s.duringRestart(func() { s.update(6, "a", "f") })
	s.settle()
	s.applied(6, "a", "f")
	s.duringRestart(func() { s.delete("g") })
	s.settle()
	s.gone("g")
	s.agent.Kill()
	s.duringRestart(func() { s.delete("f") })
	s.agent = s.Start()
	s.gone("f")
	s.applied(6, "a")
}

// duringRestart makes a change while the server is killed and starts again.
func (s *Steps) duringRestart(change func()) {
	s.t.Helper()
	var restart sync.WaitGroup
	restart.Go(s.Server.Restart)
	change()
	restart.Wait()
}

func (s *Steps) frozenAgent() {
	s.create("h")
	s.applied(1, "h")
	s.agent.Freeze()
	s.create("i")
	s.update(7, "a")
	s.delete("h")
	s.agent.Thaw()
	s.applied(7, "a")
	s.applied(1, "i")
	s.gone("h")
}

// frozenServer lets the agent connect to a server that does not answer.
func (s *Steps) frozenServer() {
	s.create("j")
	s.applied(1, "j")
	s.update(8, "a")
	s.delete("j")
	s.Server.Freeze()
	s.Server.Link.Cut()
	e2etest.Eventually(s.t, "the agent connects", func() error {
		if s.Server.Link.Links() == 0 {
			return errors.New("no connection")
		}
		return nil
	})
	s.Server.Thaw()
	s.settle()
	s.applied(8, "a")
	s.gone("j")
}

// create creates works with one ConfigMap each. Like update and delete, it tries again while the
// server restarts, which may have the effect of an earlier attempt.
func (s *Steps) create(names ...string) {
	s.t.Helper()
	for _, name := range names {
		s.createWith(name, 1)
	}
}

func (s *Steps) createWith(name string, value int) {
	s.t.Helper()
	e2etest.Eventually(s.t, "create "+name, func() error {
		work := &workv1.ManifestWork{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: spec(name, value)}
		_, err := s.Works.Create(s.t.Context(), work, metav1.CreateOptions{})
		if apierrors.IsAlreadyExists(err) {
			return nil
		}
		return err
	})
}

// update sets the value of the ConfigMaps.
func (s *Steps) update(value int, names ...string) {
	s.t.Helper()
	for _, name := range names {
		e2etest.Eventually(s.t, "update "+name, func() error {
			work, err := s.Works.Get(s.t.Context(), name, metav1.GetOptions{})
			if err != nil {
				return err
			}
			work.Spec = spec(name, value)
			_, err = s.Works.Update(s.t.Context(), work, metav1.UpdateOptions{})
			return err // a conflict with the hub's own update
		})
	}
}

func (s *Steps) delete(names ...string) {
	s.t.Helper()
	for _, name := range names {
		e2etest.Eventually(s.t, "delete "+name, func() error {
			err := s.Works.Delete(s.t.Context(), name, metav1.DeleteOptions{})
			if apierrors.IsNotFound(err) {
				return nil
			}
			return err
		})
	}
}

// value waits until the ConfigMaps have the value.
func (s *Steps) value(value int, names ...string) {
	s.t.Helper()
	for _, name := range names {
		e2etest.Eventually(s.t, fmt.Sprintf("%s has the value %d", name, value), func() error {
			values, err := s.Managed.Values()
			if got := values[name]; err == nil && got != fmt.Sprint(value) {
				err = fmt.Errorf("the value is %q", got)
			}
			return err
		})
	}
}

// applied waits until the ConfigMaps have the value, and the hub has a status of the works' last
// generation.
func (s *Steps) applied(value int, names ...string) {
	s.t.Helper()
	s.value(value, names...)
	for _, name := range names {
		e2etest.Eventually(s.t, "the status of "+name, func() error {
			work, err := s.Works.Get(s.t.Context(), name, metav1.GetOptions{})
			if err != nil {
				return err
			}
			for _, kind := range []string{workv1.WorkApplied, workv1.WorkAvailable} {
				c := meta.FindStatusCondition(work.Status.Conditions, kind)
				if c == nil || c.Status != metav1.ConditionTrue || c.ObservedGeneration != work.Generation {
					return fmt.Errorf("generation %d has the conditions %v", work.Generation, work.Status.Conditions)
				}
			}
			return nil
		})
	}
}

// gone waits until the works and their ConfigMaps are deleted.
func (s *Steps) gone(names ...string) {
	s.t.Helper()
	for _, name := range names {
		e2etest.Eventually(s.t, name+" is deleted", func() error {
			if work, err := s.Works.Get(s.t.Context(), name, metav1.GetOptions{}); !apierrors.IsNotFound(err) {
				return fmt.Errorf("the hub has %v, %w", work, err)
			}
			values, err := s.Managed.Values()
			if value, exists := values[name]; err == nil && exists {
				return fmt.Errorf("the ConfigMap has the value %s", value)
			}
			return err
		})
	}
}

// empty fails the test if a ConfigMap remains that no work has.
func (s *Steps) empty() {
	s.t.Helper()
	if values, err := s.Managed.Values(); err != nil || len(values) != 0 {
		s.t.Errorf("objects without works: %v, %v", values, err)
	}
}

// spec returns a work's spec with one ConfigMap.
func spec(name string, value int) (spec workv1.ManifestWorkSpec) {
	text := fmt.Sprintf(`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":%q,`+
		`"namespace":%q},"data":{"value":"%d"}}`,
		name, Namespace, value)
	spec.Workload.Manifests = []workv1.Manifest{{RawExtension: runtime.RawExtension{Raw: []byte(text)}}}
	return spec
}
