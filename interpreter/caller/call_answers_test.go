// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package caller_test

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/spokewire/sdk-go/internal/testing/alloctest"
	"github.com/spokewire/sdk-go/interpreter"
	"github.com/spokewire/sdk-go/interpreter/caller"
	"github.com/spokewire/sdk-go/interpreter/interpretertest"
	"github.com/spokewire/sdk-go/interpreter/v1alpha1"
)

var uids = regexp.MustCompile(`[0-9a-f]{8}-[0-9a-f-]{27}`)

// TestInvalidAnswersAreRejected checks the exact error for each unusable answer. The object does not change.
func TestInvalidAnswersAreRejected(t *testing.T) {
	status := map[interpreter.Protocol]string{interpreter.ProtocolExplore: "response.status",
		interpreter.ProtocolInterpret: "response.rawStatus"}
	for _, bad := range interpretertest.BadAnswers() {
		for _, protocol := range bad.Protocols {
			t.Run(string(protocol)+"/"+bad.Name, func(t *testing.T) {
				want := map[string]string{
					"no response":      "NoResponse: response is missing",
					"wrong UID":        "WrongUID: response.uid is \"not-UID\": expected \"UID\" as in the request",
					"missing replicas": "MissingField: response.replicas is missing: the operation requires it",
					"missing health":   "MissingField: response.healthy is missing: the operation requires it",
					"missing status":   "MissingField: " + status[protocol] + " is missing: the operation requires it",
					"missing name of a dependency": "MissingField: response.dependencies[0].name is missing: the operation " +
						"requires it",
					"negative replicas":     "InvalidField: response.replicas is -1: it must not be negative",
					"duplicate component":   "InvalidField: response.components[1].name is a duplicate: \"a\"",
					"patch without type":    "InvalidPatch: response.patchType is missing: response.patch requires it",
					"patch of another type": "InvalidPatch: response.patchType is \"MergePatch\": must be JSONPatch",
					"patch that changes identity": "IdentityChanged: response.patch changes metadata.name from \"w\" to " +
						"\"other\": the answer would be another object",
					"oversized answer":              "TooLarge: the answer is over the limit of 8388608 bytes",
					"unsuccessful without a status": "NoStatus: response.status is missing: a failed request needs a message or a code",
					"unsuccessful":                  "Refused: refused (418): a teapot",
					"not JSON": "Malformed: the answer is not a " + protocol.Kind() +
						": the body is not JSON: invalid character '<' looking for beginning of value",
					"another kind": "Malformed: the answer is not a " + protocol.Kind() +
						": kind is \"AdmissionReview\": expected ExploreReview or ResourceInterpreterContext",
				}[bad.Name]
				server, ca := serve(t, bad)
				configurations := inter(interpreting("c", at(server.URL, ca)))
				if protocol == interpreter.ProtocolExplore {
					configurations = explore(exploring("c", at(server.URL, ca)))
				}
				c := configured(t, caller.Options{}, configurations)
				u := object()
				answer, err := c.Interpret(t.Context(), interpreter.Query{Operation: bad.Operation, Object: u, Replicas: 3})
				var failed *caller.CallError
				if !errors.As(err, &failed) {
					t.Fatalf("%v, want a CallError; the answer is %+v", err, answer)
				}
				got := string(failed.Reason) + ": " + uids.ReplaceAllString(failed.Err.Error(), "UID")
				if want != got {
					t.Errorf("got  %s\nwant %s", got, want)
				}
				if text := fmt.Sprintf("webhook c/w.c.example.com, %s: %s: %v", bad.Operation, failed.Reason,
					failed.Err); err.Error() != text {
					t.Errorf("got  %s\nwant %s", err, text)
				}
				if diff := cmp.Diff(object(), u); diff != "" {
					t.Errorf("the object was changed: %s", diff)
				}
			})
		}
	}
}

// TestConformance checks that the caller passes the suite for callers.
func TestConformance(t *testing.T) {
	interpretertest.CheckCaller(t, func(t *testing.T, configurations caller.Configurations) interpreter.Interpreter {
		return configured(t, caller.Options{}, configurations)
	})
}

// TestForbiddenPatchesAreRejected checks that forbidden patches are rejected.
func TestForbiddenPatchesAreRejected(t *testing.T) {
	for _, test := range []struct {
		name, patch, want string
		operation         interpreter.Operation
	}{
		{"kind", `[{"op":"replace","path":"/kind","value":"Other"}]`,
			"IdentityChanged: response.patch changes kind from \"Workload\" to \"Other\": the answer would be another object",
			v1alpha1.InterpreterOperationReviseReplica},
		{"namespace", `[{"op":"remove","path":"/metadata/namespace"}]`,
			"IdentityChanged: response.patch changes metadata.namespace from \"n\" to \"\": the answer would be another object",
			v1alpha1.InterpreterOperationReviseReplica},
		{"no object", `[{"op":"replace","path":"","value":[]}]`, "InvalidPatch", v1alpha1.InterpreterOperationReviseReplica},
		{"patch that is no list", `{}`, "InvalidPatch: response.patch is not a JSON Patch: expected a list of operations",
			v1alpha1.InterpreterOperationReviseReplica},
		{"missing path", `[{"op":"remove","path":"/spec/x"}]`, "InvalidPatch: response.patch cannot be applied",
			v1alpha1.InterpreterOperationReviseReplica},
		{"failed test", `[{"op":"test","path":"/spec/replicas","value":2}]`, "InvalidPatch: response.patch cannot be applied",
			v1alpha1.InterpreterOperationReviseReplica},
		{"copies that double", doubling(30), "InvalidPatch: response.patch cannot be applied",
			v1alpha1.InterpreterOperationReviseReplica},
		{"too many", many(10_001), "TooLarge: response.patch has 10001 operations: the limit is 10000",
			v1alpha1.InterpreterOperationReviseReplica},
		{"UID is removed", `[{"op":"remove","path":"/metadata/uid"}]`,
			"IdentityChanged: response.patch changes metadata.uid from \"1\" to \"\": the answer would be another object",
			v1alpha1.InterpreterOperationRetain},
		{"Prune removes the UID", `[{"op":"remove","path":"/metadata/uid"}]`, "", v1alpha1.InterpreterOperationPrune},
		{"another UID", `[{"op":"replace","path":"/metadata/uid","value":"2"}]`,
			"IdentityChanged: response.patch changes metadata.uid from \"1\" to \"2\": the answer would be another object",
			v1alpha1.InterpreterOperationPrune},
	} {
		t.Run(test.name, func(t *testing.T) {
			server, ca := serve(t, careless(func(r *interpreter.Response) {
				r.Patch, r.PatchType = []byte(test.patch), new(v1alpha1.PatchTypeJSONPatch)
			}))
			c := configured(t, caller.Options{}, inter(interpreting("c", at(server.URL, ca))))
			u := object()
			u.SetUID("1")
			answer, err := c.Interpret(t.Context(), interpreter.Query{Operation: test.operation, Object: u, Observed: u})
			if test.want == "" {
				if err != nil {
					t.Error(err)
				}
				return
			}
			if err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("got  %v\nwant %s", err, test.want)
			}
			if answer.Object != nil {
				t.Errorf("there is an object: %v", answer.Object)
			}
		})
	}
}

// TestAnswerWithManyPartsIsRejected checks that an answer with millions of small parts is rejected, without using a
// multiple of its size.
func TestAnswerWithManyPartsIsRejected(t *testing.T) {
	parts := "[" + strings.Repeat("{},", 2_700_000) + "{}]"
	patch := base64.StdEncoding.EncodeToString([]byte(`[{"op":"add","path":"/spec/x","value":` + parts[:6_000_000] +
		`]}]`))
	for _, test := range []struct {
		operation       interpreter.Operation
		members, reason string
	}{
		{v1alpha1.InterpreterOperationInterpretDependency, `"dependencies":` + parts,
			"Malformed: response cannot be decoded: it has so many small parts"},
		{v1alpha1.InterpreterOperationInterpretComponent, `"components":` + parts,
			"Malformed: response cannot be decoded: it has so many small parts"},
		{v1alpha1.InterpreterOperationReviseReplica, `"patchType":"JSONPatch","patch":"` + patch + `"`,
			"TooLarge: response.patch makes an object with too many parts"},
	} {
		t.Run(string(test.operation), func(t *testing.T) {
			server, ca := serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				var review v1alpha1.ResourceInterpreterContext
				if err := json.NewDecoder(r.Body).Decode(&review); err != nil {
					http.Error(w, err.Error(), http.StatusBadRequest)
					return
				}
				_, _ = fmt.Fprintf(w,
					`{"kind":"ResourceInterpreterContext","apiVersion":"config.karmada.io/v1alpha1","response":{"uid":%q,"successful":true,%s}}`,
					review.Request.UID, test.members)
			}))
			c := configured(t, caller.Options{}, inter(interpreting("c", at(server.URL, ca))))
			var err error
			query := interpreter.Query{Operation: test.operation, Object: object(), Replicas: 3}
			bytes, _ := alloctest.Cost(func() { _, err = c.Interpret(t.Context(), query) })
			if err == nil || !strings.Contains(err.Error(), test.reason) {
				t.Errorf("got %v", err)
			}
			if bytes > 192<<20 {
				t.Errorf("%d MiB were allocated", bytes>>20)
			}
		})
	}
}

// careless returns a webhook that does not validate its answers.
func careless(answer func(*interpreter.Response)) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var review v1alpha1.ResourceInterpreterContext
		if err := json.NewDecoder(r.Body).Decode(&review); err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		response := interpreter.Succeeded("")
		response.UID = review.Request.UID
		answer(&response)
		review.Request, review.Response = nil, &response.ResourceInterpreterResponse
		_ = json.NewEncoder(w).Encode(review)
	})
}

// doubling returns a patch that copies the spec into itself n times.
func doubling(n int) string {
	var b strings.Builder
	b.WriteString(`[{"op":"add","path":"/x","value":"` + strings.Repeat("x", 1000) + `"}`)
	for i := range n {
		fmt.Fprintf(&b, `,{"op":"copy","from":"/spec","path":"/spec/c%d"}`, i)
		if i == 0 {
			b.WriteString(`,{"op":"copy","from":"/x","path":"/spec/x"}`)
		}
	}
	return b.String() + "]"
}

func many(n int) string {
	return "[" + strings.TrimSuffix(strings.Repeat(`{"op":"test","path":"/kind","value":"Workload"},`, n), ",") + "]"
}
