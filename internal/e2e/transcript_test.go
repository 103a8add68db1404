// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package e2e_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	workclientset "open-cluster-management.io/api/client/work/clientset/versioned"
	worktyped "open-cluster-management.io/api/client/work/clientset/versioned/typed/work/v1"
	workv1 "open-cluster-management.io/api/work/v1"

	"github.com/spokewire/sdk-go/cloudevents/memory"
	"github.com/spokewire/sdk-go/cloudevents/work"
	"github.com/spokewire/sdk-go/internal/e2e/kube"
)

// works is the generated interface, which both sides implement.
type works = worktyped.ManifestWorkInterface

// placed replaces $namespace in the patches of a script with the namespace of its run.
type placed struct {
	works
	namespace string
}

func (p placed) Patch(
	ctx context.Context, name string, pt types.PatchType, data []byte, o metav1.PatchOptions, subresources ...string,
) (*workv1.ManifestWork, error) {
	return p.works.Patch(ctx, name, pt, bytes.ReplaceAll(data, []byte("$namespace"), []byte(p.namespace)), o,
		subresources...)
}

// side is the place where a script runs: a real API server, or a source and an agent that are
// connected by a bus.
type side struct {
	t *testing.T
	// hub writes specs, agent statuses. On an API server they are one.
	hub, agent works
	// last is the resourceVersion of each object when the last step returned it.
	last map[string]string
}

func realSide(t *testing.T) *side {
	t.Helper()
	cluster := kube.Shared(t)
	namespace := newWriter(t, cluster).namespace("transcript")
	c := placed{workclientset.NewForConfigOrDie(cluster.Config()).WorkV1().ManifestWorks(namespace), namespace}
	return &side{t: t, hub: c, agent: c, last: map[string]string{}}
}

func ourSide(t *testing.T) *side {
	t.Helper()
	bus := memory.New()
	source, err := work.NewSource(bus.Transport(), work.SourceOptions{SourceID: "hub"})
	if err != nil {
		t.Fatal(err)
	}
	agent, err := work.NewAgent(bus.Transport(), work.AgentOptions{ClusterName: "cluster1", Sources: []string{"hub"}})
	if err != nil {
		t.Fatal(err)
	}
	background(t, source.Start)
	if err := source.InventoryComplete(t.Context()); err != nil {
		t.Fatal(err)
	}
	background(t, agent.Start)
	return &side{
		t: t, last: map[string]string{},
		hub:   placed{source.Clientset().WorkV1().ManifestWorks("cluster1"), "cluster1"},
		agent: placed{agent.Clientset().WorkV1().ManifestWorks("cluster1"), "cluster1"},
	}
}

// step is one request of a script, with the allowed differences in its outcome.
type step struct {
	name, reason string
	onAgent      bool
	object       string // the name of the object, if the other side must have it first
	call         func(context.Context, works) (*workv1.ManifestWork, error)
	// differs maps the parts of the outcome that are not compared to the reasons.
	differs map[string]string
}

// everything means all parts of an outcome: the API server accepts a request that we refuse.
const everything = "everything"

// outcome is the visible result of a step, in parts.
type outcome map[string]string

func (s *side) run(st step) outcome {
	s.t.Helper()
	client := s.hub
	if st.object != "" {
		s.await(st.object)
	}
	if st.onAgent {
		client = s.agent
	}
	obj, err := st.call(s.t.Context(), client)
	if err != nil {
		return refusal(err)
	}
	out := describe(s.t, obj)
	version, key := "new", fmt.Sprint(obj.Name, st.onAgent)
	if obj.ResourceVersion == s.last[key] {
		version = "same"
	}
	s.last[key] = obj.ResourceVersion
	out["version"] = version
	return out
}

// await waits until the agent has the hub's spec, and the hub has the agent's status. On an API
// server this is the case immediately.
func (s *side) await(name string) {
	s.t.Helper()
	eventually(s.t, "hub and agent agree on "+name, func() error {
		hub, err := s.hub.Get(s.t.Context(), name, metav1.GetOptions{})
		if apierrors.IsNotFound(err) {
			return nil
		} else if err != nil {
			return err
		}
		agent, err := s.agent.Get(s.t.Context(), name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		if agent.Generation != hub.Generation || !apiequality.Semantic.DeepEqual(agent.Status, hub.Status) {
			return fmt.Errorf("the agent has %v of %d, the hub %v of %d", agent.Status, agent.Generation, hub.Status,
				hub.Generation)
		}
		return nil
	})
}

var changing = regexp.MustCompile(`at \d{4}-\d\d-\d\dT[0-9:]+Z|[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f-]{22}`)

// refusal describes an error, without its random parts.
func refusal(err error) outcome {
	var status apierrors.APIStatus
	if !errors.As(err, &status) {
		return outcome{"error": err.Error()}
	}
	st := status.Status()
	out := outcome{
		"reason":  fmt.Sprintf("%d %s", st.Code, st.Reason),
		"message": changing.ReplaceAllString(st.Message, "…"),
	}
	if d := st.Details; d != nil {
		var causes []string
		for _, c := range d.Causes {
			if c.Field == "patch" {
				c.Message = "" // the message quotes the patched object
			}
			causes = append(causes, changing.ReplaceAllString(fmt.Sprintf("%s: %s: %s", c.Field, c.Type, c.Message), "…"))
		}
		slices.Sort(causes)             // the API server's validator iterates over maps
		causes = slices.Compact(causes) // and on updates it finds some causes twice, as its log shows
		out["causes"] = strings.Join(causes, "\n")
		if len(causes) > 0 {
			delete(out, "message") // the message repeats the causes
		}
		out["details"] = fmt.Sprintf("%s %s %s", d.Group, d.Kind, d.Name)
	}
	return out
}

// describe returns the parts of an object, without random values.
func describe(t *testing.T, obj *workv1.ManifestWork) outcome {
	t.Helper()
	out := outcome{}
	for part, value := range map[string]any{
		"metadata": map[string]any{
			"labels": obj.Labels, "annotations": obj.Annotations, "finalizers": obj.Finalizers, "owners": obj.OwnerReferences,
		},
		"spec": obj.Spec, "status": obj.Status,
	} {
		data, err := json.Marshal(value)
		if err != nil {
			t.Fatal(err)
		}
		var plain any // so the order of members makes no difference
		if err := json.Unmarshal(data, &plain); err != nil {
			t.Fatal(err)
		}
		data, err = json.MarshalIndent(plain, "", " ")
		if err != nil {
			t.Fatal(err)
		}
		out[part] = string(data)
	}
	out["generation"] = fmt.Sprint(obj.Generation)
	var managers, ofStatus []string
	for _, m := range obj.ManagedFields {
		line := fmt.Sprintf("%s %s %s %s %s: %s", m.Manager, m.Operation, m.Subresource, m.APIVersion, m.FieldsType,
			m.FieldsV1)
		if m.Subresource == "status" {
			ofStatus = append(ofStatus, line)
		} else {
			managers = append(managers, line)
		}
	}
	slices.Sort(managers)
	slices.Sort(ofStatus)
	out["managers"], out["managers of the status"] = strings.Join(managers, "\n"), strings.Join(ofStatus, "\n")
	return out
}

// conform runs a script on both sides and compares the outcomes step by step.
func conform(t *testing.T, script []step) {
	t.Helper()
	t.Parallel()
	reference, ours := realSide(t), ourSide(t)
	for _, st := range script {
		want, got := reference.run(st), ours.run(st)
		for part := range st.differs {
			if part == everything {
				clear(want)
				clear(got)
			}
			delete(want, part)
			delete(got, part)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s: %s (-API server +ours):\n%s", st.name, st.reason, diff)
		}
		if testing.Verbose() {
			t.Logf("%s: %v", st.name, want)
		}
	}
}
