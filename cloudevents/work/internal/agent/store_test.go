// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package agent_test

import (
	"encoding/json"
	"math/rand"
	"reflect"
	"slices"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/randfill"

	"github.com/spokewire/sdk-go/cloudevents/work/internal/agent"
	"github.com/spokewire/sdk-go/cloudevents/work/internal/journal"
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
		var filled, want agent.StoredWork
		agent.FillWork(f.Fill, &filled)
		record, err := journal.Encode(&filled)
		if err != nil {
			t.Fatal(err)
		}
		if err := json.Unmarshal(record, &want); err != nil {
			t.Fatal(err)
		}
		got, err := agent.DecodeWork(record)
		if err != nil {
			t.Fatal(err)
		}
		if !reflect.DeepEqual(&want, got) {
			t.Fatalf("seed %d: encoding/json has %+v, Decode %+v:\n%s", seed, want, got, record)
		}
		var members map[string]json.RawMessage
		if err := json.Unmarshal(record, &members); err != nil {
			t.Fatal(err)
		}
		for name := range members {
			if !slices.Contains(agent.WorkMembers(), name) {
				t.Errorf("no member %q", name)
			}
		}
	}
}
