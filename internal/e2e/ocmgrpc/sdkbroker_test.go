// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package ocmgrpc_test

import (
	"context"
	"fmt"
	"maps"
	"net"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	ce "github.com/cloudevents/sdk-go/v2/event"
	"github.com/google/uuid"
	gogrpc "google.golang.org/grpc"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	workv1 "open-cluster-management.io/api/work/v1"
	ocmpayload "open-cluster-management.io/sdk-go/pkg/cloudevents/clients/work/payload"
	pbv1 "open-cluster-management.io/sdk-go/pkg/cloudevents/generic/options/grpc/protobuf/v1"
	ocmtypes "open-cluster-management.io/sdk-go/pkg/cloudevents/generic/types"
	ocmserver "open-cluster-management.io/sdk-go/pkg/cloudevents/server"
	ocmbroker "open-cluster-management.io/sdk-go/pkg/cloudevents/server/grpc"

	"github.com/spokewire/sdk-go/cloudevents/grpc"
	"github.com/spokewire/sdk-go/codec"
	"github.com/spokewire/sdk-go/internal/e2e/e2etest"
	"github.com/spokewire/sdk-go/internal/testing/agenttest"
)

// service is a service for the gRPC broker of the OCM SDK v1.3.0, like that of Maestro.
type service struct {
	t      *testing.T
	source string

	mu       sync.Mutex
	works    map[string]int64 // versions
	reported map[string]int64
}

// List implements [ocmserver.Service].
func (s *service) List(context.Context, ocmtypes.ListOptions) (events []*ce.Event, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, name := range slices.Sorted(maps.Keys(s.works)) {
		text := fmt.Sprintf(`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":%q,"namespace":"shop"},`+
			`"data":{"value":"%d"}}`, name, s.works[name])
		w := &workv1.ManifestWork{ObjectMeta: metav1.ObjectMeta{Name: name, Generation: s.works[name]}}
		w.Spec.Workload.Manifests = []workv1.Manifest{{RawExtension: runtime.RawExtension{Raw: []byte(text)}}}
		_, e, err := codec.ManifestBundle.Encode(&codec.Spec{
			Header: codec.Header{ID: uuid.NewString(), Source: s.source, Cluster: cluster, Time: time.Now().UTC()},
			WorkRef: codec.WorkRef{ResourceID: codec.ManifestBundle.ResourceID(s.source, cluster, name), Name: name,
				Version: s.works[name]},
			Work: w,
		})
		if err != nil {
			return nil, err
		}
		events = append(events, e)
	}
	return events, nil
}

// HandleStatusUpdate implements [ocmserver.Service].
func (s *service) HandleStatusUpdate(_ context.Context, e *ce.Event) error {
	m, err := codec.ManifestBundle.Decode("sources/"+s.source+"/clusters/"+cluster+"/agentevents", e)
	if err != nil {
		s.t.Errorf("the server received an invalid status: %v", err)
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	status := m.(*codec.Status)
	s.reported[status.Name] = status.Version
	return nil
}

// RegisterHandler implements [ocmserver.Service].
func (s *service) RegisterHandler(context.Context, ocmserver.EventHandler) {}

// set replaces all works.
func (s *service) set(works map[string]int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.works, s.reported = works, map[string]int64{}
}

func (s *service) has(version int64, names ...string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, name := range names {
		if got := s.reported[name]; got != version {
			return fmt.Errorf("the status of %s is of version %d", name, got)
		}
	}
	return nil
}

// TestAgentOnSDKBroker runs an agent of this SDK on the gRPC broker of the OCM SDK v1.3.0. While the
// agent is away, a work changes, and others are removed: also the last one. The broker deletes them
// with events from another source that have only the resource ID. The agent names the actual source.
func TestAgentOnSDKBroker(t *testing.T) {
	const source = "maestro"
	s := &service{t: t, source: source}
	s.set(map[string]int64{"a": 1, "b": 1, "c": 1})
	broker := ocmbroker.NewGRPCBroker(ocmbroker.NewBrokerOptions())
	broker.RegisterService(t.Context(), ocmpayload.ManifestBundleEventDataType, s)
	g := gogrpc.NewServer()
	pbv1.RegisterCloudEventServiceServer(g, broker)
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	e2etest.Background(t, func(ctx context.Context) error {
		context.AfterFunc(ctx, g.Stop)
		return g.Serve(listener)
	})
	m, file := managed{agenttest.NewCluster()}, filepath.Join(t.TempDir(), "works.db")
	o := grpc.Options{Address: listener.Addr().String(), Insecure: true}

	agent := startWith(t, o, m, file, source)
	e2etest.Eventually(t, "the statuses arrive", func() error { return s.has(1, "a", "b", "c") })
	agent.Kill()
	s.set(map[string]int64{"a": 2, "c": 1})
	agent = startWith(t, o, m, file, source)
	e2etest.Eventually(t, "the change and the deletion arrive", func() error {
		return onlyHas(m,
			map[string]string{"a": "2", "c": "1"})
	})
	e2etest.Eventually(t, "the status arrives", func() error { return s.has(2, "a") })
	agent.Kill()
	s.set(nil)
	startWith(t, o, m, file, source)
	e2etest.Eventually(t, "all objects are deleted", func() error { return onlyHas(m, map[string]string{}) })
}

func onlyHas(m managed, want map[string]string) error {
	values, err := m.Values()
	if err == nil && !maps.Equal(values, want) {
		err = fmt.Errorf("the cluster has %v", values)
	}
	return err
}
