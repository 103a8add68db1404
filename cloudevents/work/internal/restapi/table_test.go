// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package restapi_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	workv1 "open-cluster-management.io/api/work/v1"
)

// TestTableRowsHaveRequestedPart reads lists and works as kubectl does.
func TestTableRowsHaveRequestedPart(t *testing.T) {
	clients := newClientset(t)
	h := handlerOf(t, clients)
	const works = "/apis/work.open-cluster-management.io/v1/namespaces/cluster1/manifestworks"
	for _, name := range []string{"a", "b"} {
		w := &workv1.ManifestWork{ObjectMeta: metav1.ObjectMeta{Name: name}}
		_, err := clients.WorkV1().ManifestWorks("cluster1").Create(t.Context(), w, metav1.CreateOptions{})
		if err != nil {
			t.Fatal(err)
		}
	}
	for query, want := range map[string][]string{
		works:                                {"Name,Age", "a PartialObjectMetadata a", "b PartialObjectMetadata b"},
		works + "?includeObject=Object":      {"Name,Age", "a ManifestWork a", "b ManifestWork b"},
		works + "?includeObject=None":        {"Name,Age", "a  ", "b  "},
		works + "/b?includeObject=Object":    {"Name,Age", "b ManifestWork b"},
		works + "?labelSelector=without=any": {"Name,Age"},
	} {
		var table struct {
			ColumnDefinitions []metav1.TableColumnDefinition
			Rows              []struct {
				Cells  []string
				Object metav1.PartialObjectMetadata
			}
		}
		w := get(t, h, query, "Accept", "application/json;as=Table;g=meta.k8s.io;v=v1")
		if w.Code != http.StatusOK {
			t.Fatalf("%s: %s", query, w.Body)
		}
		if err := json.NewDecoder(w.Body).Decode(&table); err != nil {
			t.Fatalf("%s: %v", query, err)
		}
		got := []string{table.ColumnDefinitions[0].Name + "," + table.ColumnDefinitions[1].Name}
		for _, row := range table.Rows {
			got = append(got, fmt.Sprintf("%s %s %s", row.Cells[0], row.Object.Kind, row.Object.Name))
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", query, diff)
		}
	}
}
