// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package work_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/spokewire/sdk-go/cloudevents"
	"github.com/spokewire/sdk-go/cloudevents/memory"
	"github.com/spokewire/sdk-go/cloudevents/work"
)

// slowStart is a Store with a Load that calls load first, like a database that is starting up.
type slowStart struct {
	*work.MemoryStore
	load func() error
}

func (s *slowStart) Load(ctx context.Context, f func(string, []byte) error) error {
	if err := s.load(); err != nil {
		return err
	}
	return s.MemoryStore.Load(ctx, f)
}

// constructors create a source or an agent on a Store, with metrics.
var constructors = map[string]func(cloudevents.Transport, work.Store, prometheus.Registerer) error{
	"NewSource": func(t cloudevents.Transport, s work.Store, r prometheus.Registerer) error {
		_, err := work.NewSource(t, work.SourceOptions{SourceID: "hub", Store: s, MetricsRegisterer: r})
		return err
	},
	"NewAgent": func(t cloudevents.Transport, s work.Store, r prometheus.Registerer) error {
		_, err := work.NewAgent(t, work.AgentOptions{ClusterName: "cluster1", Store: s, MetricsRegisterer: r})
		return err
	},
}

// TestConstructorCanRetryAfterStoreError: a constructor that cannot read its Store leaves no state
// that blocks the next attempt.
func TestConstructorCanRetryAfterStoreError(t *testing.T) {
	for name, construct := range constructors {
		t.Run(name, func(t *testing.T) {
			down := errors.New("database is starting up")
			load := down
			store := &slowStart{work.NewMemoryStore(), func() error { return load }}
			registry, transport := prometheus.NewPedanticRegistry(), memory.New().Transport()
			for range 2 {
				if err := construct(transport, store, registry); !errors.Is(err, down) ||
					!strings.Contains(err.Error(), "Options.Store: ") {
					t.Errorf("with the store down: %v", err)
				}
			}
			if families, err := registry.Gather(); err != nil || len(families) > 0 {
				t.Errorf("%d metrics are left, %v", len(families), err)
			}
			load = nil
			if err := construct(transport, store, registry); err != nil {
				t.Errorf("with the store up: %v", err)
			}
		})
	}
}

// TestScrapeWhileStoreLoads: the registry can be gathered while a Store loads, because it may
// have other metrics and the load may take long.
func TestScrapeWhileStoreLoads(t *testing.T) {
	for name, construct := range constructors {
		t.Run(name, func(t *testing.T) {
			registry := prometheus.NewPedanticRegistry()
			store := &slowStart{work.NewMemoryStore(), func() error {
				gathered := make(chan error, 1)
				go func() {
					_, err := registry.Gather()
					gathered <- err
				}()
				select {
				case err := <-gathered:
					return err
				case <-time.After(5 * time.Second):
					return errors.New("the registry waits for the store")
				}
			}}
			if err := construct(memory.New().Transport(), store, registry); err != nil {
				t.Error(err)
			}
		})
	}
}
