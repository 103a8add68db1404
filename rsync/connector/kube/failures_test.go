// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package kube_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"

	"github.com/go-logr/logr/funcr"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/klog/v2"

	"github.com/spokewire/sdk-go/rsync/appcontext"
	"github.com/spokewire/sdk-go/rsync/connector"
	"github.com/spokewire/sdk-go/rsync/connector/kube"
)

// TestFailedInterpreterIsLogged: an error of the interpreter is logged once for a kind with many
// objects, without the text of an error about a Secret.
func TestFailedInterpreterIsLogged(t *testing.T) {
	a := start(t, false)
	others := serving(func(string, string) string { return `"metadata":{"labels":{}}` })
	a.respond(func(w http.ResponseWriter, r *http.Request) bool {
		const secrets = "/api/v1/namespaces/shop/secrets/"
		w.Header().Set("Content-Type", "application/json")
		switch {
		case r.URL.Path == "/api/v1":
			fmt.Fprint(w, `{"kind":"APIResourceList","apiVersion":"v1","groupVersion":"v1","resources":[
				{"name":"secrets","namespaced":true,"kind":"Secret","verbs":["get","patch"]}]}`)
		case strings.HasPrefix(r.URL.Path, secrets):
			fmt.Fprintf(w, `{"apiVersion":"v1","kind":"Secret","metadata":{"name":%q,"namespace":"shop","uid":"u"}}`,
				strings.TrimPrefix(r.URL.Path, secrets))
		default:
			return others(w, r)
		}
		return true
	})
	c := open(t, kube.Cluster{Config: a.config()}, kube.Options{
		Interpreter: health(func(_ context.Context, u *unstructured.Unstructured) (bool, error) {
			switch u.GetKind() {
			case "Gadget":
				return false, kube.ErrNotInterpreted
			case "Secret":
				return false, errors.New("hunter2 is no password")
			}
			return false, fmt.Errorf("widgets.yaml:6:11: spec.health: no such key: ready%s", strings.Repeat("!", 5000))
		}),
	})
	var mu sync.Mutex
	var lines []string
	ctx := klog.NewContext(t.Context(), funcr.New(func(_, line string) {
		mu.Lock()
		defer mu.Unlock()
		lines = append(lines, line)
	}, funcr.Options{}))
	var all []appcontext.Resource
	for _, name := range []string{"a", "b", "c"} {
		all = append(all, resourceOf("example.com/v1", "Widget", name), resourceOf("example.com/v1", "Gadget", name))
	}
	secret := resourceOf("v1", "Secret", "s")
	secret.Group = ""
	states, err := c.Get(ctx, connector.Batch{Resources: append(all, secret)})
	if err != nil {
		t.Fatal(err)
	}
	if got := states[0].Message; got != "its health is unknown: the interpreter failed" {
		t.Errorf("the message is %q", got)
	}
	mu.Lock()
	defer mu.Unlock()
	text := strings.Join(lines, "\n")
	if len(lines) != 2 || strings.Count(text, "widgets.yaml:6:11: spec.health: no such key: ready!") != 1 ||
		strings.Count(text, `"kind"="Widget"`) != 1 || strings.Count(text, `"kind"="Secret"`) != 1 ||
		strings.Contains(text, "hunter2") || len(text) > 2000 {
		t.Errorf("%d lines with %d bytes: %.3000s", len(lines), len(text), text)
	}
}
