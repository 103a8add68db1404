// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package workdata

import "bytes"

// words are the strings in almost every status of work agents. A decoded status refers to them, so
// they need no memory of their own.
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

// wordOf maps the text of a word to the word.
var wordOf = func() map[string]string {
	out := make(map[string]string, len(words))
	for _, word := range words {
		out[word] = word
	}
	return out
}()

// textBlock collects strings and allocates one block of memory for them. A string in use keeps its
// whole block in memory, so blocks are small.
type textBlock struct {
	text   [512]byte
	length int
	waits  [32]waitingText
	count  int
}

// waitingText is a string that is set when the block is flushed.
type waitingText struct {
	to         *string
	start, end uint16
}

// keep sets a string, at once or when the block is flushed.
func (b *textBlock) keep(to *string, text []byte) {
	if len(text) == 0 {
		return
	}
	if *to = wordOf[string(text)]; *to != "" {
		return
	}
	if len(text) > len(b.text)/4 { // its own allocation costs little
		*to = string(text)
		return
	}
	if b.count == len(b.waits) || b.length+len(text) > len(b.text) {
		b.flush()
	}
	// A status has many texts twice: for example, for the work and for its only manifest.
	at := bytes.Index(b.text[:b.length], text)
	if at < 0 {
		at = b.length
		b.length += copy(b.text[at:], text)
	}
	b.waits[b.count] = waitingText{to: to, start: uint16(at), end: uint16(at + len(text))}
	b.count++
}

// flush sets the waiting strings.
func (b *textBlock) flush() {
	text := string(b.text[:b.length])
	for _, w := range b.waits[:b.count] {
		*w.to = text[w.start:w.end]
	}
	b.length, b.count = 0, 0
}
