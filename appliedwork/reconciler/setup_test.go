// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package reconciler_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"

	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"github.com/spokewire/sdk-go/appliedwork"
	"github.com/spokewire/sdk-go/appliedwork/reconciler"
	"github.com/spokewire/sdk-go/appliedwork/v1alpha1"
)

func options(name string) reconciler.Options {
	client, disco := cluster()
	return reconciler.Options{
		Options:        appliedwork.Options{Client: client, Discovery: disco},
		ControllerName: name,
		Hub:            "hub1",
		Desired: reconciler.DesiredFunc(func(context.Context, *v1alpha1.AppliedWork) (reconciler.Want, error) {
			return reconciler.Want{}, nil
		}),
	}
}

var runs atomic.Int32

// TestTwoHubs runs a Reconciler for each of two hubs in one manager.
func TestTwoHubs(t *testing.T) {
	m, err := manager.New(&rest.Config{Host: "http://127.0.0.1:1"},
		manager.Options{Metrics: server.Options{BindAddress: "0"}})
	if err != nil {
		t.Fatal(err)
	}
	setup := func(name string) error {
		t.Helper()
		r, err := reconciler.New(options(name))
		if err != nil {
			t.Fatal(err)
		}
		return r.SetupWithManager(m)
	}
	run := runs.Add(1) // names are unique in the process, even with -count
	for _, name := range []string{fmt.Sprintf("appliedwork_hub_%d", run), fmt.Sprintf("Hub%d", run)} {
		if err := setup(name); err != nil {
			t.Errorf("%q: %v", name, err)
		}
	}
	if err := setup(""); err != nil && run == 1 {
		t.Errorf("the default: %v", err)
	}
	if err := setup("appliedwork"); err == nil ||
		!strings.Contains(err.Error(), "controller with name appliedwork already exists") {
		t.Errorf("the default again: %v", err)
	}
}

func TestControllerName(t *testing.T) {
	for name, reason := range map[string]string{
		"a\xffb":     "labels of metrics take nothing else than UTF-8",
		"hub 2":      "a space",
		"hub-2":      "a dash",
		"two\nlines": "it is in logs",
		"übersee":    "another letter",
	} {
		_, err := reconciler.New(options(name))
		if !errors.Is(err, appliedwork.ErrInvalidInput) || !strings.Contains(err.Error(), "Options.ControllerName") {
			t.Errorf("%s: %v", reason, err)
		}
	}
}
