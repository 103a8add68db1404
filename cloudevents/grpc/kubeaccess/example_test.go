// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package kubeaccess_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"

	authorizationv1 "k8s.io/api/authorization/v1"
	"k8s.io/client-go/rest"

	"github.com/spokewire/sdk-go/cloudevents/grpc"
	"github.com/spokewire/sdk-go/cloudevents/grpc/kubeaccess"
)

// A program gets the configuration from rest.InClusterConfig or a kubeconfig. The API server of this
// example allows agents to use the namespace of cluster1.
func ExampleNew() {
	apiServer := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, request *http.Request) {
		var review authorizationv1.SubjectAccessReview
		_ = json.NewDecoder(request.Body).Decode(&review)
		review.Status.Allowed = review.Spec.ResourceAttributes.Namespace == "cluster1"
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(&review)
	}))
	defer apiServer.Close()

	reviews, err := kubeaccess.New(&rest.Config{Host: apiServer.URL}, kubeaccess.Options{})
	if err != nil {
		fmt.Println(err)
		return
	}
	if _, err = grpc.NewServer(grpc.ServerOptions{Tokens: reviews, Authorizer: reviews}); err != nil {
		fmt.Println(err)
		return
	}
	for _, cluster := range []string{"cluster1", "cluster2"} {
		fmt.Println(reviews.Authorize(context.Background(), grpc.Access{
			Identity: grpc.Identity{User: "agent"}, Role: grpc.RoleAgent, Cluster: cluster,
			Topic: "/sources/+/clusters/" + cluster + "/manifests",
		}))
	}
	// Output:
	// <nil>
	// user "agent" cannot watch resource "manifestworks.work.open-cluster-management.io" in the namespace "cluster2"
}
