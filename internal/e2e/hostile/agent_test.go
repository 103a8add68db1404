// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

//go:build !race

package hostile_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes"
	worktyped "open-cluster-management.io/api/client/work/clientset/versioned/typed/work/v1"
	workv1 "open-cluster-management.io/api/work/v1"

	"github.com/spokewire/sdk-go/cloudevents/mqtt"
	"github.com/spokewire/sdk-go/cloudevents/work"
	"github.com/spokewire/sdk-go/internal/e2e/e2etest"
	"github.com/spokewire/sdk-go/internal/e2e/kube"
	"github.com/spokewire/sdk-go/internal/testing/mosquitto"
)

func TestMain(m *testing.M) {
	if spec := os.Getenv(attackVariable); spec != "" {
		if err := runAttack(spec); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	for _, name := range []string{"agent", "hub", "rsync"} {
		e2etest.Prepare(name, false)
	}
	os.Exit(kube.Main(m))
}

// manifest returns a ConfigMap in the tests' namespace.
func manifest(name, value string) workv1.Manifest {
	var m workv1.Manifest
	m.Raw = fmt.Appendf(nil,
		`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":%q,"namespace":"hostile"},"data":{"v":%q}}`, name, value)
	return m
}

// configured returns a work with a large ConfigMap and a configuration for it.
func configured(change func(*workv1.ManifestConfigOption)) *workv1.ManifestWork {
	config := workv1.ManifestConfigOption{ResourceIdentifier: workv1.ResourceIdentifier{Resource: "configmaps",
		Namespace: "hostile", Name: "evil"}}
	change(&config)
	w := &workv1.ManifestWork{ObjectMeta: metav1.ObjectMeta{Name: "evil"}}
	w.Spec.Workload.Manifests = []workv1.Manifest{manifest("evil", strings.Repeat("a", 100_000))}
	w.Spec.ManifestConfigs = []workv1.ManifestConfigOption{config}
	return w
}

// jqExpressions are paths of fields to ignore.
var jqExpressions = []string{
	"", " ", ".", "..", "empty", "[]", "{}", ".data.v?", `.data["v"]`, ".[1e9]", ".a[1000000000:]", "-", "-.", "-(1)",
	"..|..|..|..|..", "recurse(.)|recurse(.)",
	`.data.v | test("((a{100}){100}){100}")`, `.data.v | test("(a*)*(a*)*b")`,
	`.data | select(.v | test("a{1000}a{1000}a{1000}b"))`,
	`.data | select(.v * 1000000000 == "")`, `.data | select([range(1000000000)] == [])`,
	`.data | select([limit(1000000000; repeat(1))] == [])`,
	`.data | select(reduce range(1000000000) as $i (""; . + .) == "")`, `def f: f; f`, `def f: [f]; f`,
	`.data | select([paths] | length == 1)`,
	`.data | select([.v | explode | combinations] == [])`, `.data | select(.v | gsub(""; .) == "")`,
	`.data | select([.v | splits("")] == [])`,
	`.data | select(.v | ascii_downcase | ltrimstr("a") | tojson | fromjson | length > 1)`,
	`.data | select($ENV.HOME == "")`, `.data | select(env | length > 0)`,
	`.data | select(input)`, `.data | select(getpath(["a","b"]))`, `. as [$a, $b] ?// $a | $a`,
	`try error("\u0000") catch .`, `label $out | break $out`,
	`.data | select(@base32d)`, strings.Repeat("(", 2000) + "." + strings.Repeat(")", 2000),
	".data" + strings.Repeat("|.", 2000), "\x00", "\xff\xfe", `."\ud800"`,
}

// celExpressions are expressions of condition rules.
var celExpressions = []string{
	"", "true", "object.data.v.matches('((a{100}){100}){100}')", "object.data.v.matches('(a*)*(a*)*b')",
	"object.data.v.matches('a{1000}a{1000}a{1000}b')",
	"object.data.v.replace('', object.data.v) == ''", "object.data.v.split('').map(c, object.data.v).size() == 0",
	"[1,2,3,4,5,6,7,8,9].all(a, [1,2,3,4,5,6,7,8,9].all(b, [1,2,3,4,5,6,7,8,9].all(c, [1,2,3,4,5,6,7,8,9].all(d, " +
		"[1,2,3,4,5,6,7,8,9].all(e, [1,2,3,4,5,6,7,8,9].all(f, true))))))",
	"object.data.v.split('').all(a, object.data.v.split('').all(b, true))", "lists.range(1000000000).size() > 0",
	"(object.data.v + object.data.v + object.data.v).size() > 0",
	"[object.data.v].map(x, x + x).map(x, x + x).map(x, x + x).map(x, x + x).map(x, x + x).map(x, x + x).map(x, x + " +
		"x).map(x, x + x).map(x, x + x).map(x, x + x).map(x, x + x).map(x, x + x).size() == 1",
	"'%s%s%s%s'.format([object.data.v, object.data.v, object.data.v, object.data.v]).size() > 0",
	strings.Repeat("(", 1000) + "true" + strings.Repeat(")", 1000),
	strings.Repeat("!", 10_000) + "true", "1/0 == 1", "object", "object.nothing.at.all",
	"dyn([object]).map(x, [x, x]).map(x, [x, x]).size() == 1",
	"object.data.v.find('((a{100}){100}){100}') == ''", "object.data.v.findAll('a*').size() > 0",
	"base64.encode(bytes(object.data.v)).size() > 0",
	"[object.data.v].all(x, [" + strings.Repeat("bytes(x), ", 1599) + "bytes(x)].size() > 0)", "[object.data.v].all(x, [" +
		strings.Repeat("bytes(x), ", 600) + "bytes(x)].size() > 0)",
	"lists.range(90).all(i, [object.data.v].all(x, " + strings.Repeat("x.size() > 0 && ", 300) + "true))",
	"lists.range(90).all(i, [object.data.v].all(x, " + strings.Repeat("double(x) > 1.0 || ", 300) + "true))",
	"{" + strings.Repeat("1: {}, ", 2000) + "1: {}} == {}", strings.Repeat("dyn(1) == dyn('') || ", 700) + "true",
}

// jsonPaths are paths of feedback rules.
var jsonPaths = []string{
	"", ".", "..", "{..}", ".data.v", "..*..*..*", ".data[?(@.v==", ".data[?(@.v=='x')]", ".items[1000000000000000000000]",
	".items[-1:-1000000000:-1]",
	".metadata" + strings.Repeat("['name','namespace']", 200), strings.Repeat("[", 1000), "{range .items[*]}{.x}{end}",
	"\xff", ".data['v','v','v','v','v','v','v','v']",
}

// strange are works that are invalid or harmful in other ways.
var strange = map[string]func(w *workv1.ManifestWork){
	"no manifest": func(w *workv1.ManifestWork) { w.Spec.Workload.Manifests = nil },
	"1,000 manifests": func(w *workv1.ManifestWork) {
		for i := range 1000 {
			w.Spec.Workload.Manifests = append(w.Spec.Workload.Manifests, manifest(fmt.Sprint("evil-", i), ""))
		}
	},
	"deep": func(w *workv1.ManifestWork) {
		w.Spec.Workload.Manifests[0].Raw = []byte(
			`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"evil","namespace":"hostile"},"x":` +
				strings.Repeat(`{"a":`, 8000) + "1" + strings.Repeat("}", 8000) + "}")
	},
	"many keys": func(w *workv1.ManifestWork) {
		var keys strings.Builder
		for i := range 50_000 {
			fmt.Fprintf(&keys, `,"k%d":"x"`, i)
		}
		w.Spec.Workload.Manifests[0].Raw = []byte(
			`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"evil","namespace":"hostile"},"data":{"a":"b"` +
				keys.String() + "}}")
	},
	"a path for a name": func(w *workv1.ManifestWork) {
		w.Spec.Workload.Manifests = []workv1.Manifest{manifest("../../nodes/x", "")}
	},
	"a kind that does not exist": func(w *workv1.ManifestWork) {
		w.Spec.Workload.Manifests[0].Raw = []byte(`{"apiVersion":"evil.example/v1","kind":"Evil","metadata":{"name":"evil"}}`)
	},
	"a list": func(w *workv1.ManifestWork) {
		w.Spec.Workload.Manifests[0].Raw = []byte(
			`{"apiVersion":"v1","kind":"List","metadata":{"name":"evil"},"items":[{},{},{}]}`)
	},
	"a name to be generated": func(w *workv1.ManifestWork) {
		w.Spec.Workload.Manifests[0].Raw = []byte(
			`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"generateName":"evil-","namespace":"hostile"}}`)
	},
	"1.4 MiB": func(w *workv1.ManifestWork) {
		w.Spec.Workload.Manifests = []workv1.Manifest{manifest("evil", strings.Repeat("x", 1400<<10))}
	},
	"the manifest 50 times": func(w *workv1.ManifestWork) {
		for range 50 {
			w.Spec.Workload.Manifests = append(w.Spec.Workload.Manifests, manifest("evil", "x"))
		}
	},
	"500 configurations": func(w *workv1.ManifestWork) {
		for i := range 500 {
			w.Spec.ManifestConfigs = append(w.Spec.ManifestConfigs, workv1.ManifestConfigOption{
				ResourceIdentifier: workv1.ResourceIdentifier{Resource: "configmaps", Namespace: strings.Repeat("*", 200),
					Name: fmt.Sprint(strings.Repeat("*a", 100), i)},
			})
		}
	},
}

// agentAttacks returns attacks with the works of a hostile source.
func agentAttacks(source *work.Source) []attack {
	works := source.Clientset().WorkV1().ManifestWorks("cluster1")
	var out []attack
	add := func(name string, w *workv1.ManifestWork) {
		out = append(out, attack{name, func(t *testing.T) { await(t, works, w) }})
	}
	for _, expression := range jqExpressions {
		add(fmt.Sprintf("jq %.40q", expression), configured(func(c *workv1.ManifestConfigOption) {
			c.UpdateStrategy = &workv1.UpdateStrategy{Type: workv1.UpdateStrategyTypeServerSideApply,
				ServerSideApply: &workv1.ServerSideApplyConfig{
					IgnoreFields: []workv1.IgnoreField{{Condition: workv1.IgnoreFieldsConditionOnSpokePresent,
						JQPathExpressions: []string{expression}}},
				}}
		}))
	}
	for _, expression := range celExpressions {
		add(fmt.Sprintf("CEL %.40q", expression), configured(func(c *workv1.ManifestConfigOption) {
			c.ConditionRules = []workv1.ConditionRule{{Condition: "Evil", Type: workv1.CelConditionExpressionsType,
				CelExpressions: []string{expression}, MessageExpression: "string(" + expression + ")"}}
		}))
	}
	for _, path := range jsonPaths {
		add(fmt.Sprintf("JSON path %.40q", path), configured(func(c *workv1.ManifestConfigOption) {
			c.FeedbackRules = []workv1.FeedbackRule{{Type: workv1.JSONPathsType,
				JsonPaths: []workv1.JsonPath{{Name: "evil", Path: path}}}}
		}))
	}
	for name, change := range strange {
		w := configured(func(*workv1.ManifestConfigOption) {})
		change(w)
		add(name, w)
	}
	return out
}

// await creates a work, waits until the agent has reported on it, and deletes it.
func await(t *testing.T, works worktyped.ManifestWorkInterface, w *workv1.ManifestWork) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	created, err := works.Create(ctx, w, metav1.CreateOptions{})
	switch {
	case apierrors.IsInvalid(err), apierrors.IsBadRequest(err), apierrors.IsRequestEntityTooLargeError(err):
		t.Logf("the source refuses it: %.200v", err)
		return
	case err != nil:
		t.Error(err)
		return
	}
	for ctx.Err() == nil {
		if now, err := works.Get(ctx, w.Name, metav1.GetOptions{}); err == nil {
			if reported(now, created.Generation) {
				break
			}
		}
		time.Sleep(20 * time.Millisecond)
	}
	if ctx.Err() != nil {
		t.Error("the agent has not reported on the work")
	}
	if err := works.Delete(context.Background(), w.Name, metav1.DeleteOptions{}); err != nil {
		t.Error(err)
	}
	for end := time.Now().Add(time.Minute); ; time.Sleep(20 * time.Millisecond) {
		if _, err := works.Get(context.Background(), w.Name, metav1.GetOptions{}); err != nil {
			return
		}
		if time.Now().After(end) {
			now, err := works.Get(context.Background(), w.Name, metav1.GetOptions{})
			t.Errorf("the work is not gone: %+v, %v", now.Status.Conditions, err)
			return
		}
	}
}

// reported reports whether the agent's status of a generation has arrived, or was refused as too large.
func reported(w *workv1.ManifestWork, generation int64) bool {
	applied := meta.FindStatusCondition(w.Status.Conditions, workv1.WorkApplied)
	degraded := meta.FindStatusCondition(w.Status.Conditions, workv1.WorkDegraded)
	return applied != nil && applied.ObservedGeneration == generation || degraded != nil &&
		degraded.Reason == "StatusRefused"
}

// TestAgent: no work of a hostile source ends an agent, or delays the works of another source.
func TestAgent(t *testing.T) {
	broker, cluster := mosquitto.Start(t, mosquitto.Options{}), kube.Shared(t)
	cluster.StartControllerManager() // deletions wait for the garbage collector
	core := kubernetes.NewForConfigOrDie(cluster.Config())
	if _, err := core.CoreV1().Namespaces().Create(t.Context(),
		&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "hostile"}}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	honest, evil := newSource(t, broker, "honest"), newSource(t, broker, "evil")
	v := start(t, "agent", "--cluster", "cluster1", "--broker", broker.URL(), "--source", "honest", "--source", "evil",
		"--kubeconfig", cluster.Kubeconfig(), "-v", "2")
	works := honest.Clientset().WorkV1().ManifestWorks("cluster1")
	w := &workv1.ManifestWork{ObjectMeta: metav1.ObjectMeta{Name: "honest"}}
	w.Spec.Workload.Manifests = []workv1.Manifest{manifest("honest", "0")}
	if _, err := works.Create(t.Context(), w, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	watcher, err := works.Watch(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	defer watcher.Stop()
	count := 0
	serve := func() error {
		count++
		return update(t.Context(), works, watcher, count)
	}
	if err := serve(); err != nil {
		t.Fatal(err)
	}
	v.withstand(append(agentAttacks(evil), specEvents(t, broker)...), serve)
}

// update changes the honest work and waits until it is applied.
func update(ctx context.Context, works worktyped.ManifestWorkInterface, watcher watch.Interface, n int) error {
	patch := fmt.Appendf(nil, `{"spec":{"workload":{"manifests":[%s]}}}`, manifest("honest", fmt.Sprint(n)).Raw)
	w, err := works.Patch(ctx, "honest", types.MergePatchType, patch, metav1.PatchOptions{})
	if err != nil {
		return err
	}
	limit := time.NewTimer(30 * time.Second)
	defer limit.Stop()
	for {
		select {
		case e := <-watcher.ResultChan():
			now, ok := e.Object.(*workv1.ManifestWork)
			if !ok {
				return errors.New("the watch has ended")
			}
			if c := meta.FindStatusCondition(now.Status.Conditions, workv1.WorkApplied); c != nil &&
				c.ObservedGeneration == w.Generation {
				return nil
			}
		case <-limit.C:
			return errors.New("the honest work is not applied after 30 s")
		}
	}
}

func newSource(t *testing.T, broker *mosquitto.Broker, id string) *work.Source {
	t.Helper()
	transport, err := mqtt.New(mqtt.Options{BrokerURL: broker.URL()})
	if err != nil {
		t.Fatal(err)
	}
	source, err := work.NewSource(transport, work.SourceOptions{SourceID: id})
	if err != nil {
		t.Fatal(err)
	}
	e2etest.Background(t, source.Start)
	if err := source.InventoryComplete(t.Context()); err != nil {
		t.Fatal(err)
	}
	return source
}
