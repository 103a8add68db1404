// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package interpreter

import (
	"fmt"
	"net/http"

	"github.com/spokewire/sdk-go/interpreter/v1alpha1"
)

// exploreRequest converts a request to the Explore protocol.
func exploreRequest(r *v1alpha1.ResourceInterpreterRequest) (*v1alpha1.ExploreRequest, error) {
	operation, ok := r.Operation.Explore()
	if !ok {
		return nil, &RequestError{Code: http.StatusBadRequest, UID: r.UID, Field: "request.operation",
			Problem: fmt.Sprintf("%s does not exist in the Explore protocol", r.Operation)}
	}
	return &v1alpha1.ExploreRequest{
		UID: r.UID, Kind: r.Kind, Name: r.Name, Namespace: r.Namespace, Operation: operation, Object: r.Object,
		ObservedObject: r.ObservedObject, DesiredReplicas: r.DesiredReplicas, AggregatedStatus: r.AggregatedStatus,
	}, nil
}

// interpretRequest converts a request from the Explore protocol. An unknown operation keeps its
// name for the error message.
func interpretRequest(e *v1alpha1.ExploreRequest) v1alpha1.ResourceInterpreterRequest {
	operation, ok := e.Operation.Interpreter()
	if !ok {
		operation = unknownExplore(e.Operation)
	}
	return v1alpha1.ResourceInterpreterRequest{
		UID: e.UID, Kind: e.Kind, Name: e.Name, Namespace: e.Namespace, Operation: operation, Object: e.Object,
		ObservedObject: e.ObservedObject, DesiredReplicas: e.DesiredReplicas, AggregatedStatus: e.AggregatedStatus,
	}
}

// unknownExplore returns an unknown operation: a name of Interpret gets a prefix.
func unknownExplore(o v1alpha1.OperationType) Operation {
	if Operation(o).Known() {
		return Operation("Explore:" + o)
	}
	return Operation(o)
}

// exploreResponse converts a successful response to the Explore protocol.
func exploreResponse(r *v1alpha1.ResourceInterpreterResponse) *v1alpha1.ExploreResponse {
	return &v1alpha1.ExploreResponse{
		UID: r.UID, Patch: r.Patch, PatchType: r.PatchType, ReplicaRequirements: r.ReplicaRequirements,
		Replicas: r.Replicas, Dependencies: r.Dependencies, Status: r.RawStatus, Healthy: r.Healthy,
	}
}

// interpretResponse converts a response from the Explore protocol, which has only successful ones.
func interpretResponse(e *v1alpha1.ExploreResponse) v1alpha1.ResourceInterpreterResponse {
	return v1alpha1.ResourceInterpreterResponse{
		UID: e.UID, Successful: true, Patch: e.Patch, PatchType: e.PatchType, ReplicaRequirements: e.ReplicaRequirements,
		Replicas: e.Replicas, Dependencies: e.Dependencies, RawStatus: e.Status, Healthy: e.Healthy,
	}
}
