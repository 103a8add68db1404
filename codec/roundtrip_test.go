// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package codec_test

import (
	"encoding/json"
	"math/rand"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	workv1 "open-cluster-management.io/api/work/v1"
	"pgregory.net/rapid"
	"sigs.k8s.io/randfill"

	"github.com/spokewire/sdk-go/codec"
)

// filler fills API types of any version. Only types with values that JSON cannot represent have
// their own function.
func filler(f *randfill.Filler) *randfill.Filler {
	return f.NumElements(1, 3).Funcs(
		func(t *metav1.Time, c randfill.Continue) { // whole seconds
			*t = metav1.NewTime(time.Unix(c.Int63n(200<<30)-50<<30, 0))
		},
		func(m *workv1.Manifest, c randfill.Continue) {
			m.Raw, _ = json.Marshal(map[string]string{c.String(8): c.String(8)})
		},
	)
}

// fillWork fills the parts of a work that are sent.
func fillWork(f *randfill.Filler, h codec.Header, ref codec.WorkRef) *workv1.ManifestWork {
	w := &workv1.ManifestWork{}
	f.Fill(&w.Spec)
	f.Fill(&w.Labels)
	f.Fill(&w.Annotations)
	f.Fill(&w.OwnerReferences)
	f.Fill(&w.Generation)
	f.Fill(&w.CreationTimestamp)
	w.Generation &= 1<<63 - 1
	w.Name, w.Namespace = ref.Name, h.Cluster
	return w
}

// TestEveryFieldTravels fills the whole spec and the whole status, including fields of later API
// versions. It fails if a field does not survive the round trip.
func TestEveryFieldTravels(t *testing.T) {
	for seed := range int64(200) {
		f := filler(randfill.New().RandSource(rand.NewSource(seed)))
		if seed < 100 {
			f.NilChance(0) // all fields are set
		} else {
			f.NilChance(.5)
		}
		spec := newSpec()
		spec.Work = fillWork(f, spec.Header, spec.WorkRef)
		status := newStatus()
		f.Fill(&status.Status)
		for _, m := range []codec.Message{spec, status} {
			topic, payload := structured(t, m)
			if diff := cmp.Diff(m, decode(t, topic, payload), sameMessage); diff != "" {
				t.Fatalf("seed %d (-want +got):\n%s", seed, diff)
			}
		}
	}
}

// TestHashSurvivesTheWire checks that sender and receiver compute the same hash.
func TestHashSurvivesTheWire(t *testing.T) {
	for seed := range int64(100) {
		m := newStatus()
		filler(randfill.New().RandSource(rand.NewSource(seed)).NilChance(.5)).Fill(&m.Status)
		if m.Status == nil {
			continue
		}
		topic, payload := structured(t, m)
		sent, err := codec.StatusHash(m.Status)
		if err != nil {
			t.Fatal(err)
		}
		received, err := codec.StatusHash(decode(t, topic, payload).(*codec.Status).Status)
		if err != nil {
			t.Fatal(err)
		}
		if sent != received {
			t.Fatalf("seed %d: hash %s becomes %s", seed, sent, received)
		}
	}
}

// TestRoundTrip draws messages with arbitrary strings and numbers. Encode must refuse a message, or
// Decode must return it unchanged.
func TestRoundTrip(t *testing.T) {
	encoded, refused := 0, 0
	rapid.Check(t, func(t *rapid.T) {
		m := drawMessage(t)
		topic, e, err := codec.ManifestWork.Encode(m)
		if err != nil {
			refused++
			return
		}
		encoded++
		payload, err := codec.AppendStructured(nil, e)
		if err != nil {
			t.Fatalf("encoded, but not written: %v", err)
		}
		read, err := codec.ParseStructured(payload)
		if err != nil {
			t.Fatalf("written, but not read: %v", err)
		}
		got, err := codec.ManifestWork.Decode(topic, read)
		if err != nil {
			t.Fatalf("encoded, but not decoded: %v", err)
		}
		if diff := cmp.Diff(normal(m), got, sameMessage); diff != "" {
			t.Fatalf("-want +got:\n%s", diff)
		}
	})
	if encoded < refused/4 || refused == 0 {
		t.Errorf("%d messages were encoded and %d refused: the generator is out of balance", encoded, refused)
	}
}

// normal sets the values that Decode sets by default.
func normal(m codec.Message) codec.Message {
	switch m := m.(type) {
	case *codec.Spec:
		n := *m
		if n.Name == "" {
			n.Name = n.ResourceID
		}
		if n.Work == nil {
			n.Work = &workv1.ManifestWork{}
		}
		n.Work = n.Work.DeepCopy()
		n.Work.Name, n.Work.Namespace = n.Name, n.Cluster
		return &n
	case *codec.Status:
		n := *m
		if n.Name == "" {
			n.Name = n.ResourceID
		}
		return &n
	case *codec.SpecResync:
		n := *m
		if n.Source == "" {
			n.Broadcast = true
		}
		if n.Broadcast { // the target names the source, because the topic does not
			if n.TargetSource == "" {
				n.TargetSource = n.Source
			}
			n.Source = n.TargetSource
		}
		return &n
	case *codec.StatusResync:
		n := *m
		n.Broadcast = n.Broadcast || n.Cluster == ""
		return &n
	}
	return m
}

func drawMessage(t *rapid.T) codec.Message {
	usual := rapid.OneOf(rapid.SampledFrom([]string{"a", "b", "resync", "clusters", "%41", "1:2", "ü"}),
		rapid.StringMatching(`[ -\"$-*,-.0-~]{1,6}`))
	unusual := rapid.OneOf(rapid.Just(""), rapid.StringN(0, 3, -1), rapid.String())
	// Most texts are valid: a message has many parts, and each part can be refused.
	text := rapid.Custom(func(t *rapid.T) string {
		if rapid.IntRange(0, 19).Draw(t, "any") == 0 {
			return unusual.Draw(t, "text")
		}
		return usual.Draw(t, "text")
	})
	number := rapid.OneOf(rapid.Int64Range(0, 3), rapid.Int64Range(0, 1<<63-1), rapid.Int64Range(-1, 1<<63-1))
	h := codec.Header{
		ID: text.Draw(t, "id"), Source: text.Draw(t, "source"), Cluster: text.Draw(t, "cluster"),
		ResyncID: text.Draw(t, "resyncid"),
	}
	if rapid.Bool().Draw(t, "traced") {
		h.TraceParent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
		h.TraceState = rapid.SampledFrom([]string{"", "a=1", "a=1,t@b=x y"}).Draw(t, "tracestate")
	}
	if rapid.Bool().Draw(t, "timed") {
		h.Time = time.Unix(rapid.Int64Range(0, 1<<33).Draw(t, "time"), rapid.Int64Range(0, 999999999).Draw(t, "nanos")).UTC()
	}
	ref := codec.WorkRef{Name: text.Draw(t, "name"), Version: number.Draw(t, "version")}
	if rapid.Bool().Draw(t, "incarnation") {
		ref.ResourceID, ref.UID = codec.ResourceID(h.Source, h.Cluster, ref.Name), types.UID(text.Draw(t, "uid"))
	} else {
		ref.ResourceID = text.Draw(t, "resourceid")
	}
	var chunk codec.Chunk
	if rapid.Bool().Draw(t, "chunk") {
		chunk.Count = rapid.IntRange(1, 4).Draw(t, "count")
		chunk.Index = rapid.IntRange(0, 2).Draw(t, "index")
	}
	scope := rapid.SampledFrom([]codec.Scope{codec.ScopeAll, codec.ScopeListed, codec.ScopeLists, codec.ScopeDigest}).Draw(
		t, "scope")

	var part codec.Part
	if rapid.IntRange(0, 3).Draw(t, "part") == 0 {
		part.Buckets = rapid.SampledFrom([]int{0, 1, 3, 4, 256, 512}).Draw(t, "buckets")
		part.Listed = rapid.SliceOfN(rapid.IntRange(-1, 256), 0, 3).Draw(t, "listed")
	}

	switch rapid.IntRange(0, 4).Draw(t, "kind") {
	case 0:
		m := &codec.Spec{Header: h, WorkRef: ref, AgentSession: text.Draw(t, "session"),
			StatusSeq: number.Draw(t, "statusseq")}
		if rapid.Bool().Draw(t, "deletion") {
			m.DeletionTimestamp = &metav1.Time{Time: time.Unix(rapid.Int64Range(0, 1<<33).Draw(t, "deleted"), 0).UTC()}
		} else {
			m.Work = &workv1.ManifestWork{}
			for range rapid.IntRange(0, 2).Draw(t, "manifests") {
				m.Work.Spec.Workload.Manifests = append(m.Work.Spec.Workload.Manifests, manifest(`{"a":[1,"b"]}`))
			}
		}
		return m
	case 1:
		h.Agent = text.Draw(t, "agent")
		m := &codec.Status{Header: h, WorkRef: ref, SequenceID: number.Draw(t, "sequenceid"), Hash: text.Draw(t, "hash")}
		if rapid.Bool().Draw(t, "status") {
			m.Status = &workv1.ManifestWorkStatus{}
		}
		return m
	case 2:
		h.Agent = text.Draw(t, "agent")
		m := &codec.SpecResync{Header: h, AgentSession: text.Draw(t, "session"),
			TargetSource: rapid.SampledFrom([]string{"", h.Source, "other"}).Draw(t, "target"),
			Scope:        scope, Part: part, Chunk: chunk, Broadcast: rapid.Bool().Draw(t, "broadcast")}
		for range rapid.IntRange(0, 3).Draw(t, "entries") {
			m.Entries = append(m.Entries, codec.SpecEntry{ResourceID: text.Draw(t, "id"), Version: number.Draw(t, "version"),
				UID: types.UID(text.Draw(t, "uid")), Source: text.Draw(t, "source"), SequenceID: number.Draw(t, "sequence")})
		}
		return m
	case 3:
		h.Agent, h.Time, h.ResyncID, h.TraceParent, h.TraceState = text.Draw(t, "agent"), time.Time{}, "", "", ""
		return &codec.Digest{Header: h, AgentSession: text.Draw(t, "session"),
			Works: rapid.IntRange(-1, 1<<31-1).Draw(t, "works"),
			Sums:  rapid.SliceOfN(rapid.Uint64(), 0, 5).Draw(t, "sums")}
	default:
		m := &codec.StatusResync{Header: h, Scope: scope, Part: part, Chunk: chunk,
			Broadcast: rapid.Bool().Draw(t, "broadcast")}
		for range rapid.IntRange(0, 3).Draw(t, "entries") {
			m.Entries = append(m.Entries, codec.StatusEntry{ResourceID: text.Draw(t, "id"), Hash: text.Draw(t, "hash"),
				UID: types.UID(text.Draw(t, "uid")), StatusSeq: number.Draw(t, "seq")})
		}
		return m
	}
}
