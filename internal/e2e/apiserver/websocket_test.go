// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package apiserver_test

import (
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/gorilla/websocket"
	"k8s.io/client-go/rest"
	workv1 "open-cluster-management.io/api/work/v1"
)

// webSocketEvent watches a work over a websocket, through the API server of the cluster. It returns
// the parts of the first event that do not depend on the server.
func (s *scene) webSocketEvent(namespace, name string) string {
	s.t.Helper()
	config := s.cluster.Config()
	tls, err := rest.TLSConfigFor(config)
	if err != nil {
		s.t.Fatal(err)
	}
	tls.NextProtos = []string{"http/1.1"}
	dialer := websocket.Dialer{TLSClientConfig: tls, HandshakeTimeout: startTime}
	url := fmt.Sprintf("wss:%s/apis/work.open-cluster-management.io/v1/namespaces/%s/manifestworks"+
		"?watch=true&fieldSelector=metadata.name=%s",
		strings.TrimSuffix(strings.TrimPrefix(config.Host, "https:"), "/"), namespace, name)
	conn, response, err := dialer.DialContext(s.t.Context(), url, http.Header{"Origin": {config.Host}})
	if err != nil {
		s.t.Fatal(err, response)
	}
	defer func() { _ = conn.Close() }()
	_ = response.Body.Close()
	var event struct {
		Type   string
		Object workv1.ManifestWork
	}
	if err := conn.SetReadDeadline(time.Now().Add(startTime)); err != nil {
		s.t.Fatal(err)
	}
	if err := conn.ReadJSON(&event); err != nil {
		s.t.Fatal(err)
	}
	o := event.Object
	return fmt.Sprint(event.Type, o.TypeMeta, o.Namespace, o.Name, o.Generation, o.Spec)
}
