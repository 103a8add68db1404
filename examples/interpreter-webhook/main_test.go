// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"context"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/spokewire/sdk-go/internal/certtest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestExplain(t *testing.T) {
	var out bytes.Buffer
	if err := run(t.Context(), []string{"explain", "testdata/objects.yaml"}, &out); err != nil {
		t.Fatal(err)
	}
	const want = `Workload prod/web
  replicas      3, each cpu=250m memory=64Mi
  healthy       false
  status        {"readyReplicas":2}
  depends on    ConfigMap settings
  depends on    ServiceAccount web
Deployment prod/api
  replicas      1
  healthy       true
  status        {"availableReplicas":1,"replicas":1,"updatedReplicas":1}
  depends on    Secret api-tls
ConfigMap prod/settings
  replicas      -
  healthy       -
  status        -
  dependencies  -
`
	if got := out.String(); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}

func TestServe(t *testing.T) {
	folder := t.TempDir()
	certtest.New(t).Issue(t, "webhook").Write(t, folder, "tls")
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	if err := run(ctx, []string{"serve", "--certs", folder, "--addr", "127.0.0.1:0"}, nil); err != nil {
		t.Error(err)
	}
	for _, args := range [][]string{nil, {"dance"}, {"explain"}, {"serve"}} {
		if err := run(t.Context(), args, nil); err == nil {
			t.Errorf("%s: there is no error", strings.Join(args, " "))
		}
	}
}
