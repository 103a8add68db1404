// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package ocmgrpc

import (
	"fmt"
	"math/rand/v2"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	workv1 "open-cluster-management.io/api/work/v1"

	"github.com/spokewire/sdk-go/internal/e2e/e2etest"
)

// chaos has the works that a hub must have: the values of their ConfigMaps, 0 for a deleted work.
type chaos struct {
	*Steps
	random *rand.Rand
	values map[string]int
	last   int // value
	faults map[string]int
}

// Chaos writes works at random, while links are cut and stall, and the agent and the server are
// killed. In the end every work is applied and reported, no deleted work has an object, and no
// object is left without a work.
func (s Steps) Chaos(t *testing.T, writes int) {
	t.Helper()
	s.t = t
	s.agent = s.Start()
	defer func() { s.agent.Kill() }()
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	c := &chaos{Steps: &s, random: rand.New(rand.NewPCG(seed, 0)), values: map[string]int{}, faults: map[string]int{}}
	stalled := false
	for range writes {
		if stalled && c.random.IntN(3) == 0 {
			s.Link.Resume()
			stalled = false
		}
		switch fault := c.random.IntN(60); {
		case fault < 2 && !stalled:
			c.faults["kills of the agent"]++
			s.agent.Kill()
			c.write()
			c.write()
			s.agent = s.Start()
		case fault == 2:
			c.faults["kills of the server"]++
			s.Link.Resume()
			stalled = false
			s.Restart()
		case fault < 6:
			c.faults["cuts"]++
			s.Link.Cut()
		case fault < 8 && !stalled:
			c.faults["stalls"]++
			s.Link.Stall()
			stalled = true
		}
		c.write()
	}
	s.Link.Resume()
	if s.Slow {
		s.agent.Kill()
		s.agent = s.Start()
	}
	t.Logf("%d writes, %v", c.last, c.faults)
	for name, value := range c.values {
		if value > 0 {
			s.applied(value, name)
			s.delete(name)
		}
	}
	for name := range c.values {
		s.gone(name)
	}
	s.empty()
}

// write creates, updates or deletes one work.
func (c *chaos) write() {
	c.t.Helper()
	name := fmt.Sprint("w", c.random.IntN(10))
	c.last++
	switch {
	case c.values[name] == 0:
		work := &workv1.ManifestWork{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: spec(name, c.last)}
		_, err := c.Works.Create(c.t.Context(), work, metav1.CreateOptions{})
		switch {
		case apierrors.IsAlreadyExists(err): // the agent has not reported the end of its deletion yet
		case err != nil:
			c.t.Fatal(err)
		default:
			c.values[name] = c.last
		}
	case c.random.IntN(4) == 0:
		e2etest.Eventually(c.t, "delete "+name, func() error {
			return c.Works.Delete(c.t.Context(), name, metav1.DeleteOptions{})
		})
		c.values[name] = 0
	default:
		c.update(c.last, name)
		c.values[name] = c.last
	}
}
