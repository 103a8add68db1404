// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package codec_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	workv1 "open-cluster-management.io/api/work/v1"

	"github.com/spokewire/sdk-go/codec"
)

// TestEnhancementEvents decodes the example events of the enhancement, without their comments and
// syntax errors. Their attributes are in camel case, versions are numbers, and a name is misspelt.
func TestEnhancementEvents(t *testing.T) {
	const sourceID = "sd3ded4-mwrs-controller"
	header := func(agent string, year int, month time.Month) codec.Header {
		return codec.Header{ID: "0b1f", Time: time.Date(year, month, 5, 17, 31, 0, 0, time.UTC), Source: sourceID,
			Cluster: cluster, Agent: agent}
	}
	work := &workv1.ManifestWork{}
	work.Name, work.Namespace = enhancementRef().Name, cluster
	deleting := work.DeepCopy()
	work.Spec.DeleteOption = &workv1.DeleteOption{SelectivelyOrphan: &workv1.SelectivelyOrphan{}}
	work.Spec.ManifestConfigs = []workv1.ManifestConfigOption{{
		FeedbackRules:  []workv1.FeedbackRule{{}},
		UpdateStrategy: &workv1.UpdateStrategy{ServerSideApply: &workv1.ServerSideApplyConfig{}},
	}}
	deletion := metav1.NewTime(time.Date(2018, 4, 5, 17, 31, 0, 0, time.UTC))
	toAll := header(sourceID, 2018, time.April)
	toAll.Source = ""

	for _, tc := range []struct {
		file, reason, topic string
		want                codec.Message
	}{
		{"spec.json", "a number as version, rules at the enhancement's level",
			"/sources/sd3ded4-mwrs-controller/clusters/cluster1/manifests",
			&codec.Spec{Header: header("", 2023, time.April), WorkRef: enhancementRef(), Work: work}},
		{"spec-deleting.json", "of a deletion only the metadata counts",
			"/sources/sd3ded4-mwrs-controller/clusters/cluster1/manifests",
			&codec.Spec{Header: header("", 2023, time.April), WorkRef: enhancementRef(), DeletionTimestamp: &deletion,
				Work: deleting}},
		{"status.json", "the misspelt version alone", "/sources/sd3ded4-mwrs-controller/clusters/cluster1/manifestsstatus",
			&codec.Status{Header: header(agent, 2018, time.April), WorkRef: enhancementRef(), Status: &workv1.ManifestWorkStatus{
				ResourceStatus: workv1.ManifestResourceStatus{Manifests: []workv1.ManifestCondition{{}}},
			}}},
		{"specresync.json", "the example has a source ID where agents have theirs", "/sources/resync/cluster1/manifests",
			&codec.SpecResync{Header: toAll, Broadcast: true, Entries: []codec.SpecEntry{
				{ResourceID: "748d04ad-887a-43aa-b123-da1373227011", Version: 3},
				{ResourceID: "858d03ad-997b-52bc-b456-ab1473228022", Version: 1},
			}}},
	} {
		t.Run(tc.file, func(t *testing.T) {
			payload, err := os.ReadFile(filepath.Join("testdata", "enhancement", tc.file))
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tc.want, decode(t, tc.topic, payload), sameMessage); diff != "" {
				t.Errorf("%s (-want +got):\n%s", tc.reason, diff)
			}
		})
	}
}

func TestResourceID(t *testing.T) {
	long := strings.Repeat("x", 1000)
	for _, parts := range [][3]string{{"s", "c", "w"}, {"", "", ""}, {"a", "b/c", "d"}, {long, long, long}} {
		want := uuid.NewSHA1(uuid.NameSpaceOID, []byte(strings.Join(parts[:], "/"))).String()
		if got := codec.ResourceID(parts[0], parts[1], parts[2]); got != want {
			t.Errorf("ResourceID(%.10q, %.10q, %.10q) = %s, want %s", parts[0], parts[1], parts[2], got, want)
		}
	}
}
