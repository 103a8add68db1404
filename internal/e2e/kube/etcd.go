// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package kube

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
)

// Forget makes etcd and the API server forget all earlier history. etcd compacts its history, and
// the API server is restarted, which clears its watch cache.
func (c *Cluster) Forget() {
	c.t.Helper()
	c.mustOwn()
	var now struct {
		Header struct{ Revision string }
	}
	if err := json.Unmarshal(c.etcd("range", `{"key":"AA=="}`), &now); err != nil {
		c.t.Fatalf("kube: the revision of etcd: %v", err)
	}
	c.etcd("compaction", fmt.Sprintf(`{"revision":%q,"physical":true}`, now.Header.Revision))
	c.KillAPIServer() // open watches would delay a graceful end
	c.StartAPIServer()
}

// etcd makes a call through etcd's JSON gateway, which needs no client.
func (c *Cluster) etcd(method, request string) []byte {
	c.t.Helper()
	target := c.env.ControlPlane.Etcd.URL.JoinPath("v3", "kv", method).String()
	response, err := http.Post(target, "application/json", strings.NewReader(request))
	if err != nil {
		c.t.Fatalf("kube: etcd: %v", err)
	}
	body, err := io.ReadAll(response.Body)
	_ = response.Body.Close()
	if err != nil || response.StatusCode != http.StatusOK {
		c.t.Fatalf("kube: etcd: %s of %s: %s: %v", method, request, body, err)
	}
	return body
}
