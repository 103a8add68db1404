// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package grpc

import (
	"context"
	"maps"
	"sync"
)

// maxOtherSources limits the clusters of [OtherSources].
const maxOtherSources = 20_000

// OtherSources is an [Authorizer] that records the agents that ask only for other sources than
// Source, for example because of a typing error. Set Source and Next before the first use. It may be
// used concurrently, and records up to 20,000 clusters.
type OtherSources struct {
	// Source is the source ID of the program.
	Source string
	// Next decides about the access.
	Next Authorizer

	mu     sync.Mutex
	others map[string]string // the other source, or "" for an agent of Source, by cluster
}

// Authorize implements [Authorizer]. It returns the error of Next.
func (s *OtherSources) Authorize(ctx context.Context, a Access) error {
	err := s.Next.Authorize(ctx, a)
	if err != nil || a.Cluster == "" || a.Source == "" {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.others == nil {
		s.others = map[string]string{}
	}
	if _, known := s.others[a.Cluster]; a.Source == s.Source && (known || len(s.others) < maxOtherSources) {
		s.others[a.Cluster] = ""
	} else if !known && len(s.others) < maxOtherSources {
		s.others[a.Cluster] = a.Source
	}
	return nil
}

// Clusters returns one of the other sources of each recorded cluster.
func (s *OtherSources) Clusters() map[string]string {
	s.mu.Lock()
	defer s.mu.Unlock()
	out := maps.Clone(s.others)
	maps.DeleteFunc(out, func(_, source string) bool { return source == "" })
	return out
}
