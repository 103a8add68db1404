// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package hub

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spokewire/sdk-go/examples/quickstart/internal/progress"
)

// Summary has the numbers and the times of a run.
type Summary struct {
	// Files, Clusters and Objects are the numbers of files, of clusters, and of all objects on all
	// clusters.
	Files, Clusters, Objects int
	// Sent has, for each work, the time from sending it to the report that it is applied, in
	// ascending order.
	Sent []time.Duration
	// Updated and Deleted are the times of the update and the deletion. Took is the time of the
	// whole run.
	Updated, Deleted, Took time.Duration
}

// String returns the summary in a few lines.
func (s Summary) String() string {
	var b strings.Builder
	_, _ = fmt.Fprintf(&b, "%s for %s: %s applied and reported, one work updated, one deleted, in %s.\n",
		progress.Count(s.Files, "file"), progress.Count(s.Clusters, "cluster"), progress.Count(s.Objects,
			"object"), progress.Short(s.Took))
	if len(s.Sent) > 0 {
		_, _ = fmt.Fprintf(&b, "From sent to reported: %s at the median, %s at most",
			progress.Short(s.Sent[len(s.Sent)/2]), progress.Short(s.Sent[len(s.Sent)-1]))
	}
	_, _ = fmt.Fprintf(&b, "; the update took %s, the deletion %s.", progress.Short(s.Updated),
		progress.Short(s.Deleted))
	return b.String()
}

// latencies returns the times of all works, in ascending order.
func (h *Hub) latencies() []time.Duration {
	h.mu.Lock()
	defer h.mu.Unlock()
	var all []time.Duration
	for _, w := range h.works {
		all = append(all, w.reported.Sub(w.sent))
	}
	slices.Sort(all)
	return all
}

func (h *Hub) objects() int {
	h.mu.Lock()
	defer h.mu.Unlock()
	n := 0
	for _, w := range h.works {
		n += len(w.file.Objects)
	}
	return n
}

func (h *Hub) took(k key) time.Duration {
	h.mu.Lock()
	defer h.mu.Unlock()
	w := h.works[k]
	return w.reported.Sub(w.sent)
}
