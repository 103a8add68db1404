// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package codec_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"testing"

	ce "github.com/cloudevents/sdk-go/v2/event"
	"github.com/google/go-cmp/cmp"
	"sigs.k8s.io/randfill"

	"github.com/spokewire/sdk-go/codec"
)

// FuzzDecode decodes arbitrary bytes from arbitrary topics. Each decoded message can be encoded,
// and further round trips do not change it.
func FuzzDecode(f *testing.F) {
	for _, tc := range goldenCases() {
		_, payload := structured(f, tc.message)
		f.Add(tc.topic, payload)
	}
	for topic, file := range map[string]string{
		"/sources/sd3ded4-mwrs-controller/clusters/cluster1/manifests":       "spec.json",
		"/sources/sd3ded4-mwrs-controller/clusters/cluster1/manifestsstatus": "status.json",
		"/sources/resync/cluster1/manifests":                                 "specresync.json",
	} {
		payload, err := os.ReadFile(filepath.Join("testdata", "enhancement", file))
		if err != nil {
			f.Fatal(err)
		}
		f.Add(topic, payload)
	}
	f.Fuzz(func(t *testing.T, topic string, payload []byte) {
		before := slices.Clone(payload)
		e, err := codec.ParseStructured(payload)
		if err != nil {
			return
		}
		m, err := codec.ManifestWork.Decode(topic, e)
		if !slices.Equal(before, payload) {
			t.Fatal("the payload was changed")
		}
		if err != nil {
			return
		}
		// The first round trip normalizes the message: fractions of seconds and unknown fields are
		// not encoded.
		topic2, payload2 := structured(t, m)
		m2 := decode(t, topic2, payload2)
		if topic2 != topic {
			t.Fatalf("topic %q becomes %q", topic, topic2)
		}
		topic3, payload3 := structured(t, m2)
		if diff := cmp.Diff(m2, decode(t, topic3, payload3), sameMessage); diff != "" {
			t.Fatalf("-want +got:\n%s", diff)
		}
		if string(payload2) != string(payload3) {
			t.Fatalf("the encoding is not stable:\n%s\n%s", payload2, payload3)
		}
	})
}

// FuzzRoundTrip fills messages from the fuzzer's bytes and checks that they survive a round trip.
func FuzzRoundTrip(f *testing.F) {
	for kind := range 4 {
		f.Add(kind, []byte{byte(kind), 1, 2, 3})
	}
	f.Fuzz(func(t *testing.T, kind int, data []byte) {
		fill := filler(randfill.NewFromGoFuzz(data)).NilChance(.3).MaxDepth(12)
		var m codec.Message
		switch kind & 3 {
		case 0:
			s := newSpec()
			s.Work = fillWork(fill, s.Header, s.WorkRef)
			m = s
		case 1:
			s := newStatus()
			fill.Fill(&s.Status)
			m = s
		case 2:
			r := newSpecResync()
			fill.Fill(&r.Entries)
			for i := range r.Entries {
				e := &r.Entries[i]
				e.Version, e.SequenceID, e.ResourceID = e.Version&(1<<63-1), e.SequenceID&(1<<63-1), "x"+e.ResourceID
			}
			m = r
		default:
			r := newStatusResync()
			fill.Fill(&r.Entries)
			for i := range r.Entries {
				e := &r.Entries[i]
				e.StatusSeq, e.ResourceID = e.StatusSeq&(1<<63-1), "x"+e.ResourceID
			}
			m = r
		}
		topic, payload := structured(t, m)
		if diff := cmp.Diff(m, decode(t, topic, payload), sameMessage); diff != "" {
			t.Fatalf("-want +got:\n%s", diff)
		}
	})
}

// FuzzStructured parses arbitrary bytes as an event. This package and the CloudEvents SDK can both
// write each event that parses, and each reads the output of the other.
func FuzzStructured(f *testing.F) {
	for _, tc := range goldenCases() {
		_, payload := structured(f, tc.message)
		f.Add(payload)
	}
	f.Add([]byte(`{"specversion":"1.0","id":"1","source":"/s","type":"t","datacontenttype":"text/plain","data":"x","a":1e5,"B":true}`))
	f.Add([]byte(`{"data_base64":"eyJhIjoxfQ==","specversion":"1.0","id":"1","source":"//s?x#y","type":"t","time":"2024-05-06T07:08:09.1+02:00"}`))
	f.Fuzz(func(t *testing.T, payload []byte) {
		want, err := codec.ParseStructured(payload)
		if err != nil {
			return
		}
		ours, err := codec.AppendStructured(nil, want)
		if err != nil {
			t.Fatal(err)
		}
		if !json.Valid(ours) {
			t.Fatalf("we wrote no JSON: %s", ours)
		}
		got, err := codec.ParseStructured(ours)
		if err != nil {
			t.Fatalf("we do not read what we wrote: %v\n%s", err, ours)
		}
		want.DataBase64, got.DataBase64 = false, false // bytes that are not UTF-8 are written as base64
		if diff := cmp.Diff(want, got, sameEvent); diff != "" {
			t.Fatalf("-want +got:\n%s", diff)
		}
		checkSDK(t, ours, got)
	})
}

// checkSDK checks that the SDK reads the payload as this package does, and that this package reads
// the SDK's output as the same event.
func checkSDK(t *testing.T, payload []byte, want *ce.Event) {
	switch want.DataContentType() {
	case "", "application/json", "text/plain":
	default:
		return // the SDK supports no other JSON types
	}
	ctx := want.Context.(*ce.EventContextV1)
	for _, name := range []string{"schemaurl", "datacontentencoding"} {
		if _, ok := ctx.Extensions[name]; ok {
			return // the SDK treats these as attributes of version 0.3
		}
	}
	var theirs ce.Event
	if err := json.Unmarshal(payload, &theirs); err != nil {
		t.Fatalf("the SDK does not read what we wrote: %v\n%s", err, payload)
	}
	asBase64 := theirs.DataBase64
	theirs.DataBase64 = false
	if diff := cmp.Diff(want, &theirs, sameEvent); diff != "" {
		t.Fatalf("the SDK reads something else (-want +got):\n%s\n%s", diff, payload)
	}
	theirs.DataBase64 = asBase64
	written, err := theirs.MarshalJSON()
	if err != nil {
		t.Fatal(err)
	}
	got, err := codec.ParseStructured(written)
	if err != nil {
		t.Fatalf("we do not read what the SDK wrote: %v\n%s", err, written)
	}
	got.DataBase64 = false
	if diff := cmp.Diff(want, got, sameEvent); diff != "" {
		t.Fatalf("we read something else (-want +got):\n%s\n%s", diff, written)
	}
}
