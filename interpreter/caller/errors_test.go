// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package caller_test

import (
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/types"

	"github.com/spokewire/sdk-go/interpreter"
	"github.com/spokewire/sdk-go/interpreter/caller"
	"github.com/spokewire/sdk-go/interpreter/v1alpha1"
)

// TestLongTextsAreTruncated checks that a server cannot fill the log with long texts.
func TestLongTextsAreTruncated(t *testing.T) {
	long := strings.Repeat("é", 1<<16)
	for _, test := range []struct {
		name, begin string
		handler     http.Handler
	}{
		{"message", "refused (500): éé", careless(func(r *interpreter.Response) {
			r.Successful, r.Status = false, interpreter.Errored(500, errors.New(long)).Status
		})},
		{"kind", `the answer is not a ResourceInterpreterContext: kind is "éé`,
			http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				fmt.Fprintf(w, `{"kind":%q}`, long)
			})},
		{"UID", `response.uid is "éé`, careless(func(r *interpreter.Response) { r.UID = types.UID(long) })},
		{"name", `response.patch changes metadata.name from "w" to "éé`, careless(func(r *interpreter.Response) {
			r.Patch, r.PatchType = []byte(`[{"op":"replace","path":"/metadata/name","value":"`+long+`"}]`),
				new(v1alpha1.PatchTypeJSONPatch)
		})},
	} {
		t.Run(test.name, func(t *testing.T) {
			server, ca := serve(t, test.handler)
			c := configured(t, caller.Options{}, inter(interpreting("c", at(server.URL, ca))))
			_, err := c.Prune(t.Context(), object())
			failed := reason(t, err)
			if text := err.Error(); len(text) > 1200 || !strings.HasSuffix(text, "é…") ||
				!strings.HasPrefix(failed.Err.Error(), test.begin) {
				t.Errorf("the error has %d bytes: %.200s", len(text), text)
			}
		})
	}
}
