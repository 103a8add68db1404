// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package codec_test

import (
	"flag"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/spokewire/sdk-go/codec"
)

var update = flag.Bool("update", false, "write the golden files instead of comparing with them")

type goldenCase struct {
	name, reason string
	topic        string
	message      codec.Message
}

// goldenCases returns one message of each kind that is sent. The name of a case is also the name of
// its file.
func goldenCases() []goldenCase {
	const pair = "/sources/mwrs-controller/clusters/cluster1/"
	answer := newSpec()
	answer.ResyncID, answer.TraceParent = "r-1", "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
	bareSpec := newSpec()
	bareSpec.WorkRef, bareSpec.AgentSession, bareSpec.StatusSeq = enhancementRef(), "", 0
	bareSpec.Work.Name = bareSpec.Name
	bareDelete := newDelete()
	bareDelete.Work = metadataOnly()
	bareDelete.Work.ObjectMeta = bareSpec.Work.ObjectMeta
	bareDelete.Work.Labels, bareDelete.Work.Annotations, bareDelete.Work.OwnerReferences = nil, nil, nil
	bareDelete.WorkRef = enhancementRef()
	hashed := newStatus()
	hashed.Hash = "3d5d1a40c1f8ac4e0f7a0d5b2c7b0a1f3d5d1a40c1f8ac4e0f7a0d5b2c7b0a1f"
	ack := newStatus()
	ack.Status, ack.SequenceID = nil, 0

	everything := newSpecResync()
	everything.Entries = nil
	specChunk := newSpecResync()
	specChunk.Source, specChunk.TargetSource, specChunk.Broadcast = source, source, false
	specChunk.Chunk = codec.Chunk{Index: 1, Count: 3}
	ask := newSpecResync()
	ask.Source, ask.Broadcast, ask.Scope, ask.ResyncID = source, false, codec.ScopeListed, ""
	ask.Entries = []codec.SpecEntry{{ResourceID: workRef().ResourceID}}
	one := newSpecResync()
	one.Source, one.TargetSource = source, source

	noStore := newStatusResync()
	noStore.Cluster, noStore.Broadcast, noStore.Entries, noStore.ResyncID = "", true, nil, ""
	lists := newStatusResync()
	lists.Cluster, lists.Broadcast, lists.Entries, lists.Scope = "", true, nil, codec.ScopeLists
	statusChunk := newStatusResync()
	statusChunk.Chunk = codec.Chunk{Index: 0, Count: 2}
	bareHashes := newStatusResync()
	bareHashes.Broadcast = true
	end := newStatusResync()
	end.Entries, end.Scope, end.Chunk = nil, codec.ScopeListed, codec.Chunk{Count: 7}

	heartbeat := newDigest()
	detailed := newDigest()
	detailed.Sums = []uint64{1, 0, 1<<63 + 5, 7}
	askDigest := newStatusResync()
	askDigest.Entries, askDigest.ResyncID, askDigest.Scope, askDigest.Part = nil, "", codec.ScopeDigest,
		codec.Part{Buckets: 4}
	askPart := newStatusResync()
	askPart.Entries, askPart.Scope, askPart.Part = nil, codec.ScopeLists,
		codec.Part{Buckets: 256, Listed: []int{0, 17, 255}}
	part := newSpecResync()
	part.Source, part.TargetSource, part.Broadcast, part.Part = source, source, false,
		codec.Part{Buckets: 4, Listed: []int{2}}
	hub := &codec.Presence{Header: codec.Header{ID: "0b1f", Time: newSpec().Time, Source: source},
		Session: "s-1", Started: newSpec().Time}
	agent := &codec.Presence{Header: codec.Header{ID: "0b1f", Time: newSpec().Time, Cluster: cluster,
		Agent: "cluster1-work-agent"},
		Session: "s-2", Started: newSpec().Time, Leaving: true}

	return []goldenCase{
		{"presence-source", "a source to others of its ID", "/sources/mwrs-controller/presence", hub},
		{"presence-agent", "an agent that is about to end", "/clusters/cluster1/presence", agent},
		{"spec", "a write, with something in every part", pair + "manifests", newSpec()},
		{"spec-answer", "the answer to a resync carries its ID and the trace", pair + "manifests", answer},
		{"spec-enhancement", "without our extensions", pair + "manifests", bareSpec},
		{"delete", "metadata, no manifests", pair + "manifests", newDelete()},
		{"delete-enhancement", "a deletion without our extensions", pair + "manifests", bareDelete},
		{"status", "both spellings of the version", pair + "manifestsstatus", newStatus()},
		{"status-hash", "with the hash that the source shall echo", pair + "manifestsstatus", hashed},
		{"gone", "condition Deleted", pair + "manifestsstatus", newGone()},
		{"acknowledgement", "no data", pair + "manifestsstatus", ack},
		{"specresync-all", "an agent that holds nothing", "/sources/resync/cluster1/manifests", everything},
		{"specresync", "an agent's list on connect", "/sources/resync/cluster1/manifests", newSpecResync()},
		{"specresync-one", "the list on the topic of all, for one source", "/sources/resync/cluster1/manifests", one},
		{"specresync-chunk", "a part of a directed list", pair + "specresync", specChunk},
		{"specresync-ask", "one unknown work", pair + "specresync", ask},
		{"statusresync-all", "a source without a store", "/sources/mwrs-controller/resync/clusters/manifestsstatus", noStore},
		{"statusresync-lists", "a source with a store", "/sources/mwrs-controller/resync/clusters/manifestsstatus", lists},
		{"statusresync-chunk", "a part of the hashes", pair + "statusresync", statusChunk},
		{"statusresync-one", "hashes for an agent that knows only the enhancement",
			"/sources/mwrs-controller/resync/clusters/manifestsstatus", bareHashes},
		{"digest", "an agent's heartbeat", pair + "specresync", heartbeat},
		{"digest-buckets", "what a source asks for when a heartbeat differs", pair + "specresync", detailed},
		{"statusresync-digest", "the question for it", pair + "statusresync", askDigest},
		{"statusresync-part", "the question for a part of the works", pair + "statusresync", askPart},
		{"specresync-part", "the list of a part", pair + "specresync", part},
		{"answer-end", "the end marker of an answer of 7 events", pair + "statusresync", end},
	}
}

func TestGolden(t *testing.T) {
	for _, tc := range goldenCases() {
		t.Run(tc.name, func(t *testing.T) {
			topic, payload := structured(t, tc.message)
			if topic != tc.topic {
				t.Errorf("%s: topic %q, want %q", tc.reason, topic, tc.topic)
			}
			file := filepath.Join("testdata", tc.name+".json")
			if *update {
				if err := os.WriteFile(file, append(payload, '\n'), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(string(want), string(payload)+"\n"); diff != "" {
				t.Errorf("%s: encoded (-want +got):\n%s", tc.reason, diff)
			}
			if diff := cmp.Diff(tc.message, decode(t, tc.topic, want), sameMessage); diff != "" {
				t.Errorf("%s: decoded (-want +got):\n%s", tc.reason, diff)
			}
		})
	}
}

// decode parses and decodes an event in structured mode.
func decode(tb testing.TB, topic string, payload []byte) codec.Message {
	tb.Helper()
	e, err := codec.ParseStructured(payload)
	if err != nil {
		tb.Fatal(err)
	}
	m, err := codec.ManifestWork.Decode(topic, e)
	if err != nil {
		tb.Fatal(err)
	}
	return m
}
