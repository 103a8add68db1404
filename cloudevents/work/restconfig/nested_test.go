// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package restconfig_test

import (
	"testing"

	auditinternal "k8s.io/apiserver/pkg/apis/audit"
	"k8s.io/apiserver/pkg/audit"
	"k8s.io/apiserver/pkg/endpoints/request"
	workv1 "open-cluster-management.io/api/work/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// TestCallFromAPIServerHandler makes calls with the context of a request that a handler of another
// API server serves.
func TestCallFromAPIServerHandler(t *testing.T) {
	c := must(client.New(configOf(t, newSource(t)), client.Options{Scheme: scheme}))
	ctx := request.WithNamespace(request.WithRequestInfo(audit.WithAuditContext(t.Context()), &request.RequestInfo{
		IsResourceRequest: true, Path: "/apis/example.com/v1/namespaces/other/rollouts/r", Verb: "delete",
		APIPrefix: "apis", APIGroup: "example.com", APIVersion: "v1", Namespace: "other", Resource: "rollouts", Name: "r",
	}), "other")
	s := &sink{}
	outer := audit.AuditContextFrom(ctx)
	if err := outer.Init(audit.RequestAuditConfig{Level: auditinternal.LevelRequestResponse}, s); err != nil {
		t.Fatal(err)
	}
	if err := c.Create(ctx, manifestWork("a")); err != nil {
		t.Fatalf("create: %v", err)
	}
	got := &workv1.ManifestWork{}
	if err := c.Get(ctx, client.ObjectKey{Namespace: "cluster1", Name: "a"}, got); err != nil || got.Name != "a" {
		t.Errorf("get: %v, %v; want the work a of cluster1", got, err)
	}
	outer.ProcessEventStage(ctx, auditinternal.StageResponseComplete)
	if s.last == nil || s.last.RequestObject != nil || s.last.ResponseObject != nil {
		t.Errorf("the audit event of the other request has objects: %v", s.last)
	}
}

// sink keeps the last audit event.
type sink struct{ last *auditinternal.Event }

func (s *sink) ProcessEvents(events ...*auditinternal.Event) bool {
	s.last = events[len(events)-1]
	return true
}
