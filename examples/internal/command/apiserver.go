// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package command

import (
	"context"
	"net/http"
	"sync/atomic"
	"time"

	"k8s.io/client-go/discovery"
	"k8s.io/client-go/rest"

	"github.com/spokewire/sdk-go/examples/internal/logging"
)

// APIServer reports whether the API server of a kubeconfig answers.
type APIServer struct {
	// Host is the address of the API server.
	Host string

	flag   string
	client rest.Interface
	away   atomic.Pointer[error]
}

// NewAPIServer returns the API server of the configuration that a flag names.
func NewAPIServer(flag string, config *rest.Config, client *http.Client) (*APIServer, error) {
	c, err := discovery.NewDiscoveryClientForConfigAndClient(config, client)
	if err != nil {
		return nil, err
	}
	return &APIServer{Host: config.Host, flag: flag, client: c.RESTClient()}, nil
}

// Away returns why the API server did not answer the last check, or nil.
func (a *APIServer) Away() error {
	if err := a.away.Load(); err != nil {
		return *err
	}
	return nil
}

// Start checks the API server every 2 s until ctx ends. It logs when the API server does not answer,
// and when it answers again. A nil server has no checks.
func (a *APIServer) Start(ctx context.Context) error {
	if a == nil {
		return nil
	}
	return logging.Watch{
		Lost: "Lost the API server of " + a.flag, Back: "Reached the API server of " + a.flag + " again",
		KeysAndValues: []any{"address", a.Host}, Interval: 2 * time.Second,
		Check: func(ctx context.Context) error {
			err := a.client.Get().AbsPath("/version").Do(ctx).Error()
			if err == nil {
				a.away.Store(nil)
			} else {
				a.away.Store(&err)
			}
			return err
		},
	}.Start(ctx)
}
