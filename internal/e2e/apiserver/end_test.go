// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package apiserver_test

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/rest"
	workclientset "open-cluster-management.io/api/client/work/clientset/versioned"
	workv1 "open-cluster-management.io/api/work/v1"

	"github.com/spokewire/sdk-go/internal/e2e/e2etest"
	"github.com/spokewire/sdk-go/internal/testing/worktest"
)

// TestRestart ends the server during a list and a watch, and starts it again on the same store, for
// reading only.
func TestRestart(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	s.agent("cluster1")
	client := workclientset.NewForConfigOrDie(s.cluster.Config())
	const count = 64
	for i := range count { // 16 MiB, more than the buffers of a connection
		large := worktest.New(fmt.Sprint("w", i), strings.Repeat("x", 256<<10))
		if _, err := s.works("cluster1").Create(t.Context(), large, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	s.testGracefulEnd(t, count)
	s.start("--read-only")
	s.available()
	s.testReadOnly(client, count)
}

// testGracefulEnd checks that a running list is completed, that a watch is ended and that the
// process then ends by itself.
func (s *scene) testGracefulEnd(t *testing.T, count int) {
	t.Helper()
	list, watch := s.open(worksPath), s.open(worksPath+"?watch=1&resourceVersion=0")
	defer func() { _ = list.Close(); _ = watch.Close() }()
	reader := bufio.NewReader(watch)
	if line, err := reader.ReadString('\n'); err != nil || !strings.Contains(line, `"ADDED"`) {
		t.Fatalf("watch: %.100s, %v; want ADDED", line, err)
	}
	begin := make([]byte, 1000)
	if _, err := io.ReadFull(list, begin); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Kill(s.server.PID(), syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if _, err := io.Copy(io.Discard, reader); err != nil && !errors.Is(err, io.ErrUnexpectedEOF) {
		t.Errorf("end of the watch: %v", err)
	}
	if !s.server.Running() {
		t.Fatal("the server has ended during a list")
	}
	rest, err := io.ReadAll(list)
	if err != nil {
		t.Fatalf("rest of the list: %v", err)
	}
	var works workv1.ManifestWorkList
	if err := json.Unmarshal(slices.Concat(begin, rest), &works); err != nil || len(works.Items) != count {
		t.Errorf("the list has %d works, want %d: %v", len(works.Items), count, err)
	}
	select {
	case <-s.server.Done():
	case <-time.After(e2etest.Patience):
		t.Fatal("the server has not ended")
	}
	if log := s.server.Log(); strings.Contains(log, "work-apiserver: ") {
		t.Errorf("the server reports an error: %s", log)
	}
}

// open begins a request through the API server of the cluster.
func (s *scene) open(path string) io.ReadCloser {
	s.t.Helper()
	transport, err := rest.TransportFor(s.cluster.Config())
	if err != nil {
		s.t.Fatal(err)
	}
	request, err := http.NewRequestWithContext(context.WithoutCancel(s.t.Context()), http.MethodGet,
		strings.TrimSuffix(s.cluster.Config().Host, "/")+path, nil)
	if err != nil {
		s.t.Fatal(err)
	}
	response, err := transport.RoundTrip(request)
	if err != nil {
		s.t.Fatal(err)
	}
	if response.StatusCode != http.StatusOK {
		s.t.Fatalf("%s: %s", path, response.Status)
	}
	return response.Body
}

// testReadOnly checks that the works can be read, that all writes are refused, and that discovery
// shows only the verbs for reading.
func (s *scene) testReadOnly(client workclientset.Interface, count int) {
	s.t.Helper()
	t, works := s.t, client.WorkV1().ManifestWorks("cluster1")
	list, err := works.List(t.Context(), metav1.ListOptions{})
	if err != nil || len(list.Items) != count {
		t.Fatalf("list: %d works, %v; want %d", len(list.Items), err, count)
	}
	for what, call := range map[string]func() error{
		"create": func() error { return s.create(client, "cluster1", "new") },
		"update": func() error {
			_, err := works.Update(t.Context(), &list.Items[0], metav1.UpdateOptions{})
			return err
		},
		"patch": func() error {
			_, err := works.Patch(t.Context(), "w0", "application/merge-patch+json", []byte(`{}`), metav1.PatchOptions{})
			return err
		},
		"delete": func() error { return works.Delete(t.Context(), "w0", metav1.DeleteOptions{}) },
		"deletecollection": func() error {
			return works.DeleteCollection(t.Context(), metav1.DeleteOptions{}, metav1.ListOptions{})
		},
		"update of the status": func() error {
			_, err := works.UpdateStatus(t.Context(), &list.Items[0], metav1.UpdateOptions{})
			return err
		},
	} {
		if err := call(); !apierrors.IsMethodNotSupported(err) || !strings.Contains(err.Error(), "read-only") {
			t.Errorf("%s: %v, want MethodNotAllowed with the reason", what, err)
		}
	}
	d := discovery.NewDiscoveryClientForConfigOrDie(s.cluster.Config())
	e2etest.Eventually(t, "discovery shows only the verbs for reading", func() error {
		_, lists, err := d.ServerGroupsAndResources()
		if err != nil {
			return err
		}
		for _, list := range lists {
			for _, r := range list.APIResources {
				if r.Name == "manifestworks" {
					if got := fmt.Sprint(r.Verbs); got != "[get list watch]" {
						return fmt.Errorf("the verbs are %s", got)
					}
					return nil
				}
			}
		}
		return errors.New("discovery has no manifestworks")
	})
}
