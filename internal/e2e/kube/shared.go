// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package kube

import (
	"errors"
	"fmt"
	"os"
	"sync"
	"testing"

	"github.com/spokewire/sdk-go/internal/e2e/e2etest"
)

// shared is the one cluster of a package's tests, which the first call of Shared starts.
var shared struct {
	sync.Mutex
	folder string // for its certificates; Main creates and removes it
	plane  *plane
	err    error // the error of the start, which all callers get
}

// Shared returns the cluster that the tests of a package share, with the CRDs of
// [ManifestWorkCRDs]. The first call starts it. Tests may use it at the same time, so each uses its
// own namespaces, users and kinds. A test must not stop or restart shared servers: those methods
// fail the test. After a test has called StartControllerManager, the controller manager runs for
// all tests. The package's TestMain must call [Main].
func Shared(t testing.TB) *Cluster {
	t.Helper()
	programs := assets(t, "etcd", "kube-apiserver")
	shared.Lock()
	defer shared.Unlock()
	if shared.folder == "" {
		t.Fatal("kube: nothing would stop the shared cluster: TestMain must call kube.Main")
	}
	if shared.plane == nil {
		shared.plane = newPlane(programs, shared.folder, Options{CRDs: []string{ManifestWorkCRDs(t)}})
		shared.err = shared.plane.start()
	}
	if shared.err != nil {
		t.Fatalf("kube: the shared cluster: %v", shared.err)
	}
	c := &Cluster{plane: shared.plane, t: t, shared: true}
	t.Cleanup(c.showLogs)
	return c
}

// Main is [e2etest.Main] for a package that has a [Shared] cluster, which it stops:
//
//	func TestMain(m *testing.M) { os.Exit(kube.Main(m)) }
func Main(m *testing.M) (status int) {
	var err error
	if shared.folder, err = os.MkdirTemp("", "kube-shared-"); err != nil {
		fmt.Fprintf(os.Stderr, "kube: %v\n", err)
		return 1
	}
	status = e2etest.Main(m)
	if shared.plane != nil {
		shared.plane.stopManager()
		err = shared.plane.env.Stop()
	}
	if err = errors.Join(err, os.RemoveAll(shared.folder)); err != nil {
		fmt.Fprintf(os.Stderr, "kube: stop the shared cluster: %v\n", err)
		return max(status, 1)
	}
	return status
}

// mustOwn fails a test that would disturb the other tests of a shared cluster.
func (c *Cluster) mustOwn() {
	c.t.Helper()
	if c.shared {
		c.t.Fatal("kube: the cluster is shared: a test that stops its servers needs one of its own")
	}
}
