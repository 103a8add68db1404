// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package agent_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	workv1 "open-cluster-management.io/api/work/v1"

	"github.com/spokewire/sdk-go/appliedwork/v1alpha1"
)

// TestRights shows the limits of an author of works, if the agent itself has all rights.
func TestRights(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	for name, test := range map[string]func(*testing.T){
		"WorkWithoutExecutorIsRefused": func(t *testing.T) {
			w.managed(t, "mqtt", "required", "--require-executor", "--poll", "1s").workWithoutExecutor()
		},
		"WorkThatLosesExecutorIsDeletedAsBefore": func(t *testing.T) {
			w.managed(t, "kube", "loses", "--executor", "loses-objects/*").losesExecutor()
		},
		"WorkOfEarlierAgentIsNotDeletedWithAgentsRights": func(t *testing.T) {
			w.managed(t, "kube", "earlier").earlier()
		},
		"EvictionNeedsAllowedExecutor": func(t *testing.T) {
			w.managed(t, "kube", "evict-refused", "--eviction-grace", "1s").evictionRefused()
		},
		"OtherExecutorIsRefused": func(t *testing.T) {
			w.managed(t, "kube", "other", "--executor", "other-objects/d*").otherExecutor()
		},
		"RulesReadWithExecutorsRights": func(t *testing.T) {
			w.managed(t, "kube", "reads", "--poll", "1s").readsAsExecutor()
		},
		"RulesDoNotReadSecrets": func(t *testing.T) {
			w.managed(t, "kube", "secrets", "--adopt", "unowned").secrets(false)
		},
		"SecretFeedback": func(t *testing.T) {
			w.managed(t, "kube", "told", "--adopt", "unowned", "--secret-feedback").secrets(true)
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test(t)
		})
	}
}

const group = "rbac.authorization.k8s.io"

// deployer creates a service account with rights on ConfigMaps in the namespace of the test, and
// returns it as executor.
func (s *scene) deployer(name string) *workv1.ManifestWorkExecutor {
	s.t.Helper()
	at := fmt.Sprintf(`"metadata":{"name":%q,"namespace":%q}`, name, s.ns)
	s.existing(`{"apiVersion":"v1","kind":"ServiceAccount",` + at + `}`)
	s.existing(`{"apiVersion":"` + group + `/v1","kind":"Role",` + at + `,"rules":[{"apiGroups":[""],
		"resources":["configmaps"],"verbs":["get","list","create","patch","delete"]}]}`)
	s.bind(s.ns, name, name)
	return &workv1.ManifestWorkExecutor{Subject: workv1.ManifestWorkExecutorSubject{
		Type:           workv1.ExecutorSubjectTypeServiceAccount,
		ServiceAccount: &workv1.ManifestWorkSubjectServiceAccount{Namespace: s.ns, Name: name},
	}}
}

// bind binds a role of a namespace to a service account of the test.
func (s *scene) bind(namespace, role, account string) {
	s.t.Helper()
	s.existing(fmt.Sprintf(`{"apiVersion":"%[1]s/v1","kind":"RoleBinding","metadata":{"name":%[2]q,"namespace":%[3]q},
		"roleRef":{"apiGroup":%[1]q,"kind":"Role","name":%[4]q},
		"subjects":[{"kind":"ServiceAccount","name":%[2]q,"namespace":%[5]q}]}`, group, account, namespace, role, s.ns))
}

// asked records the requests for objects of a namespace or a kind, with their users.
func (s *scene) asked(path string) func() []string {
	var mu sync.Mutex
	var requests []string
	s.process.observe(func(r *http.Request) {
		if strings.Contains(r.URL.Path, path) {
			mu.Lock()
			defer mu.Unlock()
			requests = append(requests, fmt.Sprintf("%s %s as %q", r.Method, r.URL, r.Header.Get("Impersonate-User")))
		}
	})
	return func() []string {
		mu.Lock()
		defer mu.Unlock()
		return slices.Clone(requests)
	}
}

// reading returns the work of a hub that tries to read an object.
func (s *scene) reading(manifest, resource, field string) workv1.ManifestWorkSpec {
	work := spec(manifest)
	obj := s.object(manifest)
	path, cel := workv1.JsonPath{Name: "value", Path: ".data." + field}, workv1.CelConditionExpressionsType
	rule := workv1.ConditionRule{Type: cel, CelExpressions: []string{"true"}, MessageExpression: "object.data." + field}
	read, progressing := rule, rule
	read.Condition, progressing.Condition = "Read", workv1.ManifestProgressing
	work.ManifestConfigs = []workv1.ManifestConfigOption{{
		ResourceIdentifier: workv1.ResourceIdentifier{
			Resource: resource, Namespace: obj.GetNamespace(), Name: obj.GetName(),
		},
		UpdateStrategy: &workv1.UpdateStrategy{Type: workv1.UpdateStrategyTypeReadOnly},
		FeedbackRules:  []workv1.FeedbackRule{{Type: workv1.JSONPathsType, JsonPaths: []workv1.JsonPath{path}}},
		ConditionRules: []workv1.ConditionRule{read, progressing},
	}}
	return work
}

// tells reports whether the status of a work contains a text.
func tells(w *workv1.ManifestWork, text string) bool {
	content, _ := json.Marshal(w.Status)
	return strings.Contains(string(content), text)
}

const required = "ExecutorRefused Failed to apply manifest: the agent requires an executor, and the work has no " +
	"executor"

// workWithoutExecutor: the agent applies and reads nothing for a work without an executor, and the
// work's status reports it.
func (s *scene) workWithoutExecutor() {
	s.existing(s.configMap("theirs", "confidential"))
	asked := s.asked("/namespaces/" + s.ns + "/")
	s.create("read", s.reading(s.configMap("theirs", ""), "configmaps", "value"))
	s.create("apply", spec(s.configMap("new", "1"), s.configMap("theirs", "ours")))
	for _, name := range []string{"read", "apply"} {
		w := s.until(name, "is refused", func(w *workv1.ManifestWork) error {
			m := w.Status.ResourceStatus.Manifests[0]
			return errors.Join(
				has(w.Status.Conditions, workv1.WorkApplied, metav1.ConditionFalse, "set spec.executor to a service account"),
				has(m.Conditions, workv1.ManifestApplied, metav1.ConditionFalse, required),
				has(m.Conditions, workv1.ManifestAvailable, metav1.ConditionUnknown, "requires an executor"),
			)
		})
		if tells(w, "confidential") {
			s.t.Errorf("the status has what was read: %+v", w.Status)
		}
		if record := s.record(name); record != nil {
			s.t.Errorf("an AppliedWork is there: %+v", record)
		}
		s.delete(name)
		s.gone(name)
	}
	if requests := asked(); len(requests) > 0 {
		s.t.Errorf("requests for objects: %q", requests)
	}
	s.absent(s.configMap("new", ""))
	if got := s.value("theirs"); got != "confidential" {
		s.t.Errorf("the value is %s", got)
	}

	good := spec(s.configMap("new", "1"))
	good.Executor = s.deployer("deployer")
	s.create("good", good)
	s.applied("good")
	s.delete("good")
	s.gone("good")
	s.absent(s.configMap("new", ""))
	user := `"system:serviceaccount:` + s.ns + `:deployer"`
	for _, request := range asked() {
		if !strings.HasSuffix(request, user) && !strings.Contains(request, "watch=") {
			s.t.Errorf("%s, want %s", request, user)
		}
	}
}

// losesExecutor: a work that loses its executor keeps its applied state, and is deleted with the
// rights of that executor.
func (s *scene) losesExecutor() {
	work := spec(s.configMap("c", "1"))
	work.Executor = s.deployer("deployer")
	s.create("w", work)
	s.applied("w")
	s.update("w", func(spec *workv1.ManifestWorkSpec) {
		spec.Executor = nil
		manifests(s.configMap("c", "2"))(spec)
	})
	s.until("w", "is refused", func(w *workv1.ManifestWork) error {
		return has(w.Status.ResourceStatus.Manifests[0].Conditions, workv1.ManifestApplied, metav1.ConditionFalse, required)
	})
	if got := s.value("c"); got != "1" {
		s.t.Errorf("the value is %s", got)
	}
	asked := s.asked("/configmaps/c")
	s.delete("w")
	s.gone("w")
	s.absent(s.configMap("c", ""))
	deleted := false
	for _, request := range asked() {
		if strings.HasPrefix(request, http.MethodDelete) {
			deleted = true
			if !strings.HasSuffix(request, `as "system:serviceaccount:`+s.ns+`:deployer"`) {
				s.t.Error(request)
			}
		}
	}
	if !deleted {
		s.t.Error("there was no request to delete the object")
	}
}

// earlier: an agent that requires an executor does not delete objects with its own rights, even if
// it applied them with these rights before.
func (s *scene) earlier() {
	s.create("owned", spec(s.configMap("a", "1")))
	s.create("deployed", spec(s.configMap("b", "1")))
	s.applied("owned")
	s.applied("deployed")
	s.process.stop()
	s.process.args = append(s.process.args, "--require-executor")
	s.process.run()
	record := s.record("owned")
	for _, name := range []string{"owned", "deployed"} {
		s.delete(name)
		eventually(s.t, "the refusal of "+name+" is reported", func() error {
			w, err := s.work(name)
			if err != nil {
				return err
			}
			const kind, status = workv1.WorkDeleting, metav1.ConditionTrue
			return has(w.Status.Conditions, kind, status, "or delete AppliedWork "+s.record(name).Name)
		})
	}
	if got := s.value("a") + s.value("b"); got != "11" {
		s.t.Errorf("the values are %s", got)
	}
	// Either the cluster's administrator deletes the AppliedWork, or the work gets an executor.
	records := s.admin.Resource(v1alpha1.GroupVersionResource)
	if err := records.Delete(s.t.Context(), record.Name, metav1.DeleteOptions{}); err != nil {
		s.t.Fatal(err)
	}
	executor := s.deployer("deployer")
	s.update("deployed", func(spec *workv1.ManifestWorkSpec) { spec.Executor = executor })
	for _, name := range []string{"owned", "deployed"} {
		s.gone(name)
	}
	eventually(s.t, "the objects are gone", func() error {
		if s.get(s.configMap("a", "")) != nil || s.get(s.configMap("b", "")) != nil {
			return errors.New("they are there")
		}
		return nil
	})
}

// evictionRefused: objects of a work that the hub has lost stay if the agent would need its own
// rights to delete them.
func (s *scene) evictionRefused() {
	s.create("lost", spec(s.configMap("c", "1")))
	s.applied("lost")
	s.process.stop()
	s.forget("lost")
	s.process.args = append(s.process.args, "--require-executor")
	s.process.run()
	s.process.logs(s.t, `lost err="the agent requires an executor`)
	if got := s.value("c"); got != "1" {
		s.t.Errorf("the value is %s", got)
	}
}

// otherExecutor: a work may have only an executor that the agent's command line allows.
func (s *scene) otherExecutor() {
	allowed, other := s.deployer("deployer"), s.deployer("admin")
	work := spec(s.configMap("c", "1"))
	work.Executor = other
	asked := s.asked("/configmaps/c")
	s.create("w", work)
	s.until("w", "is refused", func(w *workv1.ManifestWork) error {
		return has(w.Status.ResourceStatus.Manifests[0].Conditions, workv1.ManifestApplied, metav1.ConditionFalse,
			"ExecutorRefused Failed to apply manifest: the agent does not allow the executor other-objects/admin: "+
				"set spec.executor to a service account that matches other-objects/d*, "+
				"or start the agent with --executor other-objects/admin")
	})
	if requests := asked(); len(requests) > 0 {
		s.t.Errorf("requests for the object: %q", requests)
	}
	s.update("w", func(spec *workv1.ManifestWorkSpec) { spec.Executor = allowed })
	s.applied("w")
	s.delete("w")
	s.gone("w")
}

// readsAsExecutor: rules read only objects that the executor may read, and the agent does not watch
// others.
func (s *scene) readsAsExecutor() {
	const namespace = "reads-elsewhere"
	s.namespace(s.t, namespace)
	theirs := strings.ReplaceAll(s.configMap("theirs", "confidential"), s.ns, namespace)
	s.existing(theirs)
	asked := s.asked("/" + namespace + "/")
	work := s.reading(theirs, "configmaps", "value")
	work.Executor = s.deployer("deployer")
	s.create("w", work)
	user := "system:serviceaccount:" + s.ns + ":deployer"
	refused := func(w *workv1.ManifestWork) error {
		m := w.Status.ResourceStatus.Manifests[0]
		denied := "the executor " + user + " is not allowed to: "
		return errors.Join(has(m.Conditions, workv1.ManifestAvailable, metav1.ConditionUnknown, denied),
			has(m.Conditions, "Read", metav1.ConditionUnknown, "not allowed"))
	}
	w := s.until("w", "may not read", refused)
	eventually(s.t, "the object is polled", func() error {
		if len(asked()) < 3 {
			return errors.New("it is not")
		}
		return nil
	})
	if tells(w, "confidential") {
		s.t.Errorf("the status has what was read: %+v", w.Status)
	}
	for _, request := range asked() {
		if !strings.HasSuffix(request, fmt.Sprintf("as %q", user)) {
			s.t.Errorf("%s, want %q", request, user)
		}
	}

	s.existing(`{"apiVersion":"` + group + `/v1","kind":"Role","metadata":{"name":"reader","namespace":"` + namespace + `"},
		"rules":[{"apiGroups":[""],"resources":["configmaps"],"verbs":["get"]}]}`)
	s.bind(namespace, "reader", "deployer")
	s.until("w", "reads what the executor may read", func(w *workv1.ManifestWork) error {
		m := w.Status.ResourceStatus.Manifests[0]
		if len(m.StatusFeedbacks.Values) != 1 {
			return errors.New("there is no value")
		}
		return errors.Join(has(m.Conditions, "Read", metav1.ConditionTrue, "confidential"),
			has(m.Conditions, workv1.ManifestProgressing, metav1.ConditionTrue, "confidential"))
	})
	s.delete("w")
	s.gone("w")
}

// secrets: rules read Secrets only if the agent's command line allows that.
func (s *scene) secrets(told bool) {
	secret := fmt.Sprintf(`{"apiVersion":"v1","kind":"Secret","metadata":{"name":"s","namespace":%q},
		"data":{"password":"aHVudGVyMg=="}}`, s.ns)
	s.existing(secret)
	work := s.reading(strings.Replace(secret, "aHVudGVyMg==", "", 1), "secrets", "password")
	s.create("read", work)
	condition, synced := metav1.ConditionUnknown, metav1.ConditionFalse
	if told {
		condition, synced = metav1.ConditionTrue, metav1.ConditionTrue
	}
	w := s.until("read", "has the conditions", func(w *workv1.ManifestWork) error {
		m := w.Status.ResourceStatus.Manifests[0]
		return errors.Join(has(m.Conditions, "Read", condition, ""), has(m.Conditions, "StatusFeedbackSynced", synced, ""))
	})
	m := w.Status.ResourceStatus.Manifests[0]
	if tells(w, "aHVudGVyMg==") != told || (len(m.StatusFeedbacks.Values) == 1) != told {
		s.t.Errorf("the status is %+v", m)
	}
	const refusal = "SecretNotRead rules do not read Secrets: remove the rules, or start the agent with --secret-feedback"
	if !told {
		for _, kind := range []string{"StatusFeedbackSynced", "ConditionRulesUsable"} {
			if err := has(m.Conditions, kind, metav1.ConditionFalse, refusal); err != nil {
				s.t.Error(err)
			}
		}
		if err := has(m.Conditions, workv1.ManifestProgressing, metav1.ConditionFalse, ""); err != nil {
			s.t.Errorf("a rule has decided: %v", err)
		}
	}
	s.delete("read")
	s.gone("read")

	// Paths with comparisons reveal the value to the hub by their results and by their duration.
	work = spec(secret)
	jq := `select(.data.password | startswith("a")) | .data.password`
	work.ManifestConfigs = []workv1.ManifestConfigOption{{
		ResourceIdentifier: workv1.ResourceIdentifier{Resource: "secrets", Namespace: s.ns, Name: "s"},
		UpdateStrategy: &workv1.UpdateStrategy{
			Type: workv1.UpdateStrategyTypeServerSideApply,
			ServerSideApply: &workv1.ServerSideApplyConfig{Force: true, IgnoreFields: []workv1.IgnoreField{{
				Condition: workv1.IgnoreFieldsConditionOnSpokePresent, JQPathExpressions: []string{jq},
			}}},
		},
	}}
	s.create("ignore", work)
	if told {
		s.applied("ignore")
		return
	}
	s.until("ignore", "is refused", func(w *workv1.ManifestWork) error {
		return has(w.Status.ResourceStatus.Manifests[0].Conditions, workv1.ManifestApplied, metav1.ConditionFalse,
			"rules must not read Secrets: name the field in jsonPointers, or start the agent with --secret-feedback")
	})
	s.update("ignore", func(spec *workv1.ManifestWorkSpec) {
		spec.ManifestConfigs[0].UpdateStrategy.ServerSideApply.IgnoreFields = []workv1.IgnoreField{{
			Condition: workv1.IgnoreFieldsConditionOnSpokePresent, JSONPointers: []string{"/data/password"},
		}}
	})
	s.applied("ignore")
}
