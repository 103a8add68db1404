// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package restconfig_test

import (
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	workclientset "open-cluster-management.io/api/client/work/clientset/versioned"
	workv1 "open-cluster-management.io/api/work/v1"

	"github.com/spokewire/sdk-go/cloudevents/memory"
	"github.com/spokewire/sdk-go/cloudevents/work"
	"github.com/spokewire/sdk-go/cloudevents/work/restconfig"
)

func configOf(t testing.TB, source *work.Source) *rest.Config {
	t.Helper()
	config, err := restconfig.FromSource(source)
	if err != nil {
		t.Fatal(err)
	}
	return config
}

// recorder keeps the headers of requests.
type recorder struct {
	http.RoundTripper
	mu   sync.Mutex
	sent []http.Header
}

func (r *recorder) RoundTrip(request *http.Request) (*http.Response, error) {
	r.mu.Lock()
	r.sent = append(r.sent, request.Header.Clone())
	r.mu.Unlock()
	return r.RoundTripper.RoundTrip(request)
}

// TestConfigOptions: the options of a configuration work as for any server.
func TestConfigOptions(t *testing.T) {
	source := newSource(t)
	original := configOf(t, source)
	config := rest.AnonymousClientConfig(original)
	config.Transport = original.Transport // the copy without credentials omits it
	config = rest.CopyConfig(config)
	config.UserAgent = "my-controller/v1.2.3 (linux)"
	config.BearerToken = "secret"
	config.Impersonate = rest.ImpersonationConfig{UserName: "other", Groups: []string{"g"}}
	seen := &recorder{}
	config.Wrap(func(next http.RoundTripper) http.RoundTripper { seen.RoundTripper = next; return seen })
	config.Timeout = time.Minute
	c, err := workclientset.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	w, err := c.WorkV1().ManifestWorks("cluster1").Create(t.Context(), manifestWork("a"), metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if m := w.ManagedFields; len(m) != 1 || m[0].Manager != "my-controller" {
		t.Errorf("the default field manager is not the start of the user agent: %+v", m)
	}
	if len(seen.sent) != 1 || seen.sent[0].Get("User-Agent") != config.UserAgent {
		t.Errorf("the wrapper saw %v", seen.sent)
	}
	if original.UserAgent != "" || original.WrapTransport != nil || original.BearerToken != "" {
		t.Errorf("the original has changed: %+v", original)
	}
	config.TLSClientConfig.Insecure = true
	if _, err := workclientset.NewForConfig(config); err == nil || !strings.Contains(err.Error(), "custom transport") {
		t.Errorf("TLS options with a custom transport: %v", err)
	}
}

// TestNoRateLimit: clients of a copy do not wait for the rate limiter of client-go.
func TestNoRateLimit(t *testing.T) {
	config := rest.CopyConfig(configOf(t, newSource(t)))
	c, err := workclientset.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	if limiter := c.WorkV1().RESTClient().GetRateLimiter(); limiter != nil {
		t.Errorf("the client has the rate limiter %+v", limiter)
	}
}

// TestTimeout: a request that waits for the first sync of an agent ends by the timeout of its
// configuration.
func TestTimeout(t *testing.T) {
	agent, err := work.NewAgent(memory.New().Transport(), work.AgentOptions{ClusterName: "c", Sources: []string{"hub"}})
	if err != nil {
		t.Fatal(err)
	}
	config, err := restconfig.FromAgent(agent)
	if err != nil {
		t.Fatal(err)
	}
	config.Timeout = 100 * time.Millisecond
	c, err := workclientset.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	_, err = c.WorkV1().ManifestWorks("c").List(t.Context(), metav1.ListOptions{})
	var timeout interface{ Timeout() bool }
	if !apierrors.IsTimeout(err) && (!errors.As(err, &timeout) || !timeout.Timeout()) {
		t.Errorf("error %v", err)
	}
}

// TestNoCompression: nothing is compressed, also not a list that an API server would compress.
func TestNoCompression(t *testing.T) {
	source := newSource(t)
	works := source.Clientset().WorkV1().ManifestWorks("cluster1")
	large := manifestWork("large")
	large.Annotations = map[string]string{"large": strings.Repeat("x", 200<<10)}
	if _, err := works.Create(t.Context(), large, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	config := configOf(t, source)
	client, err := rest.HTTPClientFor(config)
	if err != nil {
		t.Fatal(err)
	}
	r, err := http.NewRequestWithContext(t.Context(), "GET",
		config.Host+"/apis/work.open-cluster-management.io/v1/manifestworks", nil)
	if err != nil {
		t.Fatal(err)
	}
	response, err := client.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = response.Body.Close() }()
	body, err := io.ReadAll(response.Body)
	if encoding := response.Header.Get("Content-Encoding"); err != nil || encoding != "" || len(body) < 200<<10 {
		t.Errorf("%v, encoding %q, %d bytes", err, encoding, len(body))
	}
}

// TestStop: when the source stops, watches end and later requests return ServiceUnavailable.
func TestStop(t *testing.T) {
	source, err := work.NewSource(memory.New().Transport(), work.SourceOptions{SourceID: "hub"})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- source.Start(ctx) }()
	c, err := workclientset.NewForConfig(configOf(t, source))
	if err != nil {
		t.Fatal(err)
	}
	works := c.WorkV1().ManifestWorks("cluster1")
	events, err := works.Watch(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := works.Create(t.Context(), manifestWork("a"), metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	if e := <-events.ResultChan(); e.Object.(*workv1.ManifestWork).Name != "a" {
		t.Errorf("%+v", e)
	}
	cancel()
	if err := <-done; err != nil {
		t.Error(err)
	}
	if e, ok := <-events.ResultChan(); ok {
		t.Errorf("the watch continues with %+v", e)
	}
	get := c.WorkV1().RESTClient().Get().MaxRetries(0).Namespace("cluster1").Resource("manifestworks").Name("a")
	if err := get.Do(t.Context()).Error(); !apierrors.IsServiceUnavailable(err) {
		t.Errorf("error %v", err)
	} else if _, ok := apierrors.SuggestsClientDelay(err); !ok {
		t.Errorf("no delay in %v", err)
	}
}
