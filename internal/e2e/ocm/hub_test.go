// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package ocm_test

import (
	"bytes"
	"encoding/json"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	auditv1 "k8s.io/apiserver/pkg/apis/audit/v1"

	"github.com/spokewire/sdk-go/internal/e2e/kube"
	"github.com/spokewire/sdk-go/internal/e2e/ocmtest"
)

// auditPolicy records the requests of OCM's work manager.
const auditPolicy = `{"apiVersion": "audit.k8s.io/v1", "kind": "Policy", "omitStages": ["RequestReceived"],
	"rules": [{"level": "Metadata", "users": ["` + managerUser + `"]}, {"level": "None"}]}`

// hub is a cluster that serves OCM's APIs, and records the requests of OCM's work manager.
type hub struct {
	*kube.Cluster
	t     *testing.T
	audit string // the file
}

// startHub starts a cluster with OCM's CRDs and the service account of its work manager. The cluster
// can aggregate other API servers.
func startHub(t *testing.T, names ...string) *hub {
	t.Helper()
	folder := t.TempDir()
	policy := filepath.Join(folder, "policy.json")
	if err := os.WriteFile(policy, []byte(auditPolicy), 0o600); err != nil {
		t.Fatal(err)
	}
	h := &hub{t: t, audit: filepath.Join(folder, "audit.log")}
	h.Cluster = kube.Start(t, kube.Options{CRDs: ocmtest.CRDs(t, names...), Aggregates: true,
		APIServerFlags: map[string][]string{
			"audit-policy-file": {policy},
			"audit-log-path":    {h.audit},
		}})
	h.authorize()
	return h
}

// requests returns the verbs of the manager's requests for works. It fails the test if a request was
// refused, except for a concurrent change or a restart.
func (h *hub) requests(t *testing.T) []string {
	t.Helper()
	content, err := os.ReadFile(h.audit)
	if err != nil {
		t.Fatal(err)
	}
	found := map[string]bool{}
	for line := range bytes.Lines(content) {
		var e auditv1.Event
		if err := json.Unmarshal(line, &e); err != nil {
			continue // the last line may be incomplete
		}
		if e.ObjectRef == nil || e.ObjectRef.Resource != "manifestworks" || e.ResponseStatus == nil ||
			e.Stage == auditv1.StagePanic { // the API server aborts a forwarded watch when its client ends
			continue
		}
		switch e.ResponseStatus.Code {
		case http.StatusOK, http.StatusCreated:
			found[strings.TrimSpace(e.Verb+" "+e.ObjectRef.Subresource)] = true
		case http.StatusConflict, http.StatusNotFound: // the manager's cache was behind
		case http.StatusServiceUnavailable: // the API server of works restarts
		default:
			t.Errorf("%s %s: %+v", e.Verb, e.RequestURI, e.ResponseStatus)
		}
	}
	return slices.Sorted(maps.Keys(found))
}
