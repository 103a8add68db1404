// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package rsync_test

import (
	"fmt"
	"net/http"
	"os/exec"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/spokewire/sdk-go/rsync"
	"github.com/spokewire/sdk-go/rsync/appcontext"
)

// create stores the two contexts of the story. The update changes a hook and an object, moves an
// object to another app, adds and removes an object, and adds an app.
func (s *story) create() {
	s.t.Helper()
	for id, build := range map[string]func(b *appcontext.Builder, on appcontext.ClusterID){
		"v1": func(b *appcontext.Builder, on appcontext.ClusterID) {
			storyApp(b.App("db"), on, map[appcontext.Hook][]string{appcontext.HookPreInstall: {"migrate", "1"}}, "db", "1",
				"shared", "1")
			storyApp(b.App("web"), on, map[appcontext.Hook][]string{appcontext.HookPostInstall: {"check", "1"},
				appcontext.HookPreDelete: {"farewell", "1"}}, "web", "1", "old", "1")
		},
		"v2": func(b *appcontext.Builder, on appcontext.ClusterID) {
			storyApp(b.App("db"), on, map[appcontext.Hook][]string{appcontext.HookPreInstall: {"migrate", "2"}}, "db", "1")
			storyApp(b.App("web"), on, map[appcontext.Hook][]string{appcontext.HookPostInstall: {"check", "2"},
				appcontext.HookPreDelete: {"farewell", "2"}}, "web", "2", "shared", "2", "new", "2")
			storyApp(b.App("cache"), on, map[appcontext.Hook][]string{appcontext.HookPreDelete: {"flush", "2"}}, "cache", "2")
		},
	} {
		b := appcontext.NewBuilder(id)
		for _, on := range storyOn {
			build(b, on)
		}
		b.App("web").DependsOn("db", appcontext.OpStatusReady, 0)
		if id == "v2" {
			b.App("cache").DependsOn("web", appcontext.OpStatusDeployed, 0)
		}
		c, err := b.Build()
		if err == nil {
			err = s.client.Create(s.t.Context(), c)
		}
		if err != nil {
			s.t.Fatal(err)
		}
	}
}

// storyApp adds objects, each as a name and a value.
func storyApp(
	app *appcontext.AppBuilder, on appcontext.ClusterID, hooks map[appcontext.Hook][]string, objects ...string,
) {
	for i := 0; i < len(objects); i += 2 {
		app.Resource(on.Provider, on.Name, []byte(storyManifest(objects[i], objects[i+1])))
	}
	for hook, object := range hooks {
		app.Hook(hook, on.Provider, on.Name, []byte(storyManifest(object[0], object[1])))
	}
}

// TestStory is the life of a context on three clusters: an API server, a git repository, and an
// agent behind a broker that applies works to another API server. In each step the engine is killed
// several times during a request, and one of the three clusters is unreachable for a while. Each
// step ends with exactly the expected objects. No visible change is made twice, and nothing is left
// at the end.
func TestStory(t *testing.T) {
	t.Parallel()
	s := newStory(t)
	s.create()
	s.expect("create", want{})
	s.instantiate()
	s.update()
	s.rollback()
	s.terminate()
	s.end()
	s.newcomer()
	s.stop()
}

func (s *story) instantiate() {
	kill := s.engine.restart
	s.kube.gate.set("the first apply", unsent, request(http.MethodPatch, "migrate"), kill)
	s.kube.gate.set("the apply of check", unanswered, request(http.MethodPatch, "check"), kill)
	s.gitGate.set("the second push", unanswered, push(2), kill)
	s.work.gate.set("the agent's second object", beside, creation(2), kill)
	ref, err := s.client.Instantiate(s.t.Context(), "v1")
	s.done("instantiate", ref, err)
	s.expect("instantiate", atV1(4))
	s.reaches("instantiate", "v1", everywhere("Instantiate Done", "db", "web"))
}

// atV1 returns the expected state of the first context, after a number of commits.
func atV1(commits int) want {
	return want{
		objects: "migrate=1 db=1 shared=1 web=1 old=1 check=1", commits: commits,
		works: map[string]string{"v1/db": "db migrate shared", "v1/web": "check old web"},
	}
}

// update continues while the API server is unreachable. The other clusters have all new objects,
// and nothing is deleted before the API server has them too.
func (s *story) update() {
	const step = "update"
	before := s.uids()
	s.kubeProxy.Block()
	s.kubeProxy.Cut()
	ref, err := s.client.Update(s.t.Context(), "v1", "v2")
	if err != nil {
		s.t.Fatal(err)
	}
	half := but(everywhere("Update Done", "db", "web", "cache"), "db on kube+c1", "Update Retrying Unreachable",
		"web on kube+c1", "", "cache on kube+c1", "")
	halfway := want{
		objects: "migrate=2 db=1 shared=2 web=2 old=1 check=2 new=2 cache=2", commits: 8,
		works: map[string]string{"v1/db": "db migrate shared", "v1/web": "check old web", "v2/web": "new",
			"v2/cache": "cache"},
	}
	for _, when := range []string{"", ", and the engine killed"} {
		s.reaches(step+" with a cluster away"+when, "v2", half)
		s.reaches(step+" with a cluster away"+when, "v1", everywhere("Instantiate Done", "db", "web"))
		s.expectOn(step+" with a cluster away"+when, halfway, onGit, onWork)
		s.expectOn(step+" with a cluster away"+when, atV1(0), onKube)
		if when == "" {
			s.engine.restart()
		}
	}
	s.kube.gate.set("the apply of what moves", unanswered, request(http.MethodPatch, "shared"), s.engine.restart)
	s.gitGate.set("the push that deletes", unsent, push(1), s.engine.restart)
	s.kubeProxy.Unblock()
	s.done(step, ref, nil)
	s.expect(step, want{
		objects: "migrate=2 db=1 shared=2 web=2 check=2 new=2 cache=2", commits: 9,
		works: map[string]string{"v1/db": "db migrate shared", "v1/web": "check web", "v2/web": "new", "v2/cache": "cache"},
	})
	s.reaches(step, "v2", everywhere("Update Done", "db", "web", "cache"))
	s.reaches(step, "v1", but(everywhere("UpdateDelete Done", "web"), all(everywhere("UpdateDelete Skipped", "db"))...))
	s.kept(step, before, "migrate", "db", "shared", "web", "check")
}

// all returns the entries of a map as pairs.
func all(m map[string]string) (pairs []string) {
	for key, value := range m {
		pairs = append(pairs, key, value)
	}
	return pairs
}

// rollback continues while the broker is down.
func (s *story) rollback() {
	const step = "rollback"
	before := s.uids()
	s.broker.Kill()
	ref, err := s.client.Rollback(s.t.Context(), "v2", "v1")
	if err != nil {
		s.t.Fatal(err)
	}
	half := but(everywhere("Update Done", "db", "web"), "db on work+c3", "Update Retrying Unreachable", "web on work+c3",
		"UpdateDelete Done")
	for _, when := range []string{"", ", and the engine killed"} {
		s.reaches(step+" without a broker"+when, "v1", half)
		if when == "" {
			s.engine.restart()
		}
	}
	s.expectOn(step+" without a broker", want{objects: "migrate=1 db=1 shared=1 web=1 old=1 check=1 new=2 cache=2",
		commits: 13}, onKube, onGit)
	s.work.gate.set("the agent's change of web", beside, request(http.MethodPatch, "web"), s.engine.restart)
	s.kube.gate.set("the deletion of cache", unsent, request(http.MethodDelete, "cache"), s.engine.restart)
	s.broker.Restart()
	s.done(step, ref, nil)
	s.expect(step, atV1(17))
	s.reaches(step, "v1", everywhere("Update Done", "db", "web"))
	s.reaches(step, "v2",
		but(everywhere("UpdateDelete Done", "web", "cache"), all(everywhere("UpdateDelete Skipped", "db"))...))
	s.kept(step, before, "migrate", "db", "shared", "web", "check")
}

// terminate continues while git is unreachable.
func (s *story) terminate() {
	const step = "terminate"
	s.gitProxy.Block()
	s.gitProxy.Cut()
	s.kube.gate.set("the deletion of web", unanswered, request(http.MethodDelete, "web"), s.engine.restart)
	s.work.gate.set("the agent's deletion of db", beside, request(http.MethodDelete, "db"), s.engine.restart)
	ref, err := s.client.Terminate(s.t.Context(), "v1")
	if err != nil {
		s.t.Fatal(err)
	}
	half := but(everywhere("Terminate Done", "db", "web"), "web on git+c2", "Terminate Retrying Unreachable",
		"db on git+c2", "Update Done")
	s.reaches(step+" without git", "v1", half)
	s.expectOn(step+" without git", want{}, onKube, onWork)
	s.expectOn(step+" without git", atV1(17), onGit)
	s.gitGate.set("the push that deletes most", unanswered, push(2), s.engine.restart)
	s.gitProxy.Unblock()
	s.done(step, ref, nil)
	s.expect(step, want{commits: 21})
	s.reaches(step, "v1", everywhere("Terminate Done", "db", "web"))
}

// end compares all changes with the expected changes.
func (s *story) end() {
	t := s.t
	s.git.Check()
	if diff := cmp.Diff([]string{
		"Apply 1 object of v1/db on git+c2: A migrate",
		"Apply 2 objects of v1/db on git+c2: A db, A shared",
		"Apply 2 objects of v1/web on git+c2: A old, A web",
		"Apply 1 object of v1/web on git+c2: A check",

		"Apply 1 object of v2/db on git+c2: M migrate",
		"Apply 3 objects of v2/web on git+c2: A new, M shared, M web",
		"Apply 1 object of v2/web on git+c2: M check",
		"Apply 1 object of v2/cache on git+c2: A cache",
		"Delete 1 object of v1/web on git+c2: D old",

		"Apply 1 object of v1/db on git+c2: M migrate",
		"Apply 1 object of v1/db on git+c2: M shared",
		"Apply 2 objects of v1/web on git+c2: A old, M web",
		"Apply 1 object of v1/web on git+c2: M check",
		"Apply 1 object of v2/cache on git+c2: A flush",
		"Delete 1 object of v2/cache on git+c2: D cache",
		"Delete 1 object of v2/cache on git+c2: D flush",
		"Delete 1 object of v2/web on git+c2: D new",

		"Apply 1 object of v1/web on git+c2: A farewell",
		"Delete 3 objects of v1/web on git+c2: D check, D old, D web",
		"Delete 1 object of v1/web on git+c2: D farewell",
		"Delete 3 objects of v1/db on git+c2: A .gitkeep, D db, D migrate, D shared",
	}, s.commits()); diff != "" {
		t.Errorf("the commits (-want +got):\n%s", diff)
	}
	for id, want := range map[string]*rsync.Status{
		"v1": {State: rsync.Terminated, Transitions: 8, Queue: []rsync.Element{
			{Seq: 1, Event: rsync.Instantiate}, {Seq: 2, Event: rsync.UpdateDelete, UCID: "v2"},
			{Seq: 3, Event: rsync.Update, UCID: "v2"}, {Seq: 4, Event: rsync.Terminate},
		}},
		"v2": {State: rsync.Updated, Transitions: 4, Queue: []rsync.Element{
			{Seq: 1, Event: rsync.Update, UCID: "v1"}, {Seq: 2, Event: rsync.UpdateDelete, UCID: "v1"},
		}},
	} {
		got, err := s.client.Status(t.Context(), id)
		if err != nil {
			t.Fatal(err)
		}
		for i := range want.Queue {
			want.Queue[i].Status = rsync.Done
		}
		queue := make([]rsync.Element, len(got.Queue))
		for i, e := range got.Queue {
			queue[i] = rsync.Element{Seq: e.Seq, Event: e.Event, UCID: e.UCID, Status: e.Status, Reason: e.Reason}
		}
		if diff := cmp.Diff(want.Queue, queue); diff != "" || got.State != want.State || got.Transitions != want.Transitions {
			t.Errorf("%s is %s after %d changes of its state, want %s after %d; its events (-want +got):\n%s", id, got.State,
				got.Transitions, want.State, want.Transitions, diff)
		}
		if err := s.client.Delete(t.Context(), id); err != nil {
			t.Error(err)
		}
	}
	if all, err := s.client.List(t.Context()); err != nil || len(all) > 0 {
		t.Errorf("there are %v, %v", all, err)
	}
}

// newcomer runs the commands of the documentation, on the same clusters.
func (s *story) newcomer() {
	root, err := sdk()
	if err != nil {
		s.t.Fatal(err)
	}
	for _, args := range s.commands {
		command := exec.CommandContext(s.t.Context(), s.engine.binary,
			append([]string{args[0], "--server", s.server}, args[1:]...)...)
		command.Dir = root
		out, err := command.CombinedOutput()
		if err != nil {
			s.t.Fatalf("%v: %v\n%s", args, err, out)
		}
		value := map[string]string{"instantiate": "blue", "update": "green"}[args[0]]
		if value == "" {
			continue
		}
		if m, err := s.kube.client.CoreV1().ConfigMaps("default").Get(s.t.Context(), "rsync-example-web",
			metav1.GetOptions{}); err != nil || m.Data["color"] != value {
			s.t.Errorf("after %v: %v, %v", args, m, err)
		}
		if text := s.git.Files()["git+c2/default/ConfigMap/rsync-example-web.yaml"]; !strings.Contains(text,
			"color: "+value) {
			s.t.Errorf("after %v: the file has %q", args, text)
		}
		s.eventually("what the agent does of a newcomer's", func() string {
			m, err := s.work.client.CoreV1().ConfigMaps("default").Get(s.t.Context(), "rsync-example-web", metav1.GetOptions{})
			if err != nil || m.Data["color"] != value {
				return fmt.Sprint(m, err)
			}
			return ""
		})
	}
	s.expect("what the newcomer leaves", want{commits: len(s.commits())})
}

// stop ends the engine, and checks its files.
func (s *story) stop() {
	t := s.t
	s.engine.interrupt()
	if left := s.worksLeft(); len(left) > 0 {
		t.Errorf("these works are left: %v", left)
	}
	t.Logf("the engine was started %d times", s.engine.starts)
}
