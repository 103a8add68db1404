// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package codec

import "bytes"

// words are the strings that work agents write into about every status, sorted. Those of a status that was read are
// these here and take no memory.
var words = [...]string{
	"All resources are available",
	"Applied",
	"AppliedManifestComplete",
	"AppliedManifestFailed",
	"AppliedManifestWorkComplete",
	"AppliedManifestWorkFailed",
	"Apply manifest complete",
	"Apply manifest work complete",
	"Applying",
	"Available",
	"Boolean",
	"ClusterRole",
	"ClusterRoleBinding",
	"Complete",
	"Completed",
	"ConditionRuleEvaluated",
	"ConfigMap",
	"CustomResourceDefinition",
	"DaemonSet",
	"Degraded",
	"Deleted",
	"Deleting",
	"Deployment",
	"Failed",
	"False",
	"Integer",
	"Job",
	"JsonRaw",
	"ManifestsDeleted",
	"Namespace",
	"NoStatusFeedbackSynced",
	"Progressing",
	"Resource is available",
	"ResourceAvailable",
	"ResourceNotAvailable",
	"ResourcesAvailable",
	"ResourcesNotAvailable",
	"ResourcesStatusUnknown",
	"Role",
	"RoleBinding",
	"Secret",
	"Service",
	"ServiceAccount",
	"StatefulSet",
	"StatusFeedbackSyncFailed",
	"StatusFeedbackSynced",
	"String",
	"True",
	"Unknown",
	"apiextensions.k8s.io",
	"apps",
	"batch",
	"clusterrolebindings",
	"clusterroles",
	"configmaps",
	"customresourcedefinitions",
	"daemonsets",
	"default",
	"deployments",
	"jobs",
	"namespaces",
	"rbac.authorization.k8s.io",
	"rolebindings",
	"roles",
	"secrets",
	"serviceaccounts",
	"services",
	"statefulsets",
	"v1",
}

// word returns text as one of the words, "" when it is none.
func word(text []byte) string {
	low, high := 0, len(words)
	for low < high {
		middle := int(uint(low+high) / 2)
		if words[middle] < string(text) {
			low = middle + 1
		} else {
			high = middle
		}
	}
	if low < len(words) && words[low] == string(text) {
		return words[low]
	}
	return ""
}

// textBlock gathers strings and gives each block of them one piece of memory of the size they need together. A
// string that stays in use keeps its block, so a block is small.
type textBlock struct {
	text   [512]byte
	length int
	waits  [32]waitingText
	count  int
}

// waitingText is a string that gets its text when the block is full.
type waitingText struct {
	to         *string
	start, end uint16
}

// keep sets a string, at once or when the block is flushed.
func (b *textBlock) keep(to *string, text []byte) {
	if len(text) == 0 {
		return
	}
	if *to = word(text); *to != "" {
		return
	}
	if len(text) > len(b.text)/4 { // a block of its own costs little
		*to = string(text)
		return
	}
	if b.count == len(b.waits) || b.length+len(text) > len(b.text) {
		b.flush()
	}
	// A status says many things twice: that of the work and that of its only manifest, for instance.
	at := bytes.Index(b.text[:b.length], text)
	if at < 0 {
		at = b.length
		b.length += copy(b.text[at:], text)
	}
	b.waits[b.count] = waitingText{to: to, start: uint16(at), end: uint16(at + len(text))}
	b.count++
}

// flush gives the strings that wait their text.
func (b *textBlock) flush() {
	text := string(b.text[:b.length])
	for _, w := range b.waits[:b.count] {
		*w.to = text[w.start:w.end]
	}
	b.length, b.count = 0, 0
}
