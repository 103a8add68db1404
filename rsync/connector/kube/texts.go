// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package kube

import (
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/spokewire/sdk-go/rsync/connector"
)

// explainConflict tells a conflict about fields from one about versions.
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
		return "somebody else changes it at the same time", connector.ErrRetryable
	}
	return "others own fields of it, which Options.Force would take: " + strings.Join(some(owned), ", "), connector.ErrTerminal
}

// some returns the first few of a list.
func some(list []string) []string {
	const most = 5
	if len(list) > most {
		return append(list[:most:most], "…")
	}
	return list
}

// fields lists what is invalid. The text of a cause is told only where it never quotes a value.
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

// denial returns what may be told of why somebody is denied something. RBAC names who and what; what webhooks and policies say is theirs, and
// may quote the object, so they are only named.
func denial(message string) string {
	for _, end := range []string{"denied the request", "denied request"} {
		if i := strings.Index(message, end); i >= 0 {
			return message[:i+len(end)]
		}
	}
	if strings.Contains(message, " cannot ") && strings.Contains(message, " resource ") || strings.Contains(message, "exceeded quota") ||
		strings.Contains(message, "violates PodSecurity") {
		return message
	}
	return "the server's reasons may quote the object, and are not repeated here"
}

// isSchemaError knows the errors of server-side apply that have no reason and are HTTP 500, though they are the manifest's fault. Others
// without a reason are etcd's, and pass.
func isSchemaError(s *metav1.Status) bool {
	for _, text := range []string{"failed to create typed patch object", "illegal base64 data", "cannot unmarshal"} {
		if strings.Contains(s.Message, text) {
			return true
		}
	}
	return false
}

// undeclared returns the field that a kind does not have, where the server says which.
func undeclared(message string) string {
	path, _, ok := strings.Cut(message, ": field not declared in schema")
	if !ok {
		return ""
	}
	if i := strings.LastIndexByte(path, ' '); i >= 0 { // the path has no space, but for the values of a list's keys
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
