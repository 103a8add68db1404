// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package health

import (
	"fmt"
	"regexp"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	kstatus "github.com/spokewire/sdk-go/appliedwork/health"
	"github.com/spokewire/sdk-go/examples/hub/internal/status"
)

// replicas matches a message of kstatus about the replicas of a workload, as in "Available: 0/2".
var replicas = regexp.MustCompile(`^([A-Z][a-z]+): (\d+)/(\d+)$`)

// progress returns whether an unhealthy object may still become healthy, and the missing part.
func progress(object *unstructured.Unstructured) (status.Health, string) {
	result, err := kstatus.Of(object)
	switch {
	case err != nil || result.Status == kstatus.StatusCurrent: // its interpreter knows more than kstatus
		return status.Progressing, ""
	case result.Status == kstatus.StatusFailed:
		return status.Degraded, result.Message
	}
	if m := replicas.FindStringSubmatch(result.Message); m != nil {
		word := strings.ToLower(m[1])
		if word == "replicas" {
			word = "created"
		}
		return status.Progressing, fmt.Sprintf("%s of %s replicas %s", m[2], m[3], word)
	}
	return status.Progressing, result.Message
}

// isSuspended reports whether the manifest of an object stops its controller.
func isSuspended(object *unstructured.Unstructured) bool {
	for _, field := range []string{"paused", "suspend"} {
		if set, found, err := unstructured.NestedBool(object.Object, "spec", field); set && found && err == nil {
			return true
		}
	}
	return false
}
