// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package ocmgrpc

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"fmt"
	"net/http"
	"time"

	"github.com/cloudevents/sdk-go/v2/binding"
	"github.com/google/uuid"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	worktyped "open-cluster-management.io/api/client/work/clientset/versioned/typed/work/v1"
	workv1 "open-cluster-management.io/api/work/v1"
	pbv1 "open-cluster-management.io/sdk-go/pkg/cloudevents/generic/options/grpc/protobuf/v1"
	ocmprotocol "open-cluster-management.io/sdk-go/pkg/cloudevents/generic/options/grpc/protocol"

	"github.com/spokewire/sdk-go/codec"
)

// maestroWorks are the works of one source and one cluster in Maestro. It writes them with events on
// the endpoint for sources, and reads them over REST. It has the methods that [Steps] call.
type maestroWorks struct {
	worktyped.ManifestWorkInterface
	m               *Maestro
	source, cluster string
	events          pbv1.CloudEventServiceClient
	ids             map[string]string // resource ID of the last work of each name
}

// Works returns the works of a source on a cluster. A work that is created again has a new resource
// ID: Maestro would delete it if the agent reported the end of the earlier work again.
func (m *Maestro) Works(source, cluster string) worktyped.ManifestWorkInterface {
	m.t.Helper()
	conn, err := grpc.NewClient(m.Sources.Addr(), grpc.WithDefaultCallOptions(grpc.WaitForReady(true)),
		grpc.WithTransportCredentials(credentials.NewTLS(&tls.Config{RootCAs: m.CA.Pool()})))
	if err != nil {
		m.t.Fatal(err)
	}
	m.t.Cleanup(func() { _ = conn.Close() })
	return &maestroWorks{m: m, source: source, cluster: cluster, ids: map[string]string{},
		events: pbv1.NewCloudEventServiceClient(conn)}
}

// Create implements [worktyped.ManifestWorkInterface].
func (w *maestroWorks) Create(
	ctx context.Context, work *workv1.ManifestWork, _ metav1.CreateOptions,
) (*workv1.ManifestWork, error) {
	if _, err := w.Get(ctx, work.Name, metav1.GetOptions{}); err == nil {
		return nil, apierrors.NewAlreadyExists(workv1.Resource("manifestworks"), work.Name)
	} else if !apierrors.IsNotFound(err) {
		return nil, err
	}
	w.ids[work.Name] = uuid.NewString()
	return work, w.publish(ctx, codec.ActionCreate, work, nil)
}

// Update implements [worktyped.ManifestWorkInterface]. Maestro refuses it if another update was
// faster.
func (w *maestroWorks) Update(
	ctx context.Context, work *workv1.ManifestWork, _ metav1.UpdateOptions,
) (*workv1.ManifestWork, error) {
	return work, w.publish(ctx, codec.ActionUpdate, work, nil)
}

// Delete implements [worktyped.ManifestWorkInterface].
func (w *maestroWorks) Delete(ctx context.Context, name string, _ metav1.DeleteOptions) error {
	if _, err := w.Get(ctx, name, metav1.GetOptions{}); err != nil {
		return err
	}
	now := metav1.Now().Rfc3339Copy()
	return w.publish(ctx, codec.ActionDelete, &workv1.ManifestWork{ObjectMeta: metav1.ObjectMeta{Name: name}}, &now)
}

func (w *maestroWorks) publish(
	ctx context.Context, action codec.Action, work *workv1.ManifestWork, deletion *metav1.Time,
) error {
	_, event, err := codec.ManifestBundle.Encode(&codec.Spec{
		Header:  codec.Header{ID: uuid.NewString(), Source: w.source, Cluster: w.cluster, Time: time.Now().UTC()},
		WorkRef: codec.WorkRef{ResourceID: w.ids[work.Name], Name: work.Name, Version: work.Generation},
		Action:  action, DeletionTimestamp: deletion, Work: work,
	})
	if err != nil {
		return err
	}
	request := &pbv1.PublishRequest{Event: &pbv1.CloudEvent{}}
	if err := ocmprotocol.WritePBMessage(ctx, binding.ToMessage(event), request.Event); err != nil {
		return err
	}
	_, err = w.events.Publish(ctx, request)
	return err
}

// Get implements [worktyped.ManifestWorkInterface]. The generation is Maestro's version of the work.
func (w *maestroWorks) Get(ctx context.Context, name string, _ metav1.GetOptions) (*workv1.ManifestWork, error) {
	id := w.ids[name]
	if id == "" {
		return nil, apierrors.NewNotFound(workv1.Resource("manifestworks"), name)
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, w.m.rest+"/resource-bundles/"+id, nil)
	if err != nil {
		return nil, err
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return nil, err
	}
	defer func() { _ = response.Body.Close() }()
	if response.StatusCode == http.StatusNotFound {
		return nil, apierrors.NewNotFound(workv1.Resource("manifestworks"), name)
	}
	var bundle struct {
		Version int64
		Status  struct{ Conditions []metav1.Condition }
	}
	if response.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("%s: %s", request.URL, response.Status)
	}
	if err := json.NewDecoder(response.Body).Decode(&bundle); err != nil {
		return nil, err
	}
	work := &workv1.ManifestWork{ObjectMeta: metav1.ObjectMeta{Name: name, Generation: bundle.Version}}
	work.Status.Conditions = bundle.Status.Conditions
	return work, nil
}
