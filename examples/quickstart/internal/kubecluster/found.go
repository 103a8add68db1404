// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package kubecluster

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/spokewire/sdk-go/appliedwork"
	"github.com/spokewire/sdk-go/appliedwork/v1alpha1"
)

// annotationFound is on an AppliedWork that has adopted objects which nobody had: they are left when the work ends.
const annotationFound = "spokewire.github.io/quickstart-found"

// found is what the annotation says.
type found map[appliedwork.Key]bool

func foundIn(record *v1alpha1.AppliedWork) found {
	f := found{}
	var keys []appliedwork.Key
	// What somebody else has made of the annotation cannot be helped.
	_ = json.Unmarshal([]byte(record.Annotations[annotationFound]), &keys)
	for _, key := range keys {
		f[key] = true
	}
	return f
}

func (f found) String() string {
	keys := slices.SortedFunc(maps.Keys(f), func(a, b appliedwork.Key) int { return cmp.Compare(a.String(), b.String()) })
	text, _ := json.Marshal(keys) // of strings
	return string(text)
}

// forget takes out what the work has let go of, and writes the rest down if it is not what is there.
func (c *Cluster) forget(ctx context.Context, record *v1alpha1.AppliedWork, f found, pruned *appliedwork.ChangeSet) error {
	for _, change := range pruned.Entries {
		switch change.Action {
		case appliedwork.ActionDeleted, appliedwork.ActionReleased, appliedwork.ActionRetained:
			delete(f, change.Key)
		}
	}
	return c.remember(ctx, record, f)
}

// remember writes down what was found.
func (c *Cluster) remember(ctx context.Context, record *v1alpha1.AppliedWork, f found) error {
	text, value := "", any(nil) // which takes the annotation away
	if len(f) > 0 {
		text = f.String()
		value = text
	}
	if text == record.Annotations[annotationFound] {
		return nil
	}
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{"uid": record.UID, "annotations": map[string]any{annotationFound: value}}})
	if err != nil {
		return err
	}
	if _, err := c.client.Resource(v1alpha1.GroupVersionResource).Patch(ctx, record.Name, types.MergePatchType, patch, metav1.PatchOptions{}); err != nil {
		return fmt.Errorf("write down in AppliedWork %s what was there before the work: %w", record.Name, err)
	}
	if record.Annotations == nil {
		record.Annotations = map[string]string{}
	}
	record.Annotations[annotationFound] = text
	return nil
}
