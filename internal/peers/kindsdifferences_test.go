// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package peers_test

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
)

// kindsDifference is a row of interpreter/customization/kinds/KARMADA.md.
type kindsDifference struct {
	difference
	cases []string // cases that show it: kind, operation and name
}

// These are the differences in the form of answers. The comparison accepts them in all cases.
const (
	formOfRequirements = "requirements"
	formOfStatuses     = "empty values"
	formOfObjects      = "other fields"
	memoryOfFlink      = "FlinkDeployment: memory"
)

var kindsDifferences = []kindsDifference{
	{
		difference{
			formOfRequirements,
			"left out if they are empty; without the namespace",
			"always, with the namespace",
			"here: an estimator needs it for quotas",
		},
		[]string{formOfRequirements},
	}, {
		difference{formOfStatuses, "empty texts of some fields are kept in a status; empty lists and objects never are",
			"texts that no cluster reports are left out, empty lists stay", "both: they mean the same"},
		[]string{formOfStatuses},
	}, {
		difference{formOfObjects, "AggregateStatus of Ray and SidecarSet removes the spec from its result",
			"only the status changes", "here: the result is the object"},
		[]string{formOfObjects},
	}, {
		difference{"SidecarSet: Retain", "answers the desired object", "not answered", "both: nothing is retained"},
		[]string{"SidecarSet/Retain"},
	}, {
		difference{
			"UnitedDeployment: pods",
			"spec.template is a pod template",
			"spec.template has one of four workloads, with a pod template",
			"here: as in the schema of Kruise",
		},
		[]string{"UnitedDeployment/InterpretDependency/UnitedDeployment with configmap and secret dependency"},
	}, {
		difference{
			"BroadcastJob: on no cluster",
			"the status stays as it was",
			"no pods",
			"here: the earlier pods do not run",
		},
		[]string{"BroadcastJob/AggregateStatus/BroadcastJob with no status items"},
	}, {
		difference{"DaemonSet of Kruise: daemonSetHash", "the number 0 when no cluster reports one", "an empty text",
			"here: the API server refuses a number"},
		[]string{"DaemonSet/AggregateStatus/DaemonSet: aggregate status with no members"},
	}, {
		difference{"status that is missing", "InterpretStatus answers nothing", "the generations, as package native",
			"both: the generation is not observed"},
		[]string{
			"DaemonSet/InterpretStatus/DaemonSet: interpret status with empty status",
			"HelmRelease/InterpretStatus/HelmRelease with nil status should return empty status",
		},
	}, {
		difference{
			"sources: certSecretRef",
			"ignored in a GitRepository",
			"a dependency in all kinds of the source controller",
			"both: a GitRepository does not have the field",
		},
		[]string{
			"GitRepository/InterpretDependency/GitRepository with certSecretRef only",
			"GitRepository/InterpretDependency/GitRepository with secretRef and certSecretRef",
		},
	}, {
		difference{"annotation that is a number", "accepted as the generation of the template", "ignored",
			"both: the API server refuses it"},
		[]string{"GitRepository/InterpretStatus/GitRepository with numeric resourceTemplateGeneration annotation"},
	}, {
		difference{memoryOfFlink, "a quantity: 2048m is 3 bytes", "in the units of Flink, or a quantity: 2048m is 2 GiB",
			"here: Flink and its operator read it so"},
		[]string{memoryOfFlink},
	}, {
		difference{"HelmChart: observedGeneration", "left out of the status", "in the status",
			"here: AggregateStatus needs it, also that of Karmada"},
		[]string{
			"HelmChart/InterpretStatus/HelmChart: interpret status test",
			"HelmChart/InterpretStatus/HelmChart without resourceTemplateGeneration annotation",
		},
	}, {
		difference{"HelmRelease: failures", "added to the earlier sum, if there is one", "the sum over the clusters",
			"here: each report would be counted again"},
		[]string{
			"HelmRelease/AggregateStatus/HelmRelease with two status items",
			"HelmRelease/AggregateStatus/HelmRelease with multiple status items merging conditions",
			"HelmRelease/AggregateStatus/HelmRelease with different revisions from multiple clusters",
			"HelmRelease/AggregateStatus/HelmRelease with partial observedGeneration update",
			"HelmRelease/AggregateStatus/HelmRelease with memberGeneration not matching observedGeneration",
		},
	}, {
		difference{
			"HelmRelease: reasons",
			"healthy only with the reason of v2beta1",
			"also with those of v2beta2 and v2",
			"here: all versions are interpreted",
		},
		[]string{"HelmRelease/InterpretHealth/HelmRelease with Ready=True, reason=OtherReason should be Unhealthy"},
	}, {
		difference{"MPIJob: conditions", "in the order of the reports; the first cluster wins for equal times",
			"in the order of their times; the last cluster wins for equal times", "here: kubectl shows the last condition"},
		[]string{
			"MPIJob/AggregateStatus/MPIJob with three status items",
			"MPIJob/AggregateStatus/MPIJob with partial success",
		},
	}, {
		difference{"Ray: conditions", "those of all clusters in a row", "one of each type",
			"here: the API server refuses a type twice"},
		[]string{
			"RayCluster/AggregateStatus/RayCluster with two status items",
			"RayCluster/AggregateStatus/RayCluster with unhealthy cluster",
			"RayCluster/AggregateStatus/RayCluster with CPU millicores and various memory units",
			"RayService/AggregateStatus/RayService multi-cluster with mixed app statuses",
		},
	}, {
		difference{
			"SparkApplication: memory",
			"with a fraction of a byte",
			"rounded up",
			"both: it is less than a byte",
		},
		[]string{"SparkApplication/InterpretComponent/SparkApplication interpret component for non-JVM job"},
	},
}

// TestKarmadaKindsPage compares the page for users with kindsDifferences.
func TestKarmadaKindsPage(t *testing.T) {
	content, err := os.ReadFile("../../interpreter/customization/kinds/KARMADA.md")
	if err != nil {
		t.Fatal(err)
	}
	var rows, want []string
	for line := range strings.Lines(string(content)) {
		if strings.HasPrefix(line, "| ") && !strings.HasPrefix(line, "| |") {
			rows = append(rows, strings.TrimSpace(line))
		}
	}
	for _, d := range kindsDifferences {
		want = append(want, fmt.Sprintf("| %s | %s | %s | %s |", d.name, d.karmada, d.here, d.right))
	}
	if !slices.Equal(rows, want) {
		t.Errorf("the rows of KARMADA.md must be\n%s", strings.Join(want, "\n"))
	}
}
