// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package kube

import (
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/spokewire/sdk-go/rsync/connector"
)

// explainConflict distinguishes a conflict of fields from a conflict of versions.
func explainConflict(s *metav1.Status) (text string, class error) {
	var owned []string
	if s.Details != nil {
		for _, cause := range s.Details.Causes {
			if cause.Type == metav1.CauseTypeFieldManagerConflict {
				owned = append(owned, cause.Field+" ("+cause.Message+")")
			}
		}
	}
	if len(owned) == 0 {
		return "another writer changes it at the same time", connector.ErrRetryable
	}
	return "other managers own fields of it, set Options.Force to take them: " +
		strings.Join(some(owned), ", "), connector.ErrTerminal
}

// some returns the first few of a list.
func some(list []string) []string {
	const most = 5
	if len(list) > most {
		return append(list[:most:most], "…")
	}
	return list
}

// fields lists the invalid fields, with texts that never quote a value.
func fields(s *metav1.Status) string {
	if s.Details == nil || len(s.Details.Causes) == 0 {
		return ""
	}
	var out []string
	for _, cause := range s.Details.Causes {
		text := cause.Field
		switch cause.Type {
		case metav1.CauseTypeFieldValueRequired, metav1.CauseType("FieldValueForbidden"):
			text += ": " + cause.Message
		default:
			text += ": " + strings.TrimPrefix(string(cause.Type), "FieldValue")
		}
		out = append(out, text)
	}
	return ": " + strings.Join(some(out), "; ")
}

// denial returns the safe part of a message about denied access. RBAC names the user and the
// resource. Webhooks and policies may quote the object, so only their names are returned.
func denial(message string) string {
	for _, end := range []string{"denied the request", "denied request"} {
		if i := strings.Index(message, end); i >= 0 {
			return message[:i+len(end)]
		}
	}
	if strings.Contains(message, " cannot ") && strings.Contains(message, " resource ") ||
		strings.Contains(message, "exceeded quota") || strings.Contains(message, "violates PodSecurity") {
		return message
	}
	return "the server's reasons may quote the object, and are not repeated here"
}

// isSchemaError reports whether an HTTP 500 of server-side apply without a reason is a mistake in
// the manifest. Other errors without a reason are temporary errors of etcd.
func isSchemaError(s *metav1.Status) bool {
	texts := []string{"failed to create typed patch object", "illegal base64 data", "cannot unmarshal"}
	return slices.ContainsFunc(texts, func(text string) bool { return strings.Contains(s.Message, text) })
}

// undeclared returns the field that a kind does not have, if the server names it.
func undeclared(message string) string {
	path, _, ok := strings.Cut(message, ": field not declared in schema")
	if !ok {
		return ""
	}
	if i := strings.LastIndexByte(path, ' '); i >= 0 { // the path has no space, except in values of list keys
		path = path[i+1:]
	}
	return ": it has no field " + path
}

// webhookDown names the webhook that does not answer.
func webhookDown(message string) string {
	_, after, ok := strings.Cut(message, "failed calling webhook ")
	if !ok {
		return ""
	}
	name, _, _ := strings.Cut(after, ": ")
	return ": the webhook " + name + " does not answer as it should"
}
