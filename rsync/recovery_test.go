// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package rsync_test

import (
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"

	"github.com/spokewire/sdk-go/rsync"
	"github.com/spokewire/sdk-go/rsync/connector"
	"github.com/spokewire/sdk-go/rsync/connector/fake"
)

// failing makes a cluster refuse a verb.
func failing(c *fake.Cluster, verb fake.Verb) {
	c.Intercept(func(v fake.Verb, _ connector.Batch) error {
		if v == verb {
			return &connector.Error{Class: connector.ErrTerminal, Err: errors.New("denied")}
		}
		return nil
	})
}

// TestRecovery: after an update that failed in either phase or was stopped, each next event is
// possible. It leaves exactly the objects of the context that it leads to.
func TestRecovery(t *testing.T) {
	const (
		good = "web@c1 x=1 old=1; web@c2 x=1 same=1"
		bad  = "web@c1 x=2 new=2; web@c2 x=2 same=1"
		next = "web@c1 x=1 z=3; db@c2 same=1"
	)
	causes := map[string]func(s *scene){
		"first phase": func(s *scene) {
			failing(s.clusters.Cluster("edge", "c2"), fake.VerbApply)
			s.fails(rsync.ReasonRefused, s.ref(s.engine.Update(s.t.Context(), "good", "bad")), nil)
			s.state("bad", rsync.InstantiateFailed)
		},
		"second phase": func(s *scene) {
			failing(s.clusters.Cluster("edge", "c1"), fake.VerbDelete)
			s.fails(rsync.ReasonRefused, s.ref(s.engine.Update(s.t.Context(), "good", "bad")), nil)
			s.state("good", rsync.UpdateFailed)
		},
		"stopped": func(s *scene) {
			s.clusters.Cluster("edge", "c2").SetMode(fake.ModeUnreachable)
			s.ref(s.engine.Update(s.t.Context(), "good", "bad"))
			time.Sleep(time.Minute)
			s.halt("good", "bad")
			s.state("bad", rsync.InstantiateFailed)
		},
		"rollback failed too": func(s *scene) {
			failing(s.clusters.Cluster("edge", "c2"), fake.VerbApply)
			s.fails(rsync.ReasonRefused, s.ref(s.engine.Update(s.t.Context(), "good", "bad")), nil)
			s.fails(rsync.ReasonRefused, s.ref(s.engine.Rollback(s.t.Context(), "bad", "good")), nil)
			s.state("good", rsync.InstantiateFailed)
		},
	}
	ways := map[string]struct {
		act  func(s *scene)
		last string
	}{
		"again":           {func(s *scene) { s.done(s.engine.Update(s.t.Context(), "good", "bad")) }, "bad"},
		"rollback":        {func(s *scene) { s.done(s.engine.Rollback(s.t.Context(), "bad", "good")) }, "good"},
		"forward":         {func(s *scene) { s.done(s.engine.Update(s.t.Context(), "bad", "next")) }, "next"},
		"forward of good": {func(s *scene) { s.done(s.engine.Update(s.t.Context(), "good", "next")) }, "next"},
		"terminate": {func(s *scene) {
			s.done(s.engine.Terminate(s.t.Context(), "bad"))
			s.done(s.engine.Terminate(s.t.Context(), "good"))
		}, ""},
		"terminate the other one first": {func(s *scene) {
			s.done(s.engine.Terminate(s.t.Context(), "good"))
			s.done(s.engine.Terminate(s.t.Context(), "bad"))
		}, ""},
	}
	want := map[string][2]string{
		"good": {"old=1 x=1", "same=1 x=1"}, "bad": {"new=2 x=2", "same=1 x=2"}, "next": {"x=1 z=3", "same=1"},
	}
	for cause, fail := range causes {
		for way, w := range ways {
			t.Run(cause+", "+way, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					s := newScene(t, nil, rsync.Options{})
					s.create("good", good)
					s.create("bad", bad)
					s.create("next", next)
					s.done(s.engine.Instantiate(t.Context(), "good"))
					fail(s)
					for _, c := range []string{"c1", "c2"} {
						s.clusters.Cluster("edge", c).Intercept(nil)
						s.clusters.Cluster("edge", c).SetMode(fake.ModeWorks)
					}
					w.act(s)
					s.shows("c1", want[w.last][0])
					s.shows("c2", want[w.last][1])
					if w.last == "" {
						return
					}
					s.state(w.last, rsync.Instantiated)
					s.done(s.engine.Terminate(t.Context(), w.last))
					s.shows("c1", "")
					s.shows("c2", "")
				})
			})
		}
	}
}

// TestAbandonedUpdate: after a failed update and a Terminate of the new context, the objects have
// the manifests of the earlier context.
func TestAbandonedUpdate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newScene(t, nil, rsync.Options{})
		s.create("good", "web@c1 x=1; web@c2 x=1")
		s.create("bad", "web@c1 x=2 new=1; web@c2 x=2")
		s.done(s.engine.Instantiate(t.Context(), "good"))
		failing(s.clusters.Cluster("edge", "c2"), fake.VerbApply)
		s.fails(rsync.ReasonRefused, s.ref(s.engine.Update(t.Context(), "good", "bad")), nil)
		s.shows("c1", "new=1 x=2")
		s.clusters.Cluster("edge", "c2").Intercept(nil)
		s.done(s.engine.Terminate(t.Context(), "bad"))
		s.shows("c1", "x=1")
		s.shows("c2", "x=1")
		s.state("good", rsync.Instantiated)
	})
}

// TestTerminateBetweenFailedUpdates: the updates from a to b and from b to c fail, and b is
// terminated. An update from a or c then replaces both contexts.
func TestTerminateBetweenFailedUpdates(t *testing.T) {
	for _, from := range []string{"a", "c"} {
		t.Run(from, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newScene(t, nil, rsync.Options{})
				s.create("a", "web@c1 a=1; web@c2 x=1")
				s.create("b", "web@c1 b=1; web@c2 x=2")
				s.create("c", "web@c1 c=1; web@c2 x=3")
				s.create("d", "web@c1 d=1; web@c2 x=4")
				s.done(s.engine.Instantiate(t.Context(), "a"))
				failing(s.clusters.Cluster("edge", "c2"), fake.VerbApply)
				s.fails(rsync.ReasonRefused, s.ref(s.engine.Update(t.Context(), "a", "b")), nil)
				s.fails(rsync.ReasonRefused, s.ref(s.engine.Update(t.Context(), "b", "c")), nil)
				s.clusters.Cluster("edge", "c2").Intercept(nil)
				s.done(s.engine.Terminate(t.Context(), "b"))
				s.shows("c1", "a=1 c=1")
				s.done(s.engine.Update(t.Context(), from, "d"))
				s.shows("c1", "d=1")
				s.shows("c2", "x=4")
			})
		})
	}
}

// TestWaitIncludesReplacedContexts: Wait on an update returns after the objects of all replaced
// contexts are deleted.
func TestWaitIncludesReplacedContexts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newScene(t, nil, rsync.Options{})
		s.create("good", "web@c1 old=1")
		s.create("bad", "web@c2 x=2")
		s.create("next", "web@c2 x=3")
		s.done(s.engine.Instantiate(t.Context(), "good"))
		failing(s.clusters.Cluster("edge", "c2"), fake.VerbApply)
		s.fails(rsync.ReasonRefused, s.ref(s.engine.Update(t.Context(), "good", "bad")), nil)
		s.clusters.Cluster("edge", "c2").Intercept(nil)
		s.clusters.Cluster("edge", "c1").SetDelay(time.Minute / 2)
		s.done(s.engine.Update(t.Context(), "bad", "next"))
		s.shows("c1", "")
		s.state("good", rsync.Updated)
		s.state("bad", rsync.Updated)
	})
}

// TestRandomRecovery: random updates run among random contexts, with refusals in either phase,
// stops, crashes and Terminates. One more update, from any remaining context to another context,
// leaves exactly the objects of that context. After all contexts are terminated, no object exists.
func TestRandomRecovery(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(rt *rapid.T) {
		n := rapid.IntRange(2, 5).Draw(rt, "contexts")
		texts := make([]string, n)
		wants := make([]map[string]string, n)
		for i := range texts {
			texts[i], wants[i] = drawText(rt)
		}
		type try struct {
			From, To, Cluster int
			How               string
		}
		tries := rapid.SliceOfN(rapid.Custom(func(t *rapid.T) try {
			return try{
				rapid.IntRange(0, n-1).Draw(t, "from"), rapid.IntRange(0, n-1).Draw(t, "to"),
				rapid.IntRange(0, 2).Draw(t, "cluster"),
				rapid.SampledFrom([]string{"apply", "delete", "stop", "crash", "works", "terminate"}).Draw(t, "how"),
			}
		}), 1, 6).Draw(rt, "tries")
		last := rapid.IntRange(0, n-1).Draw(rt, "last")
		pick := rapid.IntRange(0, n-1).Draw(rt, "pick")
		synctest.Test(t, func(t *testing.T) {
			w := newWorld(t, texts)
			defer w.stop()
			w.done(w.engine.Instantiate(t.Context(), w.ids[0]))
			for _, try := range tries {
				left := w.leftOver()
				if len(left) == 0 {
					break
				}
				from, to := left[try.From%len(left)], w.ids[try.To]
				if from == to {
					continue
				}
				if try.How == "terminate" {
					if len(left) > 1 {
						w.done(w.engine.Terminate(t.Context(), from))
					}
					continue
				}
				c := w.clusters.Cluster("edge", fmt.Sprint("c", try.Cluster))
				switch try.How {
				case "apply":
					failing(c, fake.VerbApply)
				case "delete":
					failing(c, fake.VerbDelete)
				case "stop":
					c.SetMode(fake.ModeUnreachable)
				}
				ref := w.ref(w.engine.Update(t.Context(), from, to))
				if try.How == "crash" {
					time.Sleep(time.Millisecond)
					w.kill()
					w.start()
				}
				time.Sleep(time.Minute)
				if try.How == "stop" {
					w.halt(w.ids...)
				}
				_, _ = w.wait(ref, nil)
				time.Sleep(time.Minute)
				c.Intercept(nil)
				c.SetMode(fake.ModeWorks)
			}
			if left := w.leftOver(); len(left) > 0 && left[pick%len(left)] != w.ids[last] {
				w.done(w.engine.Update(t.Context(), left[pick%len(left)], w.ids[last]))
				for c := range 3 {
					cluster := fmt.Sprint("c", c)
					w.shows(cluster, wants[last][cluster])
				}
				for i, id := range w.ids {
					switch state := w.status(id).State; state {
					case rsync.Created, rsync.Updated, rsync.Terminated:
					default:
						if i != last {
							t.Errorf("%s is %s", id, state)
						}
					}
				}
			}
			w.terminateAll()
			if t.Failed() {
				t.Logf("contexts %q, tries %+v, then from %d to %d", texts, tries, pick, last)
			}
		})
		if t.Failed() {
			rt.FailNow()
		}
	})
}

// leftOver returns the contexts from which an update can begin.
func (w *world) leftOver() []string {
	var out []string
	for _, id := range w.ids {
		switch w.status(id).State {
		case rsync.Instantiated, rsync.InstantiateFailed, rsync.UpdateFailed:
			out = append(out, id)
		}
	}
	return out
}

// TestTerminateRightAfterUpdate: the new context of an update ends before the replaced context
// begins its UpdateDelete. The UpdateDelete then deletes all objects. A hook of both contexts runs
// once.
func TestTerminateRightAfterUpdate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newScene(t, nil, rsync.Options{})
		s.create("a", "web@c1 x=1 old=1 pre-delete!bye=1; db@c2 y=1")
		s.create("b", "web@c1 x=1 new=1 pre-delete!bye=1; db@c2 y=2")
		s.done(s.engine.Instantiate(t.Context(), "a"))
		c := s.clusters.Cluster("edge", "c1")
		c.Forget()
		s.clusters.Cluster("edge", "c2").Intercept(func(v fake.Verb, _ connector.Batch) error {
			if v == fake.VerbGet {
				time.Sleep(30 * time.Second)
			}
			return nil
		})
		s.ref(s.engine.Read(t.Context(), "a"))
		time.Sleep(time.Second)
		update := s.ref(s.engine.Update(t.Context(), "a", "b"))
		time.Sleep(time.Second)
		s.done(s.engine.Terminate(t.Context(), "b"))
		s.state("b", rsync.Terminated)
		s.done(update, nil)
		s.state("a", rsync.Updated)
		s.shows("c1", "")
		s.shows("c2", "")
		if got, want := s.verbs("c1"), "Apply new, Apply bye, Delete new, Delete bye, Delete old, Delete x"; got != want {
			t.Errorf("it did %q, want %q", got, want)
		}
	})
}
