// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package restapi

import (
	"context"

	"k8s.io/apimachinery/pkg/api/meta"
	metatable "k8s.io/apimachinery/pkg/api/meta/table"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	workv1 "open-cluster-management.io/api/work/v1"

	"github.com/spokewire/sdk-go/cloudevents/work/internal/crd"
)

// columns are those of a CRD that defines no columns.
var columns = func() []metav1.TableColumnDefinition {
	descriptions := metav1.ObjectMeta{}.SwaggerDoc()
	return []metav1.TableColumnDefinition{
		{Name: "Name", Type: "string", Format: "name", Description: descriptions["name"]},
		{Name: "Age", Type: "date", Description: descriptions["creationTimestamp"]},
	}
}()

func cells(_ runtime.Object, m metav1.Object, name, age string) ([]any, error) {
	if created := m.GetCreationTimestamp(); created.IsZero() { // a bookmark
		return []any{name, nil}, nil
	}
	return []any{name, age}, nil
}

// tables converts works to the tables that kubectl prints.
type tables struct{}

// ConvertToTable implements [rest.TableConvertor].
func (tables) ConvertToTable(_ context.Context, obj, options runtime.Object) (*metav1.Table, error) {
	table := &metav1.Table{}
	o, ok := options.(*metav1.TableOptions)
	if !ok || !o.NoHeaders {
		table.ColumnDefinitions = columns
	}
	if list, err := meta.ListAccessor(obj); err == nil {
		table.ResourceVersion, table.Continue = list.GetResourceVersion(), list.GetContinue()
		table.RemainingItemCount = list.GetRemainingItemCount()
	} else if one, err := meta.CommonAccessor(obj); err == nil {
		table.ResourceVersion = one.GetResourceVersion()
	}
	var err error
	table.Rows, err = metatable.MetaToTableRow(obj, cells)
	if err != nil || !ok || o.IncludeObject != metav1.IncludeObject {
		return table, err
	}
	for i := range table.Rows {
		row := &table.Rows[i].Object
		if w, ok := row.Object.(*workv1.ManifestWork); ok {
			u, err := crd.Unstructured(w) // the only form that crd.Objects converts
			if err != nil {
				return nil, err
			}
			if w.CreationTimestamp.IsZero() {
				delete(u.Object, "spec") // a bookmark has only metadata
			}
			row.Object = u
		}
	}
	return table, nil
}
