// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package grpc_test

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/spokewire/sdk-go/cloudevents/grpc"
)

func TestOtherSources(t *testing.T) {
	denied := errors.New("denied")
	o := &grpc.OtherSources{Source: "hub", Next: grpc.AuthorizerFunc(func(_ context.Context, a grpc.Access) error {
		if a.Cluster == "evil" {
			return denied
		}
		return nil
	})}
	for _, a := range []struct {
		cluster, source string
		want            error
	}{
		{"right", "hub", nil},
		{"wrong", "hubb", nil},
		{"mended", "hubb", nil}, {"mended", "hub", nil},
		{"two", "other", nil}, {"two", "hub", nil}, {"two", "other", nil},
		{"all", "", nil}, // asks all sources
		{"", "hubb", nil},
		{"evil", "hubb", denied},
	} {
		if err := o.Authorize(t.Context(), grpc.Access{Cluster: a.cluster, Source: a.source}); !errors.Is(err, a.want) {
			t.Errorf("%+v: %v", a, err)
		}
	}
	if diff := cmp.Diff(map[string]string{"wrong": "hubb"}, o.Clusters()); diff != "" {
		t.Error(diff)
	}
	for i := range 30_000 {
		if err := o.Authorize(t.Context(), grpc.Access{Cluster: fmt.Sprint(i), Source: "x"}); err != nil {
			t.Fatal(err)
		}
	}
	if n := len(o.Clusters()); n > 20_000 {
		t.Errorf("%d clusters are recorded", n)
	}
}

// A hub reports agents that were started for another source.
func ExampleOtherSources() {
	others := &grpc.OtherSources{Source: "hub", Next: grpc.AuthorizeNames("hub")} // as ServerOptions.Authorizer
	agent := grpc.Identity{User: "c1"}
	err := others.Authorize(context.Background(), grpc.Access{
		Identity: agent, Role: grpc.RoleAgent, Cluster: "c1", Source: "hubb", Topic: "/sources/hubb/clusters/c1/manifests",
	})
	fmt.Println(others.Clusters(), err)
	// Output: map[c1:hubb] <nil>
}
