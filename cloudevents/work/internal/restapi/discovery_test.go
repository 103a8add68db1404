// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package restapi_test

import (
	"bytes"
	"encoding/json"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/rest"
	"k8s.io/klog/v2"
	workclientset "open-cluster-management.io/api/client/work/clientset/versioned"

	"github.com/spokewire/sdk-go/cloudevents/memory"
	"github.com/spokewire/sdk-go/cloudevents/work"
	"github.com/spokewire/sdk-go/internal/testing/background"
)

func newClientset(t *testing.T) workclientset.Interface {
	t.Helper()
	source := sourceOn(t, memory.New())
	background.Run(t, source.Start)
	return source.Clientset()
}

func TestDiscoveryOmitsUnsupportedVerbs(t *testing.T) {
	agent, err := work.NewAgent(memory.New().Transport(), work.AgentOptions{ClusterName: "cluster1"})
	if err != nil {
		t.Fatal(err)
	}
	for _, of := range []struct {
		name, works, status string
		clientset           workclientset.Interface
	}{
		{"source", "delete deletecollection get list patch create update watch", "get", newClientset(t)},
		{"agent", "get list patch update watch", "get patch update", agent.Clientset()},
	} {
		var list metav1.APIResourceList
		body := get(t, handlerOf(t, of.clientset), "/apis/work.open-cluster-management.io/v1", "", "").Body
		if err := json.NewDecoder(body).Decode(&list); err != nil {
			t.Fatal(err)
		}
		got := map[string]string{}
		for i := range list.APIResources {
			got[list.APIResources[i].Name] = strings.Join(list.APIResources[i].Verbs, " ")
		}
		want := map[string]string{"manifestworks": of.works, "manifestworks/status": of.status}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", of.name, diff)
		}
	}
}

// TestDiscoveryServesOldAndNewClients runs clients with and without aggregated discovery at the same
// time: all share the documents.
func TestDiscoveryServesOldAndNewClients(t *testing.T) {
	server := httptest.NewServer(handlerOf(t, newClientset(t)))
	t.Cleanup(server.Close)
	var wg sync.WaitGroup
	for i := range 8 {
		client, err := discovery.NewDiscoveryClientForConfig(&rest.Config{Host: server.URL, QPS: -1})
		if err != nil {
			t.Fatal(err)
		}
		client.UseLegacyDiscovery = i%2 == 0
		wg.Go(func() {
			_, lists, err := client.ServerGroupsAndResources()
			if err != nil || len(lists) != 1 || len(lists[0].APIResources) != 2 {
				t.Errorf("legacy %t: resources %v, error %v", client.UseLegacyDiscovery, lists, err)
			}
			if version, err := client.ServerVersion(); err != nil || version.Major != "1" {
				t.Errorf("version %v, error %v", version, err)
			}
		})
	}
	wg.Wait()
}

func TestNewLogsNothing(t *testing.T) {
	idle, err := work.NewSource(memory.New().Transport(), work.SourceOptions{SourceID: "hub"})
	if err != nil {
		t.Fatal(err)
	}
	var logged bytes.Buffer
	klog.LogToStderr(false)
	defer klog.LogToStderr(true) // State.Restore would race with handlers that end
	klog.SetOutput(&logged)
	handlerOf(t, idle.Clientset())
	klog.Flush()
	if logged.Len() > 0 {
		t.Errorf("logged:\n%s", &logged)
	}
}
