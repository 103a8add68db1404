// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package codec_test

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	workv1 "open-cluster-management.io/api/work/v1"

	"github.com/spokewire/sdk-go/codec"
)

// change applies f to a message and returns the message.
func change[M any](m M, f func(M)) M {
	f(m)
	return m
}

func TestEncodeRefuses(t *testing.T) {
	type (
		spec         = codec.Spec
		status       = codec.Status
		specResync   = codec.SpecResync
		statusResync = codec.StatusResync
	)
	far := time.Date(12024, 1, 1, 0, 0, 0, 0, time.UTC)
	for _, tc := range []struct {
		name, reason string
		message      codec.Message
		code         codec.Code
		field        string
	}{
		{"nil", "nothing to say", nil, codec.CodeType, ""},
		{"nil pointer", "nothing to say", (*spec)(nil), codec.CodeType, ""},
		{"no ID", "CloudEvents requires it", change(newSpec(), func(m *spec) { m.ID = "" }), codec.CodeAttribute, "id"},
		{"ID with newline", "CloudEvents forbids control characters", change(newSpec(), func(m *spec) { m.ID = "a\n" }),
			codec.CodeAttribute, "id"},
		{"far time", "RFC 3339 has four digits", change(newSpec(), func(m *spec) { m.Time = far }), codec.CodeAttribute,
			"time"},
		{"no source", "a level of the topic", change(newSpec(), func(m *spec) { m.Source = "" }), codec.CodeTopic, "source"},
		{"bad source", "two levels", change(newSpec(), func(m *spec) { m.Source = "a/b" }), codec.CodeTopic, "source"},
		{"no cluster", "a level of the topic", change(newSpec(), func(m *spec) { m.Cluster = "" }), codec.CodeTopic,
			"cluster"},
		{"bad cluster", "a wildcard", change(newStatus(), func(m *status) { m.Cluster = "+" }), codec.CodeTopic, "cluster"},
		{"trace parent", "control character", change(newSpec(), func(m *spec) { m.TraceParent = "\x01" }),
			codec.CodeAttribute, "traceparent"},
		{"long attribute", "MQTT has 16 bits for its length",
			change(newSpec(), func(m *spec) { m.AgentSession = strings.Repeat("x", 1<<16) }), codec.CodeAttribute,
			"agentsession"},
		{"no resource ID", "required", change(newSpec(), func(m *spec) { m.ResourceID, m.UID = "", "" }), codec.CodeAttribute,
			"resourceid"},
		{"negative version", "versions count up", change(newSpec(), func(m *spec) { m.Version = -1 }), codec.CodeAttribute,
			"resourceversion"},
		{"negative sequence", "sequences count up", change(newSpec(), func(m *spec) { m.StatusSeq = -1 }),
			codec.CodeAttribute, "statusseq"},
		{"not UTF-8", "attributes are Unicode", change(newSpec(), func(m *spec) { m.Name, m.UID = "\xff", "" }),
			codec.CodeAttribute, "workname"},
		{"noncharacter", "CloudEvents forbids it", change(newSpec(), func(m *spec) { m.Name, m.UID = "\ufdd0", "" }),
			codec.CodeAttribute, "workname"},
		{"C1", "CloudEvents forbids control characters", change(newSpec(), func(m *spec) { m.Name, m.UID = "\u0085", "" }),
			codec.CodeAttribute, "workname"},
		{"foreign ID", "an incarnation has the ID of its work", change(newSpec(), func(m *spec) { m.Name = "other" }),
			codec.CodeMismatch, "resourceid"},
		{"UID without name", "the ID cannot be checked", change(newSpec(), func(m *spec) { m.Name = "" }), codec.CodeMismatch,
			"resourceid"},
		{"far deletion", "RFC 3339 has four digits", change(newDelete(), func(m *spec) { m.DeletionTimestamp.Time = far }),
			codec.CodeAttribute, "deletiontimestamp"},
		{"zero deletion", "metav1 takes it for none",
			change(newDelete(), func(m *spec) { m.DeletionTimestamp.Time = time.Time{} }), codec.CodeAttribute,
			"deletiontimestamp"},
		{"no work", "only a deletion can do without", change(newSpec(), func(m *spec) { m.Work = nil }), codec.CodeData,
			"data"},
		{"negative generation", "generations count up", change(newSpec(), func(m *spec) { m.Work.Generation = -1 }),
			codec.CodeData, "data.metadata.generation"},
		{"far creation", "RFC 3339 has four digits", change(newSpec(), func(m *spec) { m.Work.CreationTimestamp.Time = far }),
			codec.CodeData, "data.metadata.creationTimestamp"},
		{"empty manifest", "neither raw nor object",
			change(newSpec(), func(m *spec) { m.Work.Spec.Workload.Manifests[1].Raw = nil }), codec.CodeData,
			"data.manifests[1]"},
		{"broken manifest", "it would break the whole event",
			change(newSpec(), func(m *spec) { m.Work.Spec.Workload.Manifests[0] = manifest(`{"a":}`) }), codec.CodeData,
			"data.manifests[0]"},
		{"two manifests in one", "it would break the whole event",
			change(newSpec(), func(m *spec) { m.Work.Spec.Workload.Manifests[0] = manifest(`{},{}`) }), codec.CodeData,
			"data.manifests[0]"},
		{"manifest is a list", "resources are objects",
			change(newSpec(), func(m *spec) { m.Work.Spec.Workload.Manifests[0] = manifest(`[]`) }), codec.CodeData,
			"data.manifests[0]"},
		{"manifest is null", "resources are objects",
			change(newSpec(), func(m *spec) { m.Work.Spec.Workload.Manifests[0] = manifest(`null`) }), codec.CodeData,
			"data.manifests[0]"},
		{"deep manifest", "the reader's limit counts from the event",
			change(newSpec(), func(m *spec) {
				m.Work.Spec.Workload.Manifests[0] = manifest(
					nested(codec.MaxManifestDepth + 1))
			}), codec.CodeData, "data.manifests[0]"},
		{"unmarshallable object", "the object's own error", change(newSpec(), func(m *spec) {
			m.Work.Spec.Workload.Manifests[0] = workv1.Manifest{RawExtension: runtime.RawExtension{Object: badObject{}}}
		}), codec.CodeData, "data.manifests[0]"},
		{"no agent", "the CloudEvents source", change(newStatus(), func(m *status) { m.Agent = "" }), codec.CodeAttribute,
			"source"},
		{"agent with tab", "CloudEvents forbids control characters", change(newStatus(), func(m *status) { m.Agent = "\t" }),
			codec.CodeAttribute, "source"},
		{"status without ID", "required", change(newStatus(), func(m *status) { m.ResourceID, m.UID = "", "" }),
			codec.CodeAttribute, "specresourceid"},
		{"status of a foreign ID", "an incarnation has the ID of its work",
			change(newStatus(), func(m *status) { m.Name = "other" }), codec.CodeMismatch, "specresourceid"},
		{"negative status version", "versions count up", change(newStatus(), func(m *status) { m.Version = -1 }),
			codec.CodeAttribute, "specresourceversion"},
		{"negative sequence ID", "sequences count up", change(newStatus(), func(m *status) { m.SequenceID = -1 }),
			codec.CodeAttribute, "sequenceid"},
		{"far condition", "it has no encoding",
			change(newStatus(), func(m *status) { m.Status.Conditions[0].LastTransitionTime.Time = far }), codec.CodeData,
			"data"},
		{"far manifest condition", "it has no encoding", change(newStatus(), func(m *status) {
			m.Status.ResourceStatus.Manifests[0].Conditions[0].LastTransitionTime.Time = far
		}), codec.CodeData, "data"},
		{"resync of no cluster", "a level of the topic", change(newSpecResync(), func(m *specResync) { m.Cluster = "" }),
			codec.CodeTopic, "cluster"},
		{"two sources", "for one and from the other",
			change(newSpecResync(), func(m *specResync) { m.Source, m.TargetSource = "a", "b" }), codec.CodeMismatch,
			"targetsource"},
		{"bad target", "it is a source ID", change(newSpecResync(), func(m *specResync) { m.TargetSource = "a/b" }),
			codec.CodeAttribute, "targetsource"},
		{"lists", "agents are asked for lists", change(newSpecResync(), func(m *specResync) { m.Scope = codec.ScopeLists }),
			codec.CodeAttribute, "resyncscope"},
		{"unknown scope", "no reader knows it", change(newStatusResync(), func(m *statusResync) { m.Scope = "some" }),
			codec.CodeAttribute, "resyncscope"},
		{"digests", "agents are asked for digests",
			change(newSpecResync(), func(m *specResync) { m.Scope = codec.ScopeDigest }), codec.CodeAttribute, "resyncscope"},
		{"digest of all", "each agent has its own", change(newStatusResync(), func(m *statusResync) {
			m.Broadcast, m.Scope, m.Part = true, codec.ScopeDigest, codec.Part{Buckets: 1}
		}), codec.CodeAttribute, "resyncscope"},
		{"digest without buckets", "the number of sums is unknown", change(newStatusResync(),
			func(m *statusResync) { m.Scope = codec.ScopeDigest }), codec.CodeAttribute, "resyncscope"},
		{"three buckets", "not a power of two", change(newSpecResync(), func(m *specResync) { m.Part.Buckets = 3 }),
			codec.CodeAttribute, "buckets"},
		{"bucket beyond", "buckets count from 0",
			change(newSpecResync(), func(m *specResync) { m.Part = codec.Part{Buckets: 2, Listed: []int{2}} }),
			codec.CodeAttribute, "buckets"},
		{"no session", "a heartbeat is of one process", change(newDigest(), func(m *codec.Digest) { m.AgentSession = "" }),
			codec.CodeAttribute, "agentsession"},
		{"no sums", "one at least", change(newDigest(), func(m *codec.Digest) { m.Sums = nil }), codec.CodeAttribute,
			"digest"},
		{"negative works", "impossible", change(newDigest(), func(m *codec.Digest) { m.Works = -1 }), codec.CodeAttribute,
			"digest"},
		{"index too high", "chunks count from 0",
			change(newSpecResync(), func(m *specResync) { m.Chunk = codec.Chunk{Index: 2, Count: 2} }), codec.CodeAttribute,
			"chunkindex"},
		{"index without count", "of how many",
			change(newSpecResync(), func(m *specResync) { m.Chunk = codec.Chunk{Index: 1} }), codec.CodeAttribute, "chunkindex"},
		{"negative count", "impossible", change(newSpecResync(), func(m *specResync) { m.Chunk = codec.Chunk{Count: -1} }),
			codec.CodeAttribute, "chunkcount"},
		{"chunk without resync ID", "nothing ties it to the others", change(newStatusResync(),
			func(m *statusResync) { m.ResyncID, m.Chunk = "", codec.Chunk{Count: 2} }), codec.CodeAttribute, "resyncid"},
		{"entry without ID", "required", change(newSpecResync(), func(m *specResync) { m.Entries[1].ResourceID = "" }),
			codec.CodeData, "data.resourceVersions[1].resourceID"},
		{"entry of negative version", "versions count up",
			change(newSpecResync(), func(m *specResync) { m.Entries[0].Version = -1 }), codec.CodeData,
			"data.resourceVersions[0].resourceVersion"},
		{"entry of negative sequence", "sequences count up",
			change(newSpecResync(), func(m *specResync) { m.Entries[0].SequenceID = -1 }), codec.CodeData,
			"data.resourceVersions[0].sequenceID"},
		{"entry of bad source", "JSON is Unicode",
			change(newSpecResync(), func(m *specResync) { m.Entries[0].Source = "\xff" }), codec.CodeData,
			"data.resourceVersions[0].source"},
		{"entry of bad ID", "JSON is Unicode", change(newStatusResync(),
			func(m *statusResync) { m.Entries[0].ResourceID = "\xff" }), codec.CodeData, "data.statusHashes[0].resourceID"},
		{"entry of bad UID", "JSON is Unicode", change(newStatusResync(),
			func(m *statusResync) { m.Entries[0].UID = "\xff" }), codec.CodeData, "data.statusHashes[0].uid"},
		{"entry of bad hash", "JSON is Unicode", change(newStatusResync(),
			func(m *statusResync) { m.Entries[0].Hash = "\xff" }), codec.CodeData, "data.statusHashes[0].statusHash"},
		{"entry of negative status", "sequences count up", change(newStatusResync(),
			func(m *statusResync) { m.Entries[1].StatusSeq = -1 }), codec.CodeData, "data.statusHashes[1].statusSeq"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			topic, e, err := codec.ManifestWork.Encode(tc.message)
			if topic != "" || e != nil {
				t.Errorf("%s: got an event", tc.reason)
			}
			wantError(t, err, tc.code, tc.field, tc.reason)
		})
	}
}

// nested returns JSON objects that are nested to a depth.
func nested(depth int) string {
	return strings.Repeat(`{"a":`, depth-1) + "{}" + strings.Repeat("}", depth-1)
}

// badObject is an object that cannot be encoded as JSON.
type badObject struct{ runtime.Object }

func (badObject) MarshalJSON() ([]byte, error) { return nil, errBad }

var errBad = &codec.Error{Reason: "bad object"}

func TestEncodeManifestWithoutRawBytes(t *testing.T) {
	m := newSpec()
	m.Work.Spec.Workload.Manifests = []workv1.Manifest{{RawExtension: runtime.RawExtension{Object: &workv1.ManifestWork{
		TypeMeta: metav1.TypeMeta{APIVersion: "work.open-cluster-management.io/v1", Kind: "ManifestWork"},
	}}}}
	topic, payload := structured(t, m)
	got := decode(t, topic, payload).(*codec.Spec).Work.Spec.Workload.Manifests[0]
	if !strings.HasPrefix(string(got.Raw), `{"kind":"ManifestWork","apiVersion":"work.open-cluster-management.io/v1"`) {
		t.Errorf("an object without raw bytes is written as %s", got.Raw)
	}
}

// TestEncodeKeepsMessageAndManifests checks that Encode does not change the message, and copies manifests unchanged,
// except for the space around them.
func TestEncodeKeepsMessageAndManifests(t *testing.T) {
	const raw = `{ "z": 1.0, "a": "\u00e4",` + "\n" + `"z": 1e400 }`
	m := newSpec()
	m.Work.Spec.Workload.Manifests = []workv1.Manifest{manifest(" \n" + raw + "\t")}
	want := &codec.Spec{Header: m.Header, WorkRef: m.WorkRef, AgentSession: m.AgentSession, StatusSeq: m.StatusSeq,
		Work: m.Work.DeepCopy()}
	topic, payload := structured(t, m)
	if diff := cmp.Diff(want, m, sameMessage); diff != "" {
		t.Errorf("the message changed (-want +got):\n%s", diff)
	}
	got := decode(t, topic, payload).(*codec.Spec).Work.Spec.Workload.Manifests[0].Raw
	if string(got) != raw {
		t.Errorf("got manifest %s, want %s", got, raw)
	}
}
