// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package kube

import (
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/cli-utils/pkg/kstatus/status"

	"github.com/spokewire/sdk-go/rsync/appcontext"
	"github.com/spokewire/sdk-go/rsync/connector"
)

// stateOf returns the state of an object, as kstatus computes it, except for Jobs and Pods, the
// kinds of most hooks. For kstatus a running Job and a failed Pod are Current, and a Pod that may
// still start is Failed.
func stateOf(o appcontext.Object, u *unstructured.Unstructured) connector.State {
	s := connector.State{Object: o, Exists: true}
	result, err := status.Compute(u)
	if err != nil {
		s.Message = "its status cannot be read"
		return s
	}
	kind := u.GroupVersionKind().GroupKind()
	s.Message = message(kind, result)
	switch result.Status {
	case status.CurrentStatus:
		s.Ready = true
	case status.FailedStatus:
		s.Failed = true
	}
	if u.GetDeletionTimestamp() != nil {
		return s
	}
	switch kind {
	case schema.GroupKind{Group: "batch", Kind: "Job"}:
		s.Ready = s.Ready && hasCondition(u, "Complete")
	case schema.GroupKind{Kind: "Pod"}:
		phase, _, _ := unstructured.NestedString(u.Object, "status", "phase")
		s.Failed = phase == "Failed"
		s.Ready = s.Ready && !s.Failed
	}
	return s
}

func hasCondition(u *unstructured.Unstructured, name string) bool {
	conditions, _, _ := unstructured.NestedSlice(u.Object, "status", "conditions")
	for _, c := range conditions {
		if condition, ok := c.(map[string]any); ok && condition["type"] == name && condition["status"] == "True" {
			return true
		}
	}
	return false
}

// counted are the kinds for which kstatus writes its own messages, with numbers in them.
var counted = map[schema.GroupKind]bool{
	{Kind: "Pod"}: true, {Kind: "PersistentVolumeClaim"}: true, {Kind: "Service"}: true,
	{Group: "batch", Kind: "Job"}:       true,
	{Group: "apps", Kind: "Deployment"}: true, {Group: "apps", Kind: "StatefulSet"}: true,
	{Group: "apps", Kind: "DaemonSet"}: true, {Group: "apps", Kind: "ReplicaSet"}: true,
}

// message returns a text about the state, without content of the object. Conditions of controllers
// may quote anything, so for kinds that are not in counted it has only the reason, which is one
// word.
func message(kind schema.GroupKind, result *status.Result) string {
	for i := range result.Conditions {
		if reason := result.Conditions[i].Reason; !counted[kind] && isWord(reason) {
			return result.Status.String() + ": " + reason
		}
	}
	if counted[kind] && len(result.Message) <= 200 {
		return result.Message
	}
	return result.Status.String()
}

// isWord reports whether a condition's reason is one word, as the API conventions require.
func isWord(s string) bool {
	other := func(c rune) bool { return (c < 'A' || c > 'Z') && (c < 'a' || c > 'z') && (c < '0' || c > '9') }
	return s != "" && len(s) <= 64 && !strings.ContainsFunc(s, other)
}
