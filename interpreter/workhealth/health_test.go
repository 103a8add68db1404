// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package workhealth_test

import (
	"context"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	workfake "open-cluster-management.io/api/client/work/clientset/versioned/fake"
	workv1 "open-cluster-management.io/api/work/v1"

	"github.com/spokewire/sdk-go/interpreter/caller"
	"github.com/spokewire/sdk-go/interpreter/v1alpha1"
	"github.com/spokewire/sdk-go/interpreter/workhealth"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// fixture is a tracker of the works of a fake clientset, with a webhook for Pools.
type fixture struct {
	t        testing.TB
	works    *workfake.Clientset
	tracker  *workhealth.Tracker
	webhooks *caller.Caller
	asked    atomic.Int64
	down     atomic.Bool
	held     sync.RWMutex // the webhook does not answer while it is locked
	stop     func()

	generation int64 // reported by the agent; 0: not reported
}

const (
	deployment = `{"apiVersion":"apps/v1","kind":"Deployment","metadata":{"name":"web","namespace":"x"},"spec":{"replicas":1}}`
	pool       = `{"apiVersion":"example.com/v1","kind":"Pool","metadata":{"name":"p","namespace":"x"}}`
	rollout    = `{"apiVersion":"argoproj.io/v1alpha1","kind":"Rollout","metadata":{"name":"web","namespace":"x"}}`
	widget     = `{"apiVersion":"example.org/v1","kind":"Widget","metadata":{"name":"w","namespace":"x"}}`
	pod        = `{"apiVersion":"v1","kind":"Pod","metadata":{"name":"p","namespace":"x"}}`
	configMap  = `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"m","namespace":"x"}}`
)

func newFixture(t testing.TB) *fixture {
	t.Helper()
	f := &fixture{t: t, works: workfake.NewSimpleClientset()} //nolint:staticcheck // there is no other one for this version of the API
	server := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		f.asked.Add(1)
		f.held.RLock()
		defer f.held.RUnlock()
		if f.down.Load() {
			http.Error(w, "down", http.StatusInternalServerError)
			return
		}
		var review v1alpha1.ResourceInterpreterContext
		if err := json.NewDecoder(r.Body).Decode(&review); err != nil {
			t.Error(err)
		}
		var pool struct {
			Metadata struct{ Generation int64 }
			Status   struct {
				Full               bool
				ObservedGeneration int64
			}
		}
		if err := json.Unmarshal(review.Request.Object.Raw, &pool); err != nil {
			t.Error(err)
		}
		healthy := pool.Status.Full && pool.Status.ObservedGeneration == pool.Metadata.Generation
		review.Response = &v1alpha1.ResourceInterpreterResponse{UID: review.Request.UID, Successful: true, Healthy: &healthy}
		review.Request = nil
		_ = json.NewEncoder(w).Encode(review)
	}))
	t.Cleanup(server.Close)
	ca := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw})
	var err error
	if f.webhooks, err = caller.New(caller.Options{AllowedHosts: []string{"127.0.0.1"}}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(f.webhooks.Close)
	err = f.webhooks.SetConfigurations(
		caller.Configurations{Interpreting: []v1alpha1.ResourceInterpreterWebhookConfiguration{{
			ObjectMeta: metav1.ObjectMeta{Name: "pools"},
			Webhooks: []v1alpha1.ResourceInterpreterWebhook{{
				Name: "health.pools.example.com", InterpreterContextVersions: []string{"v1alpha1"},
				ClientConfig: admissionregistrationv1.WebhookClientConfig{URL: new(server.URL + "/pools"), CABundle: ca},
				Rules: []v1alpha1.KindRuleWithOperations{{
					Operations: []v1alpha1.InterpreterOperation{v1alpha1.InterpreterOperationInterpretHealth},
					KindRule: v1alpha1.KindRule{APIGroups: []string{"example.com"}, APIVersions: []string{"*"},
						Kinds: []string{"Pool"}},
				}},
			}},
		}}})
	if err != nil {
		t.Fatal(err)
	}
	f.tracker, err = workhealth.New(f.works, workhealth.Options{LabelSelector: "manager=hub",
		Interpreter: f.webhooks})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error)
	go func() { ended <- f.tracker.Start(ctx) }()
	f.stop = sync.OnceFunc(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	t.Cleanup(f.stop)
	return f
}

// objectOf returns the object of a manifest.
func objectOf(t testing.TB, manifest string) workhealth.Object {
	t.Helper()
	u := &unstructured.Unstructured{}
	if err := u.UnmarshalJSON([]byte(manifest)); err != nil {
		t.Fatal(err)
	}
	return workhealth.Object{Group: u.GroupVersionKind().Group, Kind: u.GetKind(), Namespace: u.GetNamespace(),
		Name: u.GetName()}
}

// put writes a work with manifests to the cluster c1, with the statuses that the agent reports. An
// empty status is not reported.
func (f *fixture) put(name string, manifests, statuses []string) *workv1.ManifestWork {
	f.t.Helper()
	w := &workv1.ManifestWork{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "c1",
		Labels: map[string]string{"manager": "hub"}}}
	for i, m := range manifests {
		w.Spec.Workload.Manifests = append(w.Spec.Workload.Manifests,
			workv1.Manifest{RawExtension: runtime.RawExtension{Raw: []byte(m)}})
		if statuses[i] == "" {
			continue
		}
		o := objectOf(f.t, m)
		c := workv1.ManifestCondition{ResourceMeta: workv1.ManifestResourceMeta{Ordinal: int32(i), Group: o.Group,
			Kind: o.Kind, Namespace: o.Namespace, Name: o.Name}}
		applied := metav1.ConditionTrue
		if statuses[i] == "refused" {
			applied = metav1.ConditionFalse
		}
		c.Conditions = []metav1.Condition{{Type: workv1.ManifestApplied, Status: applied, Reason: "Because", Message: "so"}}
		if strings.HasPrefix(statuses[i], "{") {
			c.StatusFeedbacks.Values = []workv1.FeedbackValue{
				{Name: "status", Value: workv1.FieldValue{Type: workv1.JsonRaw, JsonRaw: &statuses[i]}},
			}
		}
		if f.generation > 0 {
			c.StatusFeedbacks.Values = append(c.StatusFeedbacks.Values, workv1.FeedbackValue{Name: "Generation",
				Value: workv1.FieldValue{Type: workv1.Integer, Integer: new(f.generation)}})
		}
		w.Status.ResourceStatus.Manifests = append(w.Status.ResourceStatus.Manifests, c)
	}
	works := f.works.WorkV1().ManifestWorks("c1")
	if _, err := works.Create(f.t.Context(), w, metav1.CreateOptions{}); err != nil {
		if _, err := works.Update(f.t.Context(), w, metav1.UpdateOptions{}); err != nil {
			f.t.Fatal(err)
		}
	}
	return w
}

// is waits until the tracker reports the verdicts of all objects: "web Healthy" and so on.
func (f *fixture) is(want string) {
	f.t.Helper()
	got := ""
	for end := time.Now().Add(2 * time.Minute); time.Now().Before(end); time.Sleep(5 * time.Millisecond) {
		var all []string
		for _, w := range f.tracker.Works() {
			for _, v := range w.Objects {
				all = append(all, v.Object.Name+" "+string(v.Health)+" "+v.Reason)
			}
		}
		if got = strings.Join(all, "; "); strings.ReplaceAll(got, " ;", ";") == want ||
			strings.TrimSuffix(strings.ReplaceAll(got, " ;", ";"), " ") == want {
			return
		}
	}
	f.t.Fatalf("%q, want %q", got, want)
}

func TestHealth(t *testing.T) {
	f := newFixture(t)
	all := []string{deployment, pool, configMap}
	f.put("w", all, []string{"", "", ""})
	f.is("web Unknown its agent has not reported it yet; p Unknown its agent has not reported it yet; m Unknown its " +
		"agent has not reported it yet")
	f.put("w", all, []string{"applied", "applied", "applied"})
	f.is("web Unknown its agent has not reported its status; p Progressing; m Healthy")
	f.put("w", all, []string{`{"replicas":1,"updatedReplicas":1}`, `{"full":false}`, "refused"})
	f.is("web Progressing 0 of 1 replicas available; p Progressing; m Degraded Because: so")
	f.put("w", all, []string{`{"replicas":1,"updatedReplicas":1,"availableReplicas":1}`, `{"full":true}`, "applied"})
	f.is("web Healthy; p Healthy; m Healthy")
	asked := f.asked.Load()
	f.put("w2", []string{configMap}, []string{"applied"})
	f.put("w", all, []string{`{"replicas":1}`, `{"full":true}`, "applied"})
	f.is("web Progressing 0 of 1 replicas updated; p Healthy; m Healthy; m Healthy")
	if now := f.asked.Load(); now != asked {
		t.Errorf("%d more calls of the webhook for known statuses", now-asked)
	}
	f.tracker.Refresh()
	for end := time.Now().Add(2 * time.Minute); f.asked.Load() == asked; time.Sleep(5 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("Refresh does not call the webhook")
		}
	}
}

// TestRefreshIsPending checks that a work is pending after Refresh until its objects are evaluated.
func TestRefreshIsPending(t *testing.T) {
	f := newFixture(t)
	evaluated := func() workhealth.Health {
		t.Helper()
		for end := time.Now().Add(2 * time.Minute); time.Now().Before(end); time.Sleep(5 * time.Millisecond) {
			if works := f.tracker.Works(); len(works) > 0 && !works[0].Pending {
				return works[0].Objects[0].Health
			}
		}
		t.Fatal("the work stays pending")
		return ""
	}
	f.down.Store(true)
	f.put("w", []string{pool}, []string{`{"full":true}`})
	if health := evaluated(); health != workhealth.HealthUnknown {
		t.Errorf("health %s, without an answer of the webhook", health)
	}
	f.held.Lock()
	f.down.Store(false)
	f.tracker.Refresh()
	pending := f.tracker.Works()[0].Pending
	f.held.Unlock()
	if health := evaluated(); !pending || health != workhealth.HealthHealthy {
		t.Errorf("pending %t, then health %s; want true, then Healthy", pending, health)
	}
}

// TestGeneration checks that an interpreter can compare the generation that a controller has
// observed with the generation of the object on its cluster.
func TestGeneration(t *testing.T) {
	f := newFixture(t)
	f.put("w", []string{pool}, []string{`{"full":true,"observedGeneration":1}`})
	f.is("p Progressing")
	f.generation = 1
	f.put("w", []string{pool}, []string{`{"full":true,"observedGeneration":1}`})
	f.is("p Healthy")
	f.generation = 2
	f.put("w", []string{pool}, []string{`{"full":true,"observedGeneration":1}`})
	f.is("p Progressing Pool generation is 2, but latest observed generation is 1")
}

// TestLongStatus checks that the most important conditions are enough for a verdict. An agent
// cannot report a status with more than 1,024 characters.
func TestLongStatus(t *testing.T) {
	f := newFixture(t)
	w := f.put("w", []string{widget}, []string{"applied"})
	f.is("w Healthy")
	for _, test := range []struct{ ready, synced, want string }{{"True", "True", "Healthy"},
		{"False", "True", "Progressing"}, {"True", "False", "Healthy"}} {
		w = w.DeepCopy()
		w.Status.ResourceStatus.Manifests[0].StatusFeedbacks.Values = []workv1.FeedbackValue{
			{Name: "Ready", Value: workv1.FieldValue{Type: workv1.String, String: &test.ready}},
			{Name: "Synced", Value: workv1.FieldValue{Type: workv1.String, String: &test.synced}},
		}
		if _, err := f.works.WorkV1().ManifestWorks("c1").Update(t.Context(), w, metav1.UpdateOptions{}); err != nil {
			t.Fatal(err)
		}
		f.is("w " + test.want)
	}
}

// TestWebhookAway checks that the health is known once an unreachable webhook responds again.
func TestWebhookAway(t *testing.T) {
	f := newFixture(t)
	f.down.Store(true)
	f.put("w", []string{pool}, []string{`{"full":true}`})
	for end := time.Now().Add(2 * time.Minute); f.asked.Load() == 0; time.Sleep(5 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("the webhook is not called")
		}
	}
	f.down.Store(false)
	f.is("p Healthy")
}

// TestReady checks that an object with a webhook is ready when the webhook reports its current
// status as healthy, and that built-in kinds are ready in any health.
func TestReady(t *testing.T) {
	f := newFixture(t)
	changes := make(chan struct{}, 100)
	defer f.tracker.OnChange("c1", func() { changes <- struct{}{} })()
	check := func(w *workv1.ManifestWork, i int, want bool, message string) {
		t.Helper()
		o := objectOf(t, string(w.Spec.Workload.Manifests[i].Raw))
		for end := time.Now().Add(2 * time.Minute); ; {
			ready, why := f.tracker.Ready("c1", o, &w.Status.ResourceStatus.Manifests[i])
			if ready == want && why == message {
				return
			}
			select {
			case <-changes:
			case <-time.After(time.Until(end)):
				t.Fatalf("%s: ready is %v, %q, want %v %q", o, ready, why, want, message)
			}
		}
	}
	const unhealthy = "its interpreter reports that it is not healthy"
	all := []string{pool, configMap}
	w := f.put("w", all, []string{`{"full":false}`, "applied"})
	check(w, 0, false, unhealthy)
	check(w, 1, true, "")
	w = f.put("w", all, []string{`{"full":true}`, "applied"})
	check(w, 0, true, "")
	w = f.put("w", []string{rollout, widget, deployment},
		[]string{`{"phase":"Progressing"}`, `{"conditions":[{"type":"Ready","status":"False"}]}`, `{"replicas":1}`})
	check(w, 0, false, unhealthy)
	check(w, 1, false, unhealthy)
	check(w, 2, true, "")
	w = f.put("w", []string{rollout, widget, pod},
		[]string{`{"phase":"Healthy"}`, `{"conditions":[{"type":"Ready","status":"True"}]}`,
			`{"phase":"Succeeded","conditions":[{"type":"Ready","status":"False"}]}`})
	check(w, 0, true, "")
	check(w, 1, true, "")
	check(w, 2, true, "")
	f.is("web Healthy; w Healthy; p Healthy")
	other := workhealth.Object{Kind: "ConfigMap", Name: "other"}
	if ready, why := f.tracker.Ready("c1", other, &workv1.ManifestCondition{}); ready || why == "" {
		t.Errorf("an unknown object: %v, %q", ready, why)
	}
}

// TestConfig checks that the feedback rules of an object include its status.
func TestConfig(t *testing.T) {
	for o, want := range map[workhealth.Object]string{
		{Kind: "ConfigMap", Name: "a"}:                                "",
		{Group: "rbac.authorization.k8s.io", Kind: "Role", Name: "a"}: "",
		{Kind: "Service", Namespace: "x",
			Name: "a"}: "services x Watch status=.status Generation=.metadata.generation",
		{Group: "example.com", Kind: "Policy", Namespace: "x",
			Name: "a"}: `policies x Watch status=.status Ready=.status.conditions[?(@.type=="Ready")].status`,
		{Group: "apps", Kind: "Deployment", Namespace: "x",
			Name: "a"}: "deployments x Watch status=.status observedGeneration=.status.observedGeneration",
	} {
		config := workhealth.Config(o, nil)
		got := ""
		if config != nil {
			id := config.ResourceIdentifier
			got = fmt.Sprintf("%s %s %s", id.Resource, id.Namespace, config.FeedbackScrapeType)
			for _, p := range config.FeedbackRules[0].JsonPaths {
				got += " " + p.Name + "=" + p.Path
			}
		}
		if !strings.HasPrefix(got, want) || want == "" && got != "" {
			t.Errorf("%s: %s, want %s", o, got, want)
		}
	}
}

// TestConfigKeepsSettings checks that Config adds its values to a configuration, without changing it.
func TestConfigKeepsSettings(t *testing.T) {
	base := &workv1.ManifestConfigOption{
		ResourceIdentifier: workv1.ResourceIdentifier{Group: "apps", Resource: "deployments", Namespace: "x", Name: "a"},
		UpdateStrategy:     &workv1.UpdateStrategy{Type: workv1.UpdateStrategyTypeServerSideApply},
		FeedbackRules: []workv1.FeedbackRule{{Type: workv1.WellKnownStatusType}, {Type: workv1.JSONPathsType,
			JsonPaths: []workv1.JsonPath{{Name: "own", Path: ".status.own"}}}},
	}
	before := base.DeepCopy()
	config := workhealth.Config(workhealth.Object{Group: "apps", Kind: "Deployment", Namespace: "x", Name: "a"}, base)
	if diff := cmp.Diff(before, base); diff != "" {
		t.Errorf("the base has changed: %s", diff)
	}
	paths := config.FeedbackRules[1].JsonPaths
	if len(config.FeedbackRules) != 2 || paths[0].Name != "own" || paths[1].Name != "status" ||
		config.UpdateStrategy == nil || config.ResourceIdentifier != base.ResourceIdentifier {
		t.Errorf("%+v", config)
	}
	configMap := workhealth.Object{Kind: "ConfigMap", Namespace: "x", Name: "a"}
	if got := workhealth.Config(configMap, base); got != base {
		t.Errorf("a kind without a status: %+v", got)
	}
}

// TestConfigs checks that invalid manifests and kinds without a status have no configuration.
func TestConfigs(t *testing.T) {
	var manifests []workv1.Manifest
	for _, m := range []string{configMap, "[]", `{"apiVersion":"v1","kind":"Pod"}`, pool,
		`{"apiVersion":"a/b/c","kind":"Pod","metadata":{"name":"p"}}`} {
		manifests = append(manifests, workv1.Manifest{RawExtension: runtime.RawExtension{Raw: []byte(m)}})
	}
	manifests = append(manifests, workv1.Manifest{RawExtension: runtime.RawExtension{Object: &metav1.PartialObjectMetadata{
		TypeMeta:   metav1.TypeMeta{APIVersion: "apps/v1", Kind: "Deployment"},
		ObjectMeta: metav1.ObjectMeta{Name: "web"},
	}}})
	var got []string
	for _, c := range workhealth.Configs(manifests) {
		got = append(got, c.ResourceIdentifier.Resource+" "+c.ResourceIdentifier.Name)
	}
	if diff := cmp.Diff([]string{"pools p", "deployments web"}, got); diff != "" {
		t.Error(diff)
	}
}

// TestNew checks that the error names the option, and that New starts no goroutine: see TestMain.
func TestNew(t *testing.T) {
	works := workfake.NewSimpleClientset() //nolint:staticcheck // there is no other one for this version of the API
	if _, err := workhealth.New(works, workhealth.Options{}); err != nil {
		t.Fatal(err)
	}
	_, err := workhealth.New(works, workhealth.Options{LabelSelector: "a in"})
	if err == nil || !strings.HasPrefix(err.Error(), `invalid Options.LabelSelector: "a in": `) {
		t.Errorf("%v", err)
	}
}
