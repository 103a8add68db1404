// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package interpreter

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/spokewire/sdk-go/internal/jsontext"
	"github.com/spokewire/sdk-go/interpreter/v1alpha1"
)

// Protocol is one of the two formats of requests and answers.
type Protocol string

// The protocols.
const (
	// ProtocolExplore is the protocol of Karmada's first proposal, with ExploreReview.
	ProtocolExplore Protocol = "Explore"
	// ProtocolInterpret is the protocol that Karmada ships, with ResourceInterpreterContext.
	ProtocolInterpret Protocol = "Interpret"
)

// The kinds of the reviews in the body of a request.
const (
	kindExplore   = "ExploreReview"
	kindInterpret = "ResourceInterpreterContext"
)

// Kind returns the kind of requests and answers: ExploreReview or ResourceInterpreterContext.
func (p Protocol) Kind() string {
	if p == ProtocolExplore {
		return kindExplore
	}
	return kindInterpret
}

func (p Protocol) typeMeta() metav1.TypeMeta {
	return metav1.TypeMeta{Kind: p.Kind(), APIVersion: v1alpha1.GroupVersion.String()}
}

// EncodeRequest returns a request as the body of an HTTP request in the request's protocol. It
// returns a [*RequestError] if the protocol does not have the operation.
func EncodeRequest(r *Request) ([]byte, error) {
	var review any
	switch r.Protocol {
	case ProtocolInterpret:
		review = v1alpha1.ResourceInterpreterContext{TypeMeta: r.Protocol.typeMeta(), Request: &r.ResourceInterpreterRequest}
	case ProtocolExplore:
		request, err := exploreRequest(&r.ResourceInterpreterRequest)
		if err != nil {
			return nil, err
		}
		review = v1alpha1.ExploreReview{TypeMeta: r.Protocol.typeMeta(), Request: request}
	default:
		return nil, &RequestError{Code: http.StatusBadRequest,
			Problem: fmt.Sprintf("invalid Request.Protocol: %q: must be Explore or Interpret", r.Protocol)}
	}
	body, err := json.Marshal(review)
	if err != nil {
		return nil, &RequestError{Code: http.StatusBadRequest, Field: "request", Problem: "cannot be encoded", Err: err}
	}
	return body, nil
}

// decodeRequest reads the body of an HTTP request in either protocol. Every error is a
// [*RequestError], with the UID of the request if it could be read.
func decodeRequest(body []byte) (*Request, error) {
	envelope, err := readEnvelope(body, "")
	if err != nil {
		return nil, &RequestError{Code: http.StatusBadRequest, UID: envelope.requestUID(), Problem: err.Error()}
	}
	r := &Request{Protocol: envelope.protocol}
	bad := func(field, problem string, err error) (*Request, error) {
		uid := envelope.requestUID()
		return nil, &RequestError{Code: http.StatusBadRequest, UID: uid, Field: field, Problem: problem, Err: err}
	}
	if kind := jsontext.KindOf(envelope.request); kind != jsontext.Object {
		return bad("request", fmt.Sprintf("is missing: %s requires it", envelope.protocol.Kind()), nil)
	}
	if r.Protocol == ProtocolInterpret {
		if err := jsontext.Decode(envelope.request, &r.ResourceInterpreterRequest); err != nil {
			return bad("request", "cannot be decoded", err)
		}
	} else {
		var e v1alpha1.ExploreRequest
		if err := jsontext.Decode(envelope.request, &e); err != nil {
			return bad("request", "cannot be decoded", err)
		}
		r.ResourceInterpreterRequest = interpretRequest(&e)
	}
	switch {
	case r.UID == "":
		return bad("request.uid", "is missing", nil)
	case r.Operation == "":
		return bad("request.operation", "is missing", nil)
	}
	return r, nil
}

// encodeResponse returns a response as the body of an HTTP response.
func encodeResponse(p Protocol, r *Response) ([]byte, error) {
	response := &r.ResourceInterpreterResponse
	if p == ProtocolInterpret {
		return json.Marshal(v1alpha1.ResourceInterpreterContext{TypeMeta: p.typeMeta(), Response: response})
	}
	if !r.Successful {
		return nil, malformed("response.successful", "is false: the Explore protocol reports failures as an HTTP status", nil)
	}
	return json.Marshal(v1alpha1.ExploreReview{TypeMeta: p.typeMeta(), Response: exploreResponse(response)})
}

// DecodeResponse reads the answer to a request. The protocol, kind, version and UID of the answer
// must be those of the request. DecodeResponse also accepts the answers of Karmada's server, as
// Karmada's caller does: an answer without kind and apiVersion, and a failure without UID. It
// ignores the labelSelector of a dependency with a name, and duplicate dependencies. Every error is
// an [*AnswerError]. DecodeResponse does not check the result of the operation: see [Query].Answer.
func DecodeResponse(request *Request, body []byte) (*Response, error) {
	envelope, err := readEnvelope(body, request.Protocol)
	if err != nil {
		return nil, malformed("the answer", "is not a "+request.Protocol.Kind(), err)
	}
	if envelope.protocol != request.Protocol {
		return nil, malformed("kind",
			fmt.Sprintf("is %s: expected %s as in the request", envelope.protocol.Kind(), request.Protocol.Kind()), nil)
	}
	if jsontext.KindOf(envelope.response) != jsontext.Object {
		return nil, &AnswerError{Problem: ProblemNoResponse, Field: "response", Detail: "is missing"}
	}
	r := &Response{}
	if request.Protocol == ProtocolInterpret {
		err = jsontext.Decode(envelope.response, &r.ResourceInterpreterResponse)
	} else {
		var e v1alpha1.ExploreResponse
		err = jsontext.Decode(envelope.response, &e)
		r.ResourceInterpreterResponse = interpretResponse(&e)
	}
	if err != nil {
		return nil, malformed("response", "cannot be decoded", err)
	}
	// A server that could not read the request answers with a failure without UID.
	if r.UID != request.UID && (r.UID != "" || r.Successful) {
		return nil, &AnswerError{Problem: ProblemWrongUID, Field: "response.uid",
			Detail: fmt.Sprintf("is %q: expected %q as in the request", r.UID, request.UID)}
	}
	for i := range r.Dependencies {
		if d := &r.Dependencies[i]; d.Name != "" {
			d.LabelSelector = nil
		}
	}
	if len(r.Dependencies) > 0 {
		r.Dependencies = unique(r.Dependencies)
	}
	return r, nil
}

func malformed(field, detail string, err error) error {
	return &AnswerError{Problem: ProblemMalformed, Field: field, Detail: detail, Err: err}
}

// envelope is a review with parts that are not decoded yet.
type envelope struct {
	protocol          Protocol
	request, response []byte
}

// requestUID returns the UID of the request, if it can be read.
func (e envelope) requestUID() types.UID {
	uid, _ := jsontext.Text(jsontext.Member(e.request, "uid"))
	return types.UID(uid)
}

// readEnvelope splits a review into its parts. It returns them with an error too. Kind and apiVersion
// may be missing if a protocol is expected.
func readEnvelope(body []byte, expected Protocol) (envelope, error) {
	var e envelope
	if len(body) == 0 {
		return e, errors.New("the body is empty")
	}
	if !jsontext.Valid(body) {
		var syntax any
		return e, fmt.Errorf("the body is not JSON: %w", json.Unmarshal(body, &syntax))
	}
	if jsontext.KindOf(body) != jsontext.Object {
		return e, errors.New("the body is not a JSON object")
	}
	want := v1alpha1.GroupVersion.String()
	kind, version := "", ""
	if expected != "" {
		kind, version = expected.Kind(), want
	}
	if member := jsontext.Member(body, "kind"); member != nil {
		kind, _ = jsontext.Text(member)
	}
	if member := jsontext.Member(body, "apiVersion"); member != nil {
		version, _ = jsontext.Text(member)
	}
	e.request, e.response = jsontext.Member(body, "request"), jsontext.Member(body, "response")
	switch kind {
	case kindExplore:
		e.protocol = ProtocolExplore
	case kindInterpret:
		e.protocol = ProtocolInterpret
	case "":
		return e, errors.New("kind is missing: expected ExploreReview or ResourceInterpreterContext")
	default:
		return e, fmt.Errorf("kind is %q: expected ExploreReview or ResourceInterpreterContext", kind)
	}
	if version != want {
		return e, fmt.Errorf("apiVersion is %q: expected %s", version, want)
	}
	return e, nil
}

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
