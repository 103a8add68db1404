// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package e2e_test

import (
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"strings"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/spokewire/sdk-go/appliedwork"
	"github.com/spokewire/sdk-go/internal/e2e/e2etest"
)

// Each campaign worker has its own CRD in its own group, for runs that change the served versions.
// The Kubernetes garbage collector discovers them when it starts: it looks for new kinds only every
// 30 seconds.

func flipGroup(worker int) string { return fmt.Sprintf("flips%d.example.com", worker) }

func flipCRD(worker int) *unstructured.Unstructured {
	return customCRD(flipGroup(worker), "Gizmo", "v1", "v2")
}

// flip starts to change the served versions of the run's CRD, sometimes to none, and the stored
// version. settle ends the changes, with both versions served.
func (c *campaign) flip(stream uint64) (settle func()) {
	if c.flips == nil {
		return func() {}
	}
	random := rand.New(rand.NewPCG(c.seed, stream))
	ctx, cancel := context.WithCancel(context.Background())
	var flipping sync.WaitGroup
	flipping.Go(func() {
		for ctx.Err() == nil {
			_ = c.setFlips(random.IntN(3) > 0, random.IntN(3) > 0, random.IntN(2)) // a failed change is one change less
			select {
			case <-ctx.Done():
			case <-time.After(time.Duration(50+random.IntN(250)) * time.Millisecond):
			}
		}
	})
	return func() {
		cancel()
		flipping.Wait()
		for deadline := time.Now().Add(e2etest.Patience); ; time.Sleep(20 * time.Millisecond) {
			err := c.setFlips(true, true, 0)
			if err == nil {
				err = c.g.isServed(c.flips)
			}
			if err == nil {
				return
			}
			if time.Now().After(deadline) {
				c.t.Errorf("seed %d: the CRD is not served: %v", c.seed, err)
				return
			}
		}
	}
}

func (c *campaign) setFlips(v1, v2 bool, stored int) error {
	live, err := c.g.at(c.flips).Get(context.Background(), c.flips.GetName(), metav1.GetOptions{})
	if err != nil {
		return err
	}
	versions, _, _ := unstructured.NestedSlice(live.Object, "spec", "versions")
	for i, served := range []bool{v1, v2} {
		maps.Copy(versions[i].(map[string]any), map[string]any{"served": served, "storage": i == stored})
	}
	_ = unstructured.SetNestedSlice(live.Object, versions, "spec", "versions")
	changed, err := c.g.at(live).Update(context.Background(), live, metav1.UpdateOptions{})
	if err == nil && changed.GetResourceVersion() != live.GetResourceVersion() {
		c.l.flips.Add(1)
	}
	return err
}

// unread returns the kinds that an audit of the run should have read. Kinds with versions that flip
// for other runs may be missing.
func (c *campaign) unread(report *appliedwork.AuditReport) []string {
	var kinds []string
	for kind := range report.Unread {
		if !strings.Contains(kind, "flips") || c.flips != nil && strings.Contains(kind, groupOf(c.flips)) {
			kinds = append(kinds, kind)
		}
	}
	return kinds
}
