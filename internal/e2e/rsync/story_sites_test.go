// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package rsync_test

import (
	"context"
	"fmt"
	"maps"
	"net/http"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	workclientset "open-cluster-management.io/api/client/work/clientset/versioned"

	"github.com/spokewire/sdk-go/appliedwork/v1alpha1"
	"github.com/spokewire/sdk-go/cloudevents/memory"
	"github.com/spokewire/sdk-go/cloudevents/work"
	"github.com/spokewire/sdk-go/cloudevents/work/boltstore"
	"github.com/spokewire/sdk-go/internal/e2e/e2etest"
	"github.com/spokewire/sdk-go/internal/e2e/kube"
	"github.com/spokewire/sdk-go/internal/testing/gitserver"
	"github.com/spokewire/sdk-go/internal/testing/mosquitto"
	"github.com/spokewire/sdk-go/internal/testing/tcpproxy"
	"github.com/spokewire/sdk-go/rsync"
	"github.com/spokewire/sdk-go/rsync/appcontext"
	"github.com/spokewire/sdk-go/rsync/connector/manifestwork"
	"github.com/spokewire/sdk-go/rsync/rsyncgrpc"
)

// The story's clusters.
var (
	onKube  = appcontext.ClusterID{Provider: "kube", Name: "c1"}
	onGit   = appcontext.ClusterID{Provider: "git", Name: "c2"}
	onWork  = appcontext.ClusterID{Provider: "work", Name: "c3"}
	storyOn = []appcontext.ClusterID{onKube, onGit, onWork}
)

// storySource is the default source ID of the works, and storyWorks is the default file of the
// works.
const (
	storySource = "rsync"
	storyWorks  = "rsync-works.db"
)

// storyNamespace is the namespace of all objects, on each cluster.
const storyNamespace = "rsync-story"

// apiSite is an API server with the client of another user.
type apiSite struct {
	gate   *gate
	client *kubernetes.Clientset
	uids   map[string]string // of objects, when they were last read
}

// story is an engine with a cluster of each kind: examples/rsync and examples/agent are its processes.
type story struct {
	t      *testing.T
	engine *program
	agent  *program
	client *rsyncgrpc.Client
	server string // its address

	kube      *apiSite
	kubeProxy *tcpproxy.Proxy

	git      *gitserver.Server
	gitGate  *gate
	gitProxy *tcpproxy.Proxy

	work     *apiSite
	admin    dynamic.Interface
	broker   *mosquitto.Broker
	workName func(id, app string) string

	folder   string     // the folder of the programs' files
	commands [][]string // the commands of newcomer
}

func newStory(t *testing.T) *story {
	t.Helper()
	folder := t.TempDir()
	e2etest.Prepare("rsync", true) // while the servers start
	e2etest.Prepare("agent", true)
	s := &story{t: t, folder: folder, gitGate: &gate{}}
	broker, own := mosquitto.Start(t, mosquitto.Options{}), kube.Start(t, kube.Options{})
	own.StartControllerManager() // the agent deletes in the foreground
	shared := kube.Shared(t)
	s.broker = broker
	var addr string
	s.kube, addr = newAPISite(t, shared)
	s.kubeProxy = tcpproxy.Start(t, addr)
	writeKubeconfig(t, filepath.Join(folder, onKube.Name+".kubeconfig"), s.kubeProxy.Addr())
	s.work, addr = newAPISite(t, own)
	s.admin = dynamic.NewForConfigOrDie(own.Config())
	agentConfig := filepath.Join(folder, "agent-config")
	writeKubeconfig(t, agentConfig, addr)
	s.git = gitserver.New(t,
		gitserver.Options{Wrap: func(next http.Handler) http.Handler { s.gitGate.next = next; return s.gitGate }})
	s.gitProxy = tcpproxy.Start(t, s.git.Addr())
	names, err := manifestwork.New(workclientset.NewForConfigOrDie(own.Config()).WorkV1(), manifestwork.Options{})
	if err != nil {
		t.Fatal(err)
	}
	s.workName = names.Name
	serve, apply, others := documented(t, map[string]string{
		"clusters": folder, "clusters/c3.kubeconfig": agentConfig, "mqtt://127.0.0.1:1883": broker.URL(),
		"fleet.git": "http://" + s.gitProxy.Addr() + "/" + filepath.Base(s.git.Path()),
	})
	s.commands = others
	s.engine, s.server = startProgram(t, folder, e2etest.Program(t, "rsync", true),
		append(serve, "--listen", freeURL(t).Host)...)
	s.agent, _ = startProgram(t, folder, e2etest.Program(t, "agent", true), apply...)
	s.client, err = rsyncgrpc.NewClient(s.server, rsyncgrpc.ClientOptions{Insecure: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.client.Close() })
	return s
}

func newAPISite(t *testing.T, cluster *kube.Cluster) (*apiSite, string) {
	t.Helper()
	g, addr := apiGate(t, cluster.Config())
	site := &apiSite{gate: g, client: kubernetes.NewForConfigOrDie(cluster.Config()), uids: map[string]string{}}
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: storyNamespace}}
	if _, err := site.client.CoreV1().Namespaces().Create(t.Context(), namespace, metav1.CreateOptions{}); err != nil &&
		!apierrors.IsAlreadyExists(err) {
		t.Fatal(err)
	}
	return site, addr
}

// objects returns the objects in the story's namespace with their values, and records their UIDs.
func (a *apiSite) objects(t *testing.T) map[string]string {
	t.Helper()
	list, err := a.client.CoreV1().ConfigMaps(storyNamespace).List(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	out := map[string]string{}
	clear(a.uids)
	for i := range list.Items {
		m := &list.Items[i]
		out[m.Name] = m.Data["key"]
		a.uids[m.Name] = string(m.UID)
	}
	return out
}

// works returns the objects of each work, by the names of works.
func (s *story) works() map[string]string {
	s.t.Helper()
	list, err := s.admin.Resource(v1alpha1.GroupVersionResource).List(s.t.Context(), metav1.ListOptions{})
	if apierrors.IsNotFound(err) {
		return map[string]string{} // the agent creates the CRD with the first work
	}
	if err != nil {
		s.t.Fatal(err)
	}
	out := map[string]string{}
	for i := range list.Items {
		record := &v1alpha1.AppliedWork{}
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(list.Items[i].Object, record); err != nil {
			s.t.Fatal(err)
		}
		var names []string
		for _, r := range record.Status.AppliedResources {
			names = append(names, r.Name)
		}
		slices.Sort(names)
		out[record.Spec.WorkName] = strings.Join(names, " ")
	}
	return out
}

// want is the expected state after a step: values "a=1 b=2", and the objects of each work.
type want struct {
	objects string
	works   map[string]string // "v1/db": "a b"
	commits int               // the number of our commits so far
}

// expect compares the three clusters with the expected state. It waits for the agent's changes
// after the last awaited event.
func (s *story) expect(step string, w want) {
	s.t.Helper()
	s.expectOn(step, w, storyOn...)
}

func (s *story) expectOn(step string, w want, on ...appcontext.ClusterID) {
	s.t.Helper()
	objects := map[string]string{}
	for field := range strings.FieldsSeq(w.objects) {
		name, value, _ := strings.Cut(field, "=")
		objects[name] = value
	}
	for _, id := range on {
		switch id {
		case onKube:
			if diff := cmp.Diff(objects, s.kube.objects(s.t)); diff != "" {
				s.t.Errorf("%s: the objects on %s (-want +got):\n%s", step, id, diff)
			}
		case onGit:
			files := map[string]string{"README": "hello\n"}
			for name, value := range objects {
				files[storyFile(name)] = storyManifest(name, value)
			}
			if len(objects) == 0 && w.commits > 0 {
				files[id.String()+"/.gitkeep"] = ""
			}
			if diff := cmp.Diff(files, s.git.Files()); diff != "" {
				s.t.Errorf("%s: the files (-want +got):\n%s", step, diff)
			}
			if got := s.commits(); len(got) != w.commits {
				s.t.Errorf("%s: there are %d commits, want %d: %s", step, len(got), w.commits, strings.Join(got, "\n"))
			}
		case onWork:
			works := map[string]string{}
			for name, held := range w.works {
				of, app, _ := strings.Cut(name, "/")
				works[s.workName(of, app)] = held
			}
			s.eventually(step+": works and objects on "+id.String(), func() string {
				return cmp.Diff(objects, s.work.objects(s.t)) + cmp.Diff(works, s.works())
			})
		}
	}
}

func storyFile(name string) string {
	return onGit.String() + "/" + storyNamespace + "/ConfigMap/" + name + ".yaml"
}

func storyManifest(name, value string) string {
	return fmt.Sprintf("apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: %s\n  namespace: %s\ndata:\n  key: %q # as it is\n", name, storyNamespace, value)
}

// commits returns our commits with their changes of objects, the oldest first.
func (s *story) commits() []string {
	s.t.Helper()
	var out []string
	for commit := range strings.SplitSeq(s.git.Git("log", "--reverse", "--format=%x00%an: %s", "--name-status", "main"),
		"\x00") {
		subject, files, _ := strings.Cut(commit, "\n")
		if subject == "" || subject == "Rival: The beginning" {
			continue
		}
		var changes []string
		for line := range strings.Lines(files) {
			if verb, file, ok := strings.Cut(strings.TrimSpace(line), "\t"); ok {
				changes = append(changes, verb+" "+strings.TrimSuffix(filepath.Base(file), ".yaml"))
			}
		}
		out = append(out, strings.TrimPrefix(subject, "rsync: ")+": "+strings.Join(changes, ", "))
	}
	return out
}

// statuses returns the status of each app on each cluster.
func (s *story) statuses(id string) map[string]string {
	s.t.Helper()
	status, err := s.client.Status(s.t.Context(), id)
	if err != nil {
		s.t.Fatal(err)
	}
	out := map[string]string{}
	for i := range status.Clusters {
		c := &status.Clusters[i]
		out[c.App+" on "+c.Cluster.String()] = strings.TrimSpace(fmt.Sprintf("%s %s %s", c.Event, c.Phase, c.Reason))
	}
	return out
}

// everywhere returns a status for apps on all clusters. The caller may add others.
func everywhere(status string, apps ...string) map[string]string {
	out := map[string]string{}
	for _, app := range apps {
		for _, id := range storyOn {
			out[app+" on "+id.String()] = status
		}
	}
	return out
}

// but returns the statuses with some replaced. An empty status removes an entry.
func but(all map[string]string, pairs ...string) map[string]string {
	out := maps.Clone(all)
	for i := 0; i < len(pairs); i += 2 {
		if out[pairs[i]] = pairs[i+1]; pairs[i+1] == "" {
			delete(out, pairs[i])
		}
	}
	return out
}

// reaches waits until a context has the expected statuses.
func (s *story) reaches(step, id string, want map[string]string) {
	s.t.Helper()
	s.eventually(step+": the statuses of "+id, func() string { return cmp.Diff(want, s.statuses(id)) })
}

// done waits for an event, although its engine may be killed any number of times meanwhile, and
// checks all traps.
func (s *story) done(step string, ref rsync.EventRef, err error) {
	s.t.Helper()
	ctx, cancel := context.WithTimeout(s.t.Context(), time.Minute)
	defer cancel()
	if err == nil {
		_, err = s.client.Wait(ctx, ref)
	}
	if err != nil {
		s.t.Fatalf("%s: %v; v1 %v; v2 %v", step, err, s.statuses("v1"), s.statuses("v2"))
	}
	for _, g := range []*gate{s.kube.gate, s.gitGate, s.work.gate} {
		g.sprung(s.t)
	}
}

func (s *story) eventually(what string, problem func() string) {
	s.t.Helper()
	for end := time.Now().Add(time.Minute); ; time.Sleep(50 * time.Millisecond) {
		said := problem()
		if said == "" {
			return
		}
		if time.Now().After(end) {
			s.t.Fatalf("%s, after a minute (-want +got):\n%s", what, said)
		}
	}
}

// kept checks that objects still have their UIDs: they were changed, and never deleted and created
// again.
func (s *story) kept(step string, before map[*apiSite]map[string]string, names ...string) {
	s.t.Helper()
	for site, uids := range before {
		for _, name := range names {
			if uids[name] == "" || site.uids[name] != uids[name] {
				s.t.Errorf("%s: %s was %q, and is %q", step, name, uids[name], site.uids[name])
			}
		}
	}
}

func (s *story) uids() map[*apiSite]map[string]string {
	return map[*apiSite]map[string]string{s.kube: maps.Clone(s.kube.uids), s.work: maps.Clone(s.work.uids)}
}

// worksLeft returns the works in the engine's file, after the engine has ended.
func (s *story) worksLeft() []string {
	s.t.Helper()
	file, err := boltstore.Open(filepath.Join(s.folder, storyWorks), boltstore.Options{})
	if err != nil {
		s.t.Fatal(err)
	}
	defer func() { _ = file.Close() }()
	source, err := work.NewSource(memory.New().Transport(), work.SourceOptions{SourceID: storySource, Store: file})
	if err != nil {
		s.t.Fatal(err)
	}
	stop := background(s.t, source.Start)
	defer stop()
	<-source.Ready()
	list, err := source.Clientset().WorkV1().ManifestWorks(metav1.NamespaceAll).List(s.t.Context(), metav1.ListOptions{})
	if err != nil {
		s.t.Fatal(err)
	}
	var out []string
	for i := range list.Items {
		out = append(out, list.Items[i].Name)
	}
	return out
}
