// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package interpretertest

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"reflect"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/spokewire/sdk-go/interpreter"
	"github.com/spokewire/sdk-go/interpreter/v1alpha1"
)

// Server describes a webhook to test.
type Server struct {
	URL       string                 // https://…
	Client    *http.Client           // must trust the certificate of the webhook
	Protocols []interpreter.Protocol // defaults to both
	// Cases are queries that the webhook can answer. The form of each answer is checked. The
	// content is compared if the case has an expected answer.
	Cases []Case
}

// CheckServer tests a webhook against the protocols. An invalid request must be answered with an
// HTTP status other than 2xx, or as not successful. An answer must have the protocol, the kind and
// the UID of the request, and the fields that the operation requires.
func CheckServer(t *testing.T, s Server) {
	t.Helper()
	if len(s.Protocols) == 0 {
		s.Protocols = []interpreter.Protocol{interpreter.ProtocolExplore, interpreter.ProtocolInterpret}
	}
	for _, protocol := range s.Protocols {
		for _, bad := range badRequests(protocol) {
			t.Run(string(protocol)+"/"+bad.name, func(t *testing.T) { s.checkRefusal(t, protocol, bad) })
		}
		for i := range s.Cases {
			if _, ok := s.Cases[i].Operation.Explore(); !ok && protocol == interpreter.ProtocolExplore {
				continue
			}
			t.Run(string(protocol)+"/"+s.Cases[i].Name, func(t *testing.T) { s.checkAnswer(t, protocol, &s.Cases[i]) })
		}
	}
}

// badRequest is an HTTP request that a webhook must reject.
type badRequest struct {
	name, method, contentType, body string
	// success is whether a 2xx answer that is not successful is allowed.
	success bool
}

func badRequests(protocol interpreter.Protocol) []badRequest {
	const json = "application/json"
	post := func(name, contentType, body string) badRequest {
		return badRequest{name: name, method: http.MethodPost, contentType: contentType, body: body}
	}
	review := func(kind, version, request string) string {
		return fmt.Sprintf(`{"kind":%q,"apiVersion":%q%s}`, kind, version, request)
	}
	const request = `,"request":{"uid":"u","kind":{"group":"","version":"v1","kind":"ConfigMap"},"name":"n",` +
		`"operation":"NoSuchOperation","object":{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"n"}}}`
	version := v1alpha1.GroupVersion.String()
	unknown := post("unknown operation", json, review(protocol.Kind(), version, request))
	unknown.success = protocol == interpreter.ProtocolInterpret
	return []badRequest{
		{name: "GET", method: http.MethodGet},
		post("content type", "text/plain", unknown.body),
		post("empty body", json, ""),
		post("empty object", json, "{}"),
		post("no request", json, review(protocol.Kind(), version, "")),
		post("unknown kind", json, review("AdmissionReview", version, request)),
		post("unknown version", json, review(protocol.Kind(), "config.karmada.io/v9", request)),
		unknown,
		post("invalid JSON", json, unknown.body[:60]),
		post("large body", json, "{"+strings.Repeat(" ", interpreter.MaxBytes)+"}"),
	}
}

func (s *Server) checkRefusal(t *testing.T, protocol interpreter.Protocol, bad badRequest) {
	code, body := s.do(t, bad.method, bad.contentType, []byte(bad.body))
	if code >= 300 {
		return
	}
	if !bad.success {
		t.Fatalf("the answer is HTTP %d, want an error", code)
	}
	request := &interpreter.Request{Protocol: protocol}
	request.UID = "u"
	response, err := interpreter.DecodeResponse(request, body)
	if err != nil {
		t.Fatal(err)
	}
	if response.Successful || response.Status == nil {
		t.Errorf("the answer is successful, or does not say why not")
	}
}

func (s *Server) checkAnswer(t *testing.T, protocol interpreter.Protocol, c *Case) {
	q, err := c.query()
	if err != nil {
		t.Fatal(err)
	}
	request, err := q.Request(protocol, "5a1f0b1c-interpretertest")
	if err != nil {
		t.Fatal(err)
	}
	body, err := interpreter.EncodeRequest(request)
	if err != nil {
		t.Fatal(err)
	}
	code, answer := s.do(t, http.MethodPost, "application/json; charset=utf-8", body)
	if code != http.StatusOK {
		if c.Want.Error == "" || protocol == interpreter.ProtocolInterpret {
			t.Fatalf("the answer is HTTP %d: %s", code, answer)
		}
		var status metav1.Status
		if json.Unmarshal(answer, &status) == nil && status.Details != nil && status.Details.UID != request.UID {
			t.Errorf("the UID is %q, want %q", status.Details.UID, request.UID)
		}
		return
	}
	response, err := interpreter.DecodeResponse(request, answer)
	if err != nil {
		t.Fatal(err)
	}
	got, err := q.Answer(protocol, response)
	if reflect.DeepEqual(c.Want, Want{}) {
		if err != nil {
			t.Error(err)
		}
	} else if d := c.compare(got, err); d != "" {
		t.Error(d)
	}
}

func (s *Server) do(t *testing.T, method, contentType string, body []byte) (int, []byte) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), method, s.URL, bytes.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	if contentType != "" {
		r.Header.Set("Content-Type", contentType)
	}
	response, err := s.Client.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = response.Body.Close() }()
	answer, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	return response.StatusCode, answer
}
