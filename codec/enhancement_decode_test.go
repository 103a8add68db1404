// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package codec_test

import (
	"encoding/json"
	"strings"
	"testing"

	ce "github.com/cloudevents/sdk-go/v2/event"
	"github.com/google/go-cmp/cmp"
	workv1 "open-cluster-management.io/api/work/v1"

	"github.com/spokewire/sdk-go/codec"
)

type fields map[string]any

// eventWith encodes a message, changes members of the event's JSON (nil removes one) and returns the topic and the
// result.
func eventWith(tb testing.TB, m codec.Message, changes fields) (string, []byte) {
	tb.Helper()
	topic, payload := structured(tb, m)
	var event map[string]json.RawMessage
	if err := json.Unmarshal(payload, &event); err != nil {
		tb.Fatal(err)
	}
	for name, value := range changes {
		delete(event, name)
		switch value := value.(type) {
		case nil:
		case json.RawMessage:
			event[name] = value
		default:
			event[name], _ = json.Marshal(value)
		}
	}
	payload, err := json.Marshal(event)
	if err != nil {
		tb.Fatal(err)
	}
	return topic, payload
}

func raw(text string) json.RawMessage { return json.RawMessage(text) }

func TestDecodeRefuses(t *testing.T) {
	spec, status, gone := codec.Message(newSpec()), codec.Message(newStatus()), codec.Message(newDelete())
	agentResync, sourceResync := codec.Message(newSpecResync()), codec.Message(newStatusResync())
	directed := newSpecResync()
	directed.Source, directed.Broadcast = source, false
	broadcast := newStatusResync()
	broadcast.Cluster, broadcast.Broadcast = "", true

	for _, tc := range []struct {
		name, reason string
		message      codec.Message
		changes      fields
		code         codec.Code
		field        string
	}{
		{"foreign type", "another system's event", spec, fields{"type": "x"}, codec.CodeType, "type"},
		{"status type", "not on this topic", spec,
			fields{"type": "io.open-cluster-management.v1.manifestwork.status.created"}, codec.CodeType, "type"},
		{"spec type", "not on this topic", status, fields{"type": "io.open-cluster-management.v1.manifestwork.spec.created"},
			codec.CodeType, "type"},
		{"upper type", "types are case-sensitive", spec,
			fields{"type": "IO.open-cluster-management.v1.manifestwork.spec.created"}, codec.CodeType, "type"},
		{"resync type", "not on this topic", sourceResync,
			fields{"type": "io.open-cluster-management.v1.manifestwork.specresync.requested"}, codec.CodeType, "type"},
		{"status resync type", "not on this topic", agentResync,
			fields{"type": "io.open-cluster-management.v1.manifestwork.statusresync.requested"}, codec.CodeType, "type"},
		{"other source", "the topic names the source", spec, fields{"source": "other"}, codec.CodeMismatch, "source"},
		{"other source of resync", "the topic names the source", sourceResync, fields{"source": "other"}, codec.CodeMismatch,
			"source"},
		{"other cluster", "the topic says for whom", spec, fields{"clustername": "other"}, codec.CodeMismatch, "clustername"},
		{"status of other cluster", "the topic names the sender", status, fields{"clustername": "other"}, codec.CodeMismatch,
			"clustername"},
		{"resync of other cluster", "the topic names the sender", agentResync, fields{"clustername": "other"},
			codec.CodeMismatch, "clustername"},
		{"broadcast to no cluster", "not a cluster's name", broadcast, fields{"clustername": "a/b"}, codec.CodeAttribute,
			"clustername"},
		{"control in ID", "CloudEvents forbids it", spec, fields{"id": "a\x01"}, codec.CodeAttribute, "id"},
		{"control in agent", "hidden by an escape", status, fields{"source": "a%0a"}, codec.CodeAttribute, "source"},
		{"no resource ID", "required", spec, fields{"resourceid": nil}, codec.CodeAttribute, "resourceid"},
		{"empty resource ID", "as good as absent", spec, fields{"resourceid": ""}, codec.CodeAttribute, "resourceid"},
		{"no version", "required", spec, fields{"resourceversion": nil}, codec.CodeAttribute, "resourceversion"},
		{"version in words", "not a number", spec, fields{"resourceversion": "three"}, codec.CodeAttribute,
			"resourceversion"},
		{"version with sign", "not plain decimal", spec, fields{"resourceversion": "+3"}, codec.CodeAttribute,
			"resourceversion"},
		{"negative version", "versions count up", spec, fields{"resourceversion": raw("-3")}, codec.CodeAttribute,
			"resourceversion"},
		{"fraction", "versions are whole", spec, fields{"resourceversion": raw("3.5")}, codec.CodeAttribute,
			"resourceversion"},
		{"exponent", "not plain decimal", spec, fields{"resourceversion": raw("3e2")}, codec.CodeAttribute,
			"resourceversion"},
		{"65 bits", "out of range", spec, fields{"resourceversion": raw("9223372036854775808")}, codec.CodeAttribute,
			"resourceversion"},
		{"foreign ID", "the incarnation's ID is not its work's", spec, fields{"resourceid": enhancementRef().ResourceID},
			codec.CodeMismatch, "resourceid"},
		{"ID in upper case", "IDs are compared as text", spec, fields{"resourceid": strings.ToUpper(workRef().ResourceID)},
			codec.CodeMismatch, "resourceid"},
		{"other name", "the incarnation's ID is not its work's", spec, fields{"workname": "other"}, codec.CodeMismatch,
			"resourceid"},
		{"no name", "the ID is not that of the default name", spec, fields{"workname": nil}, codec.CodeMismatch,
			"resourceid"},
		{"control in name", "CloudEvents forbids it", spec, fields{"workname": "a\u0085"}, codec.CodeAttribute, "workname"},
		{"status of foreign ID", "the incarnation's ID is not its work's", status,
			fields{"specresourceid": enhancementRef().ResourceID}, codec.CodeMismatch, "specresourceid"},
		{"status without ID", "required", status, fields{"specresourceid": nil}, codec.CodeAttribute, "specresourceid"},
		{"status without versions", "required, in either spelling", status,
			fields{"specresourceversion": nil, "specresouceversion": nil}, codec.CodeAttribute, "specresourceversion"},
		{"bad correct version", "the misspelt one does not save it", status, fields{"specresourceversion": "x"},
			codec.CodeAttribute, "specresourceversion"},
		{"long hash", "sources keep it", status, fields{"statushash": strings.Repeat("a", 129)}, codec.CodeAttribute,
			"statushash"},
		{"bad sequence", "not a number", status, fields{"sequenceid": "x"}, codec.CodeAttribute, "sequenceid"},
		{"bad deletion", "not a time", gone, fields{"deletiontimestamp": "yesterday"}, codec.CodeAttribute,
			"deletiontimestamp"},
		{"zero deletion", "metav1 takes it for none", gone, fields{"deletiontimestamp": "0001-01-01T00:00:00Z"},
			codec.CodeAttribute, "deletiontimestamp"},
		{"early deletion", "before the year 0 in UTC", gone, fields{"deletiontimestamp": "0000-01-01T00:00:00+01:00"},
			codec.CodeAttribute, "deletiontimestamp"},
		{"early time", "before the year 0 in UTC", spec, fields{"time": "0000-01-01T00:00:00+01:00"}, codec.CodeAttribute,
			"time"},
		{"unknown scope", "must not be taken for everything", agentResync, fields{"resyncscope": "some"}, codec.CodeAttribute,
			"resyncscope"},
		{"lists from agent", "agents are asked for lists", agentResync, fields{"resyncscope": "lists"}, codec.CodeAttribute,
			"resyncscope"},
		{"index too high", "chunks count from 0", agentResync, fields{"chunkindex": 2, "chunkcount": 2}, codec.CodeAttribute,
			"chunkindex"},
		{"count too high", "no int everywhere", agentResync, fields{"chunkcount": 1 << 31}, codec.CodeAttribute,
			"chunkcount"},
		{"no resync ID", "nothing ties the chunks", agentResync, fields{"chunkcount": 2, "resyncid": nil},
			codec.CodeAttribute, "resyncid"},
		{"other target", "the topic names the source", directed, fields{"targetsource": "other"}, codec.CodeMismatch,
			"targetsource"},
		{"bad target", "not a source ID", agentResync, fields{"targetsource": "a/b"}, codec.CodeAttribute, "targetsource"},
		{"status is a list", "another form", status, fields{"data": raw("[]")}, codec.CodeData, "data"},
		{"status of wrong shape", "another form", status, fields{"data": raw(`{"conditions":"x"}`)}, codec.CodeData, "data"},
		{"status time", "it has no encoding", status,
			fields{"data": raw(`{"conditions":[{"lastTransitionTime":"0000-01-01T00:00:00+01:00"}]}`)}, codec.CodeData, "data"},
		{"status as text", "must be JSON", status, fields{"datacontenttype": "text/plain", "data": "{}"}, codec.CodeData,
			"datacontenttype"},
		{"resync is a string", "another form", agentResync, fields{"data": "x"}, codec.CodeData, "data"},
		{"versions are no list", "another form", agentResync, fields{"data": raw(`{"resourceVersions":{}}`)}, codec.CodeData,
			"data.resourceVersions"},
		{"version is no object", "another form", agentResync,
			fields{"data": raw(`{"resourceVersions":[{"resourceID":"a"},7]}`)}, codec.CodeData, "data.resourceVersions[1]"},
		{"version without ID", "required", agentResync, fields{"data": raw(`{"resourceVersions":[{"resourceVersion":"3"}]}`)},
			codec.CodeData, "data.resourceVersions[0].resourceID"},
		{"bad version of entry", "not a number", agentResync,
			fields{"data": raw(`{"resourceVersions":[{"resourceID":"a","resourceVersion":"x"}]}`)}, codec.CodeData,
			"data.resourceVersions[0].resourceVersion"},
		{"bad ID of entry", "not a string", agentResync, fields{"data": raw(`{"resourceVersions":[{"resourceID":7}]}`)},
			codec.CodeData, "data.resourceVersions[0].resourceID"},
		{"hashes are no list", "another form", sourceResync, fields{"data": raw(`{"statusHashes":7}`)}, codec.CodeData,
			"data.statusHashes"},
		{"digest without session", "nobody's", newDigest(), fields{"agentsession": nil}, codec.CodeAttribute, "agentsession"},
		{"no digest", "required", newDigest(), fields{"digest": nil}, codec.CodeAttribute, "digest"},
		{"digest without sums", "one at least", newDigest(), fields{"digest": "3:"}, codec.CodeAttribute, "digest"},
		{"half a sum", "a sum has 64 bits", newDigest(), fields{"digest": "3:01234567"}, codec.CodeAttribute, "digest"},
		{"three sums", "not a power of two", newDigest(), fields{"digest": "3:" + strings.Repeat("0", 48)},
			codec.CodeAttribute, "digest"},
		{"too many sums", "beyond 256", newDigest(), fields{"digest": "3:" + strings.Repeat("0", 512*16)},
			codec.CodeAttribute, "digest"},
		{"sum in words", "not hexadecimal", newDigest(), fields{"digest": "3:0123456789abcdeg"}, codec.CodeAttribute,
			"digest"},
		{"digest for all", "no number of buckets", sourceResync, fields{"resyncscope": "digest"}, codec.CodeAttribute,
			"resyncscope"},
		{"digest from agent", "agents are asked for digests", agentResync, fields{"resyncscope": "digest"},
			codec.CodeAttribute, "resyncscope"},
		{"three buckets", "not a power of two", sourceResync, fields{"buckets": "3:1"}, codec.CodeAttribute, "buckets"},
		{"bucket beyond", "buckets count from 0", sourceResync, fields{"buckets": "4:4"}, codec.CodeAttribute, "buckets"},
		{"bucket twice", "in ascending order", agentResync, fields{"buckets": "4:1,1"}, codec.CodeAttribute, "buckets"},
		{"buckets in words", "not a number", agentResync, fields{"buckets": "all"}, codec.CodeAttribute, "buckets"},
		{"bad sequence of hash", "not a number", sourceResync,
			fields{"data": raw(`{"statusHashes":[{"resourceID":"a","statusSeq":1.5}]}`)}, codec.CodeData,
			"data.statusHashes[0].statusSeq"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			topic, payload := eventWith(t, tc.message, tc.changes)
			e, err := codec.ParseStructured(payload)
			if err != nil {
				t.Fatalf("the event as such must pass: %v", err)
			}
			m, err := codec.ManifestWork.Decode(topic, e)
			if m != nil {
				t.Errorf("%s: got a message", tc.reason)
			}
			wantError(t, err, tc.code, tc.field, tc.reason)
		})
	}
}

// TestDecodeReturnsSpecWithInvalidData checks that Decode returns the message along with the error for bad data, so
// its source can be notified.
func TestDecodeReturnsSpecWithInvalidData(t *testing.T) {
	for _, tc := range []struct{ name, reason, data, field string }{
		{"none", "only deletions can do without", "null", "data"},
		{"string", "another form", `"x"`, "data"},
		{"no manifests", "an empty work would remove everything", `{}`, "data.manifests"},
		{"manifests in another case", "as in Kubernetes", `{"Manifests":[]}`, "data.manifests"},
		{"manifests are an object", "another form", `{"manifests":{}}`, "data.manifests"},
		{"manifest is a number", "resources are objects", `{"manifests":[{},7]}`, "data.manifests[1]"},
		{"manifest is null", "resources are objects", `{"manifests":[null]}`, "data.manifests[0]"},
		{"metadata", "another form", `{"metadata":7,"manifests":[]}`, "data.metadata"},
		{"labels", "another form", `{"metadata":{"labels":[]},"manifests":[]}`, "data.metadata.labels"},
		{"label", "values are strings", `{"metadata":{"labels":{"a":1}},"manifests":[]}`, "data.metadata.labels"},
		{"annotation", "values are strings", `{"metadata":{"annotations":{"a":{}}},"manifests":[]}`,
			"data.metadata.annotations"},
		{"owner references", "another form", `{"metadata":{"ownerReferences":{}},"manifests":[]}`,
			"data.metadata.ownerReferences"},
		{"generation", "whole numbers", `{"metadata":{"generation":1.5},"manifests":[]}`, "data.metadata.generation"},
		{"creation", "not a time", `{"metadata":{"creationTimestamp":"x"},"manifests":[]}`,
			"data.metadata.creationTimestamp"},
		{"delete option", "another form", `{"manifests":[],"deleteOption":[]}`, "data.deleteOption"},
		{"rules", "another form", `{"manifests":[],"deleteOption":{"selectiveOrphaningRules":{}}}`, "data.deleteOption"},
		{"configs", "another form", `{"manifests":[],"manifestConfigs":{}}`, "data.manifestConfigs"},
		{"executor", "another form", `{"manifests":[],"executor":"x"}`, "data.executor"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			topic, payload := eventWith(t, newSpec(), fields{"data": raw(tc.data)})
			e, err := codec.ParseStructured(payload)
			if err != nil {
				t.Fatal(err)
			}
			m, err := codec.ManifestWork.Decode(topic, e)
			wantError(t, err, codec.CodeData, tc.field, tc.reason)
			want := newSpec()
			want.Work = nil
			if diff := cmp.Diff(codec.Message(want), m, sameMessage); diff != "" {
				t.Errorf("%s (-want +got):\n%s", tc.reason, diff)
			}
		})
	}
}

// TestDecodeMalformedData decodes data that was not parsed before, as a transport delivers it in
// binary mode.
func TestDecodeMalformedData(t *testing.T) {
	for _, data := range []string{`{`, `{"manifests":[]}x`, `{"manifests":[}`, `{"manifests":[{}}`, `{"manifests":[],}`,
		`{"manifests":[` + nested(codec.MaxDepth+1) + `]}`, `{"manifests":[`, `{"metadata":{"labels":{"a":"b"`, "\x00"} {
		topic, e, err := codec.ManifestWork.Encode(newSpec())
		if err != nil {
			t.Fatal(err)
		}
		e.DataEncoded = []byte(data)
		_, err = codec.ManifestWork.Decode(topic, e)
		wantError(t, err, codec.CodeData, "data", data)
	}
}

func TestDecodeAccepts(t *testing.T) {
	withRules := newSpec()
	bare := newStatus()
	bare.WorkRef, bare.SequenceID = enhancementRef(), 0
	for _, tc := range []struct {
		name, reason string
		message      codec.Message
		changes      fields
		want         codec.Message
	}{
		{"updated", "peers that distinguish", newSpec(),
			fields{"type": "io.open-cluster-management.v1.manifestwork.spec.updated"}, newSpec()},
		{"deleted", "peers that distinguish", newDelete(),
			fields{"type": "io.open-cluster-management.v1.manifestwork.spec.deleted"}, newDelete()},
		{"camel case", "the enhancement's spelling", newSpec(), fields{"resourceid": nil, "resourceID": workRef().ResourceID,
			"resourceversion": nil, "resourceVersion": raw("1783432567890123456")}, newSpec()},
		{"no cluster name", "the topic says it", newSpec(), fields{"clustername": nil}, newSpec()},
		{"null attributes", "as good as absent", newSpec(), fields{"clustername": raw("null"), "resyncid": raw("null")},
			newSpec()},
		{"unknown attributes", "from later versions", newSpec(), fields{"newthing": true, "other": 7}, newSpec()},
		{"number as name", "attributes are text", bare, fields{"specresourceid": 7},
			change(newStatus(), func(m *codec.Status) {
				m.WorkRef, m.SequenceID = codec.WorkRef{ResourceID: "7", Version: 3, Name: "7"}, 0
			})},
		{"correct version wins", "over the misspelt one", newStatus(), fields{"specresouceversion": "7"}, newStatus()},
		{"misspelt version", "alone", newStatus(), fields{"specresourceversion": nil}, newStatus()},
		{"+json", "any JSON type", newStatus(), fields{"datacontenttype": "application/vnd.x+json; charset=utf-8"},
			newStatus()},
		{"null status", "an acknowledgement", newStatus(), fields{"data": raw("null")},
			change(newStatus(), func(m *codec.Status) { m.Status = nil })},
		{"no status", "an acknowledgement", newStatus(), fields{"data": nil},
			change(newStatus(), func(m *codec.Status) { m.Status = nil })},
		{"empty status", "no acknowledgement", newStatus(), fields{"data": raw("{}")},
			change(newStatus(), func(m *codec.Status) { m.Status = &workv1.ManifestWorkStatus{} })},
		{"API names in status", "what the API calls manifests", newStatus(),
			fields{"data": raw(`{"resourceStatus":{"manifests":[{}]}}`)},
			change(newStatus(), func(m *codec.Status) {
				m.Status = &workv1.ManifestWorkStatus{
					ResourceStatus: workv1.ManifestResourceStatus{Manifests: []workv1.ManifestCondition{{}}},
				}
			})},
		{"API names in spec", "where the API has the rules", withRules,
			fields{"data": raw(`{"manifests":null,"deleteOption":{"propagationPolicy":"Orphan","selectivelyOrphans":{"orphaningRules":[{"name":"a"}]}}}`)},
			change(newSpec(), func(m *codec.Spec) {
				m.Work = &workv1.ManifestWork{}
				m.Work.Name, m.Work.Namespace = m.Name, m.Cluster
				m.Work.Spec.DeleteOption = &workv1.DeleteOption{PropagationPolicy: "Orphan",
					SelectivelyOrphan: &workv1.SelectivelyOrphan{OrphaningRules: []workv1.OrphaningRule{{Name: "a"}}}}
			})},
		{"nulls and unknown fields", "as in Kubernetes", newSpec(),
			fields{"data": raw(`{"metadata":{"labels":null,"annotations":{"a":null},"generation":null,"creationTimestamp":null,"x":[1]},"manifests":[],"deleteOption":null,"manifestConfigs":null,"executor":null,"new":{}}`)},
			change(newSpec(), func(m *codec.Spec) {
				m.Work = &workv1.ManifestWork{}
				m.Work.Name, m.Work.Namespace = m.Name, m.Cluster
				m.Work.Annotations = map[string]string{"a": ""}
			})},
		{"the last of two", "as in encoding/json", newSpec(),
			fields{"data": raw(`{"manifests":[{"a":1}],"manifests":[],"metadata":{"generation":1},"deleteOption":{},"deleteOption":null,"metadata":{"generation":"9007199254740993"}}`)},
			change(newSpec(), func(m *codec.Spec) {
				m.Work = &workv1.ManifestWork{}
				m.Work.Name, m.Work.Namespace = m.Name, m.Cluster
				m.Work.Generation = 9007199254740993
			})},
		{"the last of two, whole", "nothing of the first stays", newSpec(),
			fields{"data": raw(`{"metadata":{"labels":{"a":"b"},"generation":7},"metadata":{"annotations":{"c":"d"}},"manifestConfigs":[{"resourceIdentifier":{"name":"a","namespace":"b"}}],"manifestConfigs":[{"resourceIdentifier":{"name":"c"}}],"executor":{"subject":{"type":"ServiceAccount"}},"executor":{},"manifests":[]}`)},
			change(newSpec(), func(m *codec.Spec) {
				m.Work = &workv1.ManifestWork{}
				m.Work.Name, m.Work.Namespace = m.Name, m.Cluster
				m.Work.Annotations = map[string]string{"c": "d"}
				m.Work.Spec.ManifestConfigs = []workv1.ManifestConfigOption{
					{ResourceIdentifier: workv1.ResourceIdentifier{Name: "c"}},
				}
				m.Work.Spec.Executor = &workv1.ManifestWorkExecutor{}
			})},
		{"deletion with bad spec", "nothing holds a deletion up", newDelete(),
			fields{"data": raw(`{"manifests":7,"deleteOption":[]}`)},
			change(newDelete(), func(m *codec.Spec) {
				m.Work = &workv1.ManifestWork{}
				m.Work.Name, m.Work.Namespace = m.Name, m.Cluster
			})},
		{"deletion without name", "of a work that its source does not know", newDelete(),
			fields{"workname": nil, "data": nil},
			change(newDelete(), func(m *codec.Spec) {
				m.Name, m.Work = m.ResourceID, &workv1.ManifestWork{}
				m.Work.Name, m.Work.Namespace = m.Name, m.Cluster
			})},
		{"gone without name", "the answer to that", newGone(), fields{"workname": nil},
			change(newGone(), func(m *codec.Status) { m.Name = m.ResourceID })},
		{"deletion without data", "metadata is optional", newDelete(), fields{"data": nil},
			change(newDelete(), func(m *codec.Spec) {
				m.Work = &workv1.ManifestWork{}
				m.Work.Name, m.Work.Namespace = m.Name, m.Cluster
			})},
		{"numbers in entries", "64 bits", newSpecResync(),
			fields{"data": raw(`{"x":1,"resourceVersions":[{"resourceID":"a","resourceVersion":9223372036854775807,"y":null,"uid":null}]}`)},
			change(newSpecResync(), func(m *codec.SpecResync) {
				m.Entries = []codec.SpecEntry{{ResourceID: "a", Version: 9223372036854775807}}
			})},
		{"null list", "asks for everything", newSpecResync(), fields{"data": raw(`{"resourceVersions":null}`)},
			change(newSpecResync(), func(m *codec.SpecResync) { m.Entries = nil })},
		{"empty hashes", "asks for everything", newStatusResync(), fields{"data": raw(`{}`)},
			change(newStatusResync(), func(m *codec.StatusResync) { m.Entries = nil })},
	} {
		t.Run(tc.name, func(t *testing.T) {
			topic, payload := eventWith(t, tc.message, tc.changes)
			if diff := cmp.Diff(tc.want, decode(t, topic, payload), sameMessage); diff != "" {
				t.Errorf("%s (-want +got):\n%s", tc.reason, diff)
			}
		})
	}
}

// TestDecodeEventsOfOtherTransports decodes events as other transports build them: with attribute names in
// any case, and values of any CloudEvents type.
func TestDecodeEventsOfOtherTransports(t *testing.T) {
	topic, e, err := codec.ManifestWork.Encode(newStatus())
	if err != nil {
		t.Fatal(err)
	}
	ctx := e.Context.(*ce.EventContextV1)
	ctx.Extensions["SpecResourceVersion"] = ctx.Extensions["specresourceversion"]
	delete(ctx.Extensions, "specresourceversion")
	ctx.Extensions["sequenceid"] = newStatus().SequenceID
	ctx.Extensions["ClusterName"] = "the one in lower case counts"
	m, err := codec.ManifestWork.Decode(topic, e)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(codec.Message(newStatus()), m, sameMessage); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	for _, bad := range []any{1.5, 1e300, struct{}{}} {
		ctx.Extensions["sequenceid"] = bad
		_, err := codec.ManifestWork.Decode(topic, e)
		wantError(t, err, codec.CodeAttribute, "sequenceid", "no exact text")
	}
	for _, good := range []any{int32(7), 7, uint64(7), 7.0, "7", nil} {
		ctx.Extensions["sequenceid"] = good
		m, err := codec.ManifestWork.Decode(topic, e)
		if err != nil {
			t.Errorf("%T: %v", good, err)
		} else if got := m.(*codec.Status).SequenceID; good != nil && got != 7 {
			t.Errorf("%T: got %d, want 7", good, got)
		}
	}
}

func TestDecodeWithoutContext(t *testing.T) {
	for _, e := range []*ce.Event{nil, {}, {Context: &ce.EventContextV1{}}} {
		_, err := codec.ManifestWork.Decode("/sources/s/clusters/c/manifests", e)
		wantError(t, err, codec.CodeAttribute, "*", "an event without attributes")
	}
}
