// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package workload

import (
	"encoding/json"
	"fmt"

	"github.com/spokewire/sdk-go/interpreter"
)

// aggregate adds up the statuses of clusters.
func (w *Workload) aggregate(items []interpreter.AggregatedStatusItem) error {
	w.Status.ReadyReplicas = 0
	for _, item := range items {
		if item.Status == nil {
			continue
		}
		var s Status
		if err := json.Unmarshal(item.Status.Raw, &s); err != nil {
			return fmt.Errorf("the status on %s: %w", item.ClusterName, err)
		}
		w.Status.ReadyReplicas += s.ReadyReplicas
	}
	return nil
}
