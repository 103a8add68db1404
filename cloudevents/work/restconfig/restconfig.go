// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package restconfig

import (
	"fmt"
	"net/http"

	"k8s.io/client-go/rest"
	workclientset "open-cluster-management.io/api/client/work/clientset/versioned"

	"github.com/spokewire/sdk-go/cloudevents/work"
	"github.com/spokewire/sdk-go/cloudevents/work/internal/restapi"
)

// FromSource returns a configuration for clients that use the works of a source. It returns an error
// for nil.
func FromSource(s *work.Source) (*rest.Config, error) {
	if s == nil {
		return nil, fmt.Errorf("restconfig.FromSource: the source must not be nil")
	}
	return from(s.Clientset())
}

// FromAgent returns a configuration for clients that use the works of an agent. It returns an error
// for nil.
func FromAgent(a *work.Agent) (*rest.Config, error) {
	if a == nil {
		return nil, fmt.Errorf("restconfig.FromAgent: the agent must not be nil")
	}
	return from(a.Clientset())
}

func from(c workclientset.Interface) (*rest.Config, error) {
	handler, err := restapi.New(c, restapi.Options{})
	if err != nil {
		return nil, err
	}
	return &rest.Config{
		Host:      "http://manifestworks-over-cloudevents.invalid", // never contacted
		Transport: transport{handler},
		QPS:       -1, // requests are local: no limit is needed
	}, nil
}

// transport calls a handler.
type transport struct{ handler http.Handler }
