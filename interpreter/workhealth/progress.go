// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package workhealth

import (
	"fmt"
	"regexp"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/cli-utils/pkg/kstatus/status"

	"github.com/spokewire/sdk-go/internal/kstatus"
)

// replicas matches a message of kstatus about the replicas of a workload, as in "Available: 0/2".
var replicas = regexp.MustCompile(`^([A-Z][a-z]+): (\d+)/(\d+)$`)

// maxReason is the limit of a reason, in bytes: agents and interpreters may send long messages.
const maxReason = 1024

// progress returns whether an unhealthy object may still become healthy, and the missing part.
func progress(object *unstructured.Unstructured) (Health, string) {
	result, err := kstatus.Compute(object)
	switch {
	case err != nil || result.Status == status.CurrentStatus: // its interpreter knows more than kstatus
		return HealthProgressing, ""
	case result.Status == status.FailedStatus:
		return HealthDegraded, result.Message
	}
	if m := replicas.FindStringSubmatch(result.Message); m != nil {
		word := strings.ToLower(m[1])
		if word == "replicas" {
			word = "created"
		}
		return HealthProgressing, fmt.Sprintf("%s of %s replicas %s", m[2], m[3], word)
	}
	return HealthProgressing, result.Message
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
