// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package source_test

import (
	"encoding/json"
	"math/rand"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/randfill"

	"github.com/spokewire/sdk-go/cloudevents/work/internal/journal"
	"github.com/spokewire/sdk-go/cloudevents/work/internal/protocol"
	"github.com/spokewire/sdk-go/cloudevents/work/internal/source"
)

// TestWorkRecordIsDecodedAsByEncodingJSON fills all fields of a work's record.
func TestWorkRecordIsDecodedAsByEncodingJSON(t *testing.T) {
	for seed := range int64(50) {
		f := randfill.New().RandSource(rand.NewSource(seed)).NilChance(float64(seed%3)/4).NumElements(1, 3).Funcs(
			func(t *metav1.Time, c randfill.Continue) { *t = metav1.NewTime(time.Unix(c.Int63n(1<<32), 0)) },
			func(t *time.Time, c randfill.Continue) { *t = time.Unix(c.Int63n(1<<32), c.Int63n(1e9)).UTC() },
			func(raw *runtime.RawExtension, _ randfill.Continue) { raw.Raw = []byte(`{"kind":"<A>"}`) },
			func(fields *metav1.FieldsV1, _ randfill.Continue) { *fields = *metav1.NewFieldsV1(`{"f:spec":{}}`) },
		)
		var filled, want source.StoredWork
		f.Fill(&filled)
		record, err := journal.Encode(&filled)
		if err != nil {
			t.Fatal(err)
		}
		if err := json.Unmarshal(record, &want); err != nil {
			t.Fatal(err)
		}
		got, err := source.DecodeWork(record)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(&want, got); diff != "" {
			t.Fatalf("seed %d: -encoding/json +Decode:\n%s\n%s", seed, diff, record)
		}
		var members map[string]json.RawMessage
		if err := json.Unmarshal(record, &members); err != nil {
			t.Fatal(err)
		}
		for name := range members {
			if !slices.Contains(source.WorkMembers(), name) {
				t.Errorf("no member %q", name)
			}
		}
	}
}

// TestIdentityOfLoadedWork: a replica that reads only the last of several changes may load a work
// that was created again into the former work.
func TestIdentityOfLoadedWork(t *testing.T) {
	got := source.Identities("id", &source.StoredWork{UID: "first"}, &source.StoredWork{UID: "second"})
	want := []protocol.Identity{protocol.NewIdentity("id", "first"), protocol.NewIdentity("id", "second")}
	if !slices.Equal(got, want) {
		t.Errorf("identities %v, want %v", got, want)
	}
}
