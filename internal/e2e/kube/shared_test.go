// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package kube_test

import (
	"os"
	"runtime"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	workclientset "open-cluster-management.io/api/client/work/clientset/versioned"

	"github.com/spokewire/sdk-go/internal/e2e/kube"
)

func TestMain(m *testing.M) { os.Exit(kube.Main(m)) }

// tb is a testing.TB that records a fatal failure.
type tb struct {
	testing.TB
	fatal string
}

func (t *tb) Fatal(args ...any) {
	t.fatal, _ = args[0].(string)
	runtime.Goexit()
}

func TestShared(t *testing.T) {
	first, second := kube.Shared(t), kube.Shared(t)
	if one, other := first.Config().Host, second.Config().Host; one != other {
		t.Errorf("the clusters are at %s and %s, want one", one, other)
	}
	works := workclientset.NewForConfigOrDie(second.Config()).WorkV1().ManifestWorks("default")
	if _, err := works.List(t.Context(), metav1.ListOptions{}); err != nil {
		t.Errorf("list works: %v", err)
	}
	for name, do := range map[string]func(*kube.Cluster){
		"kill":             (*kube.Cluster).KillAPIServer,
		"stop":             (*kube.Cluster).StopAPIServer,
		"restart":          (*kube.Cluster).RestartAPIServer,
		"forget":           (*kube.Cluster).Forget,
		"stop the manager": (*kube.Cluster).StopControllerManager,
		"flags":            func(c *kube.Cluster) { c.StartControllerManager("--kube-api-qps=1") },
	} {
		it, done := &tb{TB: t}, make(chan struct{})
		go func() {
			defer close(done)
			do(kube.Shared(it))
		}()
		if <-done; !strings.Contains(it.fatal, "is shared") {
			t.Errorf("%s: %q; want a refusal", name, it.fatal)
		}
	}
	if _, err := works.List(t.Context(), metav1.ListOptions{}); err != nil {
		t.Errorf("after all that: %v", err)
	}
	first.StartControllerManager()
	second.StartControllerManager() // it runs already
}
