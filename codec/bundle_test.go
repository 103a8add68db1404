// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package codec_test

import (
	"bytes"
	"encoding/json"
	"maps"
	"math"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	ce "github.com/cloudevents/sdk-go/v2/event"
	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	workv1 "open-cluster-management.io/api/work/v1"

	"github.com/spokewire/sdk-go/codec"
)

// captured is an event from a real source or agent of the OCM SDK, v1.3.0.
type captured struct {
	Step           string            `json:"step"`
	Topic          string            `json:"topic"`
	ContentType    string            `json:"contentType"`
	UserProperties map[string]string `json:"userProperties"`
	Payload        json.RawMessage   `json:"payload"`
}

func capturedEvents(t *testing.T) []captured {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("testdata", "manifestbundle", "wire.json"))
	if err != nil {
		t.Fatal(err)
	}
	var events []captured
	if err := json.Unmarshal(text, &events); err != nil {
		t.Fatal(err)
	}
	for i, c := range events { // only the file is indented
		var compact bytes.Buffer
		if len(c.Payload) > 0 {
			if err := json.Compact(&compact, c.Payload); err != nil {
				t.Fatal(err)
			}
		}
		events[i].Payload = compact.Bytes()
	}
	return events
}

func (c captured) event(t *testing.T) *ce.Event {
	t.Helper()
	e, err := codec.FromAttributes(maps.All(c.UserProperties), c.ContentType, c.Payload)
	if err != nil {
		t.Fatal(err)
	}
	return e
}

const (
	capturedID     = "d76a3b49-a8f7-5da2-87f8-7afc4c2878ef"
	capturedHash   = "6fc8f7c7e80750a330cdbb1c951e1997cdea48dabd78f479e9442314a4878f2b"
	capturedSeq    = 2123973893927473152
	capturedGone   = 2123973924449423360
	capturedRaw    = `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"w","namespace":"default"},"data":{"k":"v"}}`
	bundleDataType = "io.open-cluster-management.works.v1alpha1.manifestbundles"
)

// capturedMessages returns the messages of the captured events, in their order.
func capturedMessages() []codec.Message {
	fromSource := codec.Header{Source: "s1", Cluster: "c1"}
	fromAgent := codec.Header{Source: "s1", Cluster: "c1", Agent: "c1-ag"}
	toAll := codec.Header{Source: "s1"}
	ref := func(version int64) codec.WorkRef {
		return codec.WorkRef{ResourceID: capturedID, Version: version, Name: "w"}
	}
	cleanup := []string{workv1.ManifestWorkFinalizer}
	applied := metav1.Condition{
		Type: "Applied", Status: metav1.ConditionTrue, Reason: "R1", Message: "m",
		LastTransitionTime: metav1.NewTime(time.Date(2024, 1, 1, 0, 0, 0, 0, time.UTC)),
	}
	deletion := metav1.NewTime(time.Date(2026, 11, 21, 2, 56, 58, 0, time.UTC))
	gone := metav1.Condition{
		Type: codec.ConditionDeleted, Status: metav1.ConditionTrue, Reason: "ManifestsDeleted",
		Message:            "The manifests are deleted from the cluster c1",
		LastTransitionTime: metav1.NewTime(deletion.Add(time.Second)),
	}
	// An agent of the OCM SDK records the source of a work in labels and annotations, and so does
	// Decode.
	labels := map[string]string{codec.LabelOriginalSource: "s1"}
	notes := func(version, sequence string) map[string]string {
		m := map[string]string{codec.AnnotationDataType: bundleDataType, codec.AnnotationResourceVersion: version}
		if sequence != "" {
			m[codec.AnnotationSequenceID] = sequence
		}
		return m
	}
	object := func(version int64, annotations map[string]string, finalizers ...string) metav1.ObjectMeta {
		return metav1.ObjectMeta{
			Name: "w", Namespace: "c1", Generation: version,
			Labels: labels, Annotations: annotations, Finalizers: finalizers,
		}
	}
	work := func(meta metav1.ObjectMeta) *workv1.ManifestWork {
		w := &workv1.ManifestWork{ObjectMeta: meta}
		w.Spec.Workload.Manifests = []workv1.Manifest{manifest(capturedRaw)}
		return w
	}
	updated := work(object(2, notes("2", "2123973893927473152"), cleanup...))
	updated.Spec.DeleteOption = &workv1.DeleteOption{PropagationPolicy: workv1.DeletePropagationPolicyTypeOrphan}
	onAgent := func(meta metav1.ObjectMeta) *metav1.ObjectMeta {
		meta.UID = capturedID
		return &meta
	}
	goneMeta := onAgent(object(2, notes("2", "2123973893927473152")))
	goneMeta.DeletionTimestamp = &deletion

	return []codec.Message{
		&codec.StatusResync{Header: toAll, Broadcast: true},
		&codec.SpecResync{Header: fromAgent},
		&codec.Spec{Header: fromSource, WorkRef: ref(1), Action: codec.ActionCreate, Work: work(object(1, notes("1", "")))},
		&codec.Status{
			Header: fromAgent, WorkRef: ref(1), Action: codec.ActionUpdate, SequenceID: capturedSeq, Hash: capturedHash,
			Metadata: onAgent(object(1, notes("1", ""), cleanup...)),
			Status:   &workv1.ManifestWorkStatus{Conditions: []metav1.Condition{applied}},
		},
		&codec.Spec{Header: fromSource, WorkRef: ref(2), Action: codec.ActionUpdate, StatusSeq: capturedSeq, Work: updated},
		&codec.SpecResync{Header: fromAgent, Entries: []codec.SpecEntry{{ResourceID: capturedID, Version: 2}}},
		&codec.StatusResync{Header: toAll, Broadcast: true,
			Entries: []codec.StatusEntry{{ResourceID: capturedID, Hash: capturedHash}}},
		&codec.Spec{
			Header: fromSource, WorkRef: ref(2), Action: codec.ActionDelete, StatusSeq: capturedSeq,
			DeletionTimestamp: &deletion,
			Work:              &workv1.ManifestWork{ObjectMeta: object(2, notes("2", "2123973893927473152"), cleanup...)},
		},
		&codec.Status{
			Header: fromAgent, WorkRef: ref(2), Action: codec.ActionUpdate, SequenceID: capturedGone,
			Hash:     "7d212607d89bddf91c8b468b9cc4044141c772f6dcb2d60de2637db0459d5906",
			Metadata: goneMeta,
			Status:   &workv1.ManifestWorkStatus{Conditions: []metav1.Condition{applied, gone}},
		},
	}
}

// TestManifestBundleDecodesPeerEvents checks the message that Decode returns for each captured event.
func TestManifestBundleDecodesPeerEvents(t *testing.T) {
	messages := capturedMessages()
	for i, c := range capturedEvents(t) {
		t.Run(c.Step, func(t *testing.T) {
			got, err := codec.ManifestBundle.Decode(c.Topic, c.event(t))
			if err != nil {
				t.Fatal(err)
			}
			if head := got.Head(); head.ID != c.UserProperties["ce-id"] ||
				head.Time.Format(time.RFC3339Nano) != c.UserProperties["ce-time"] {
				t.Errorf("ID %q, time %s", head.ID, head.Time)
			}
			got.Head().ID, got.Head().Time = "", time.Time{}
			if diff := cmp.Diff(messages[i], got, sameMessage); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

// TestManifestBundleEncodesPeerEvents checks that Encode makes the captured event from each
// message, except for ids and times.
func TestManifestBundleEncodesPeerEvents(t *testing.T) {
	messages := capturedMessages()
	for i, c := range capturedEvents(t) {
		t.Run(c.Step, func(t *testing.T) {
			m := messages[i]
			m.Head().ID, m.Head().Time = "1", eventTime
			if status, ok := m.(*codec.Status); ok {
				status.Hash = "" // so Encode computes it
			}
			topic, e, err := codec.ManifestBundle.Encode(m)
			if err != nil {
				t.Fatal(err)
			}
			if err := e.Validate(); err != nil {
				t.Error(err)
			}
			if topic != c.Topic || e.DataContentType() != c.ContentType {
				t.Errorf("topic %q, content type %q, want %q, %q", topic, e.DataContentType(), c.Topic, c.ContentType)
			}
			got := map[string]string{}
			for name, value := range codec.Attributes(e) {
				got["ce-"+name] = value
			}
			want := maps.Clone(c.UserProperties)
			want["ce-id"], want["ce-time"] = "1", eventTime.Format(time.RFC3339Nano)
			if deletion, ok := want["ce-deletiontimestamp"]; ok { // whole seconds, as in the API
				at, err := time.Parse(time.RFC3339Nano, deletion)
				if err != nil {
					t.Fatal(err)
				}
				want["ce-deletiontimestamp"] = at.Truncate(time.Second).Format(time.RFC3339)
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("attributes (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(anyJSON(t, c.Payload), anyJSON(t, e.Data())); diff != "" {
				t.Errorf("data (-want +got):\n%s", diff)
			}
			if v, ok := e.Extensions()["resourceversion"]; ok {
				if _, ok := v.(int32); !ok {
					t.Errorf("resourceversion is a %T, want a CloudEvents Integer", v)
				}
			}
		})
	}
}

func anyJSON(t *testing.T, text []byte) (v any) {
	t.Helper()
	if len(text) == 0 {
		return nil
	}
	if err := json.Unmarshal(text, &v); err != nil {
		t.Fatal(err)
	}
	return v
}

// TestManifestBundleResourceIDsAndHashes checks that resource IDs and hashes are those of the captured events.
func TestManifestBundleResourceIDsAndHashes(t *testing.T) {
	p := codec.ManifestBundle
	if got := p.ResourceID("s1", "c1", "w"); got != capturedID {
		t.Errorf("resource ID %s, want %s", got, capturedID)
	}
	if p.ResourceID("s", "a-b", "c") != p.ResourceID("s", "a", "b-c") {
		t.Error("the peers' formula joins with a dash, so these two are one")
	}
	if want := (codec.Traits{Binary: true, Bundle: true, MaxVersion: 1<<31 - 1}); p.Traits() != want ||
		p.Name() != "ManifestBundle" {
		t.Errorf("%s has %+v", p.Name(), p.Traits())
	}
	status := capturedMessages()[3].(*codec.Status).Status
	if got, err := p.StatusHash(status); err != nil || got != capturedHash {
		t.Errorf("hash %s, %v, want %s", got, err, capturedHash)
	}
	none, err := p.StatusHash(nil)
	if empty, _ := p.StatusHash(&workv1.ManifestWorkStatus{}); err != nil || none != empty || none == capturedHash {
		t.Errorf("hash of nothing %s, of an empty status %s, %v", none, empty, err)
	}
}

// TestManifestBundleChunks checks that chunks of a list fit the limit, and that a reader can join
// them: other events have no resync ID.
func TestManifestBundleChunks(t *testing.T) {
	const limit = 4 << 10
	agent, source := agentHeader(), sourceHeader()
	agent.ResyncID, source.ResyncID = "resync-1", "resync-2"
	list, hashes := &codec.SpecResync{Header: agent}, &codec.StatusResync{Header: source}
	for i := range 100 {
		id := codec.ManifestBundle.ResourceID(source.Source, source.Cluster, strconv.Itoa(i))
		list.Entries = append(list.Entries, codec.SpecEntry{ResourceID: id, Version: math.MaxInt32})
		hashes.Entries = append(hashes.Entries, codec.StatusEntry{ResourceID: id, Hash: strings.Repeat("f", 64)})
	}
	var chunks []codec.Message
	for _, c := range codec.SplitSpecResync(list, limit) {
		chunks = append(chunks, c)
	}
	for _, c := range codec.SplitStatusResync(hashes, limit) {
		chunks = append(chunks, c)
	}
	if len(chunks) < 6 {
		t.Errorf("%d chunks, want 6 or more", len(chunks))
	}
	for _, c := range chunks {
		topic, e, err := codec.ManifestBundle.Encode(c)
		if err != nil {
			t.Fatal(err)
		}
		if data, err := codec.AppendStructured(nil, e); err != nil || len(data) > limit {
			t.Errorf("%d bytes, %v", len(data), err)
		}
		got, err := codec.ManifestBundle.Decode(topic, e)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(c, got, sameMessage); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
	}
	agent.ResyncID = "no chunk"
	topic, e, err := codec.ManifestBundle.Encode(&codec.SpecResync{Header: agent})
	if err != nil {
		t.Fatal(err)
	}
	if got, err := codec.ManifestBundle.Decode(topic, e); err != nil || got.Head().ResyncID != "" {
		t.Errorf("the resync ID of a list in one event: %+v, %v", got, err)
	}
}
