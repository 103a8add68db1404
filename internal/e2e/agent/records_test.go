// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package agent_test

import (
	"fmt"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// records: the failure of a work, and its recovery, are logged once, and are Events of its
// AppliedWork. The records and the work's objects name the application.
func (s *scene) records() {
	const label = `"labels": {"hub.spokewire.io/application": "shop"}`
	manifest := func(namespace string) string {
		return fmt.Sprintf(`{"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "c", "namespace": %q, %s}}`,
			namespace, label)
	}
	s.create("w", spec(manifest("missing-"+s.ns)))
	names := "cluster=" + s.name + " work=" + s.id("w") + " application=shop generation="
	s.process.logs(s.t, `level=ERROR msg="Failed to apply a work, retrying" `+names+`1 err=`)
	s.update("w", manifests(manifest(s.ns)))
	s.applied("w")
	s.process.logs(s.t, `level=INFO msg="Recovered a work" `+names+`2`)
	s.process.mu.Lock()
	if n := strings.Count(s.process.log(), `msg="Failed to apply a work, retrying" `+names); n != 1 {
		s.t.Errorf("the failure is logged %d times", n)
	}
	s.process.mu.Unlock()
	record := s.record("w")
	eventually(s.t, "the Events of the AppliedWork", func() error {
		events, err := s.core.CoreV1().Events("default").List(s.t.Context(), metav1.ListOptions{
			FieldSelector: "involvedObject.uid=" + string(record.UID),
		})
		if err != nil {
			return err
		}
		var got []string
		for _, e := range events.Items {
			got = append(got, e.Type+" "+e.Reason)
		}
		slices.Sort(got)
		if want := []string{"Normal WorkRecovered", "Warning WorkFailed"}; !slices.Equal(got, want) {
			return fmt.Errorf("%q, want %q", got, want)
		}
		return nil
	})
}
