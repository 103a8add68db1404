// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package appliedwork

import (
	"context"
	"crypto/sha256"
	"encoding/base64"
	"maps"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/spokewire/sdk-go/appliedwork/v1alpha1"
)

// Labels and annotations of ApplySets, of KEP-3659.
const (
	labelPartOf          = "applyset.kubernetes.io/part-of"
	labelSetID           = "applyset.kubernetes.io/id"
	annotationTooling    = "applyset.kubernetes.io/tooling"
	annotationKinds      = "applyset.kubernetes.io/contains-group-kinds"
	annotationNamespaces = "applyset.kubernetes.io/additional-namespaces"

	// maxSetAnnotation leaves room for other annotations of the 256 KiB that an object may have.
	maxSetAnnotation = 64 << 10
	// tooling keeps kubectl apply --prune from working on the set.
	tooling = "appliedwork/v1alpha1"
)

// ApplySetID returns the ID of the ApplySet of the AppliedWork with a name: the value of the label
// applyset.kubernetes.io/part-of of its objects. See [Options].ApplySet.
func ApplySetID(name string) string {
	sum := sha256.Sum256([]byte(strings.Join([]string{name, "", v1alpha1.Kind, v1alpha1.GroupName}, ".")))
	return "applyset-" + base64.RawURLEncoding.EncodeToString(sum[:]) + "-v1"
}

// isOtherSet reports whether an object is part of another ApplySet. It can be part of only one.
func isOtherSet(live *unstructured.Unstructured, id string) bool {
	if live == nil {
		return false
	}
	of := live.GetLabels()[labelPartOf]
	return of != "" && of != id
}

func joinSet(manifest *unstructured.Unstructured, id string) {
	labels := manifest.GetLabels()
	if labels == nil {
		labels = map[string]string{}
	}
	labels[labelPartOf] = id
	manifest.SetLabels(labels)
}

// describeSet records the ApplySet in the AppliedWork before the objects are written.
func (t *Tracker) describeSet(ctx context.Context, inv *inventory) error {
	if !t.opts.ApplySet {
		return nil
	}
	kinds, namespaces := map[string]bool{}, map[string]bool{}
	for _, e := range inv.entries() {
		kinds[strings.TrimSuffix(e.Kind+"."+e.Group, ".")] = true
		if e.Namespace != "" {
			namespaces[e.Namespace] = true
		}
	}
	labels := map[string]string{labelSetID: ApplySetID(inv.main().Name)}
	annotations := map[string]string{annotationTooling: tooling}
	for name, set := range map[string]map[string]bool{annotationKinds: kinds, annotationNamespaces: namespaces} {
		if annotations[name] = sortedList(set); len(annotations[name]) > maxSetAnnotation {
			annotations[name] = ""
		}
	}
	if includes(inv.main().Labels, labels) && includes(inv.main().Annotations, annotations) {
		return nil
	}
	return t.patchMain(ctx, inv.shards[0], map[string]any{"labels": labels, "annotations": annotations})
}

func sortedList(set map[string]bool) string { return strings.Join(slices.Sorted(maps.Keys(set)), ",") }

func includes(all, some map[string]string) bool {
	for name, value := range some {
		if all[name] != value {
			return false
		}
	}
	return true
}
